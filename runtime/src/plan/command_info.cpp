// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kinds of commands tell of themselves.

#include "plan/command_info.h"

#include <algorithm>

namespace trainrt {

std::string commandName(const Program &program, const ExecutionPlan &plan, size_t index) {
  return plan.visit(plan.steps[index],
                    [&](const auto &op, const StepView &step) { return op.name(program, step); });
}

int64_t commandBytes(const ExecutionPlan &plan, size_t index) {
  return plan.visit(plan.steps[index],
                    [](const auto &op, const StepView &step) { return op.bytes(step); });
}

namespace {

/// Whether the second is the next stage of the first one's kernel.
/// Stages have the same operands in the same places; what they write is complete behind the last
/// one.
bool isNextStage(const ExecutionPlan &plan, size_t first, size_t second) {
  const ExecutionPlan::Step &one = plan.steps[first], &other = plan.steps[second];
  return std::holds_alternative<Launch>(one.command->op) &&
         std::holds_alternative<Launch>(other.command->op) &&
         std::ranges::equal(plan.view(one).places, plan.view(other).places);
}

} // namespace

void commandResults(const Program &program, const ExecutionPlan &plan, size_t index,
                    std::vector<Region> &results) {
  results.clear();
  if (index + 1 < plan.steps.size() && isNextStage(plan, index, index + 1))
    return;
  plan.visit(plan.steps[index],
             [&](const auto &op, const StepView &step) { op.results(program, step, results); });
}

} // namespace trainrt
