// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kinds of commands tell of themselves.

#include "plan/command_info.h"

#include <algorithm>

namespace trainrt {

std::string commandName(const Program &program, const ExecutionPlan &plan, size_t index) {
  return plan.visit(plan.steps[index],
                    [&](const auto &op, const StepView &step) { return op.name(program, step); });
}

std::string exchangeText(const Program &program, const Function &function, const Command &command) {
  constexpr size_t most = 3;
  const size_t count = command.operands.size();
  std::string text = "exchange of ";
  for (size_t i = 0; i < std::min(count, most); ++i)
    text += (i == 0           ? ""
             : i + 1 == count ? " and "
                              : ", ") +
            bufferName(program, function.buffers[command.operands[i].buffer]);
  return text + (count > most ? " and " + std::to_string(count - most) + " others: " : ": ");
}

int64_t commandBytes(const ExecutionPlan &plan, size_t index) {
  return plan.visit(plan.steps[index],
                    [](const auto &op, const StepView &step) { return op.bytes(step); });
}

int64_t commandSent(const ExecutionPlan &plan, size_t index, const RunPlace &place) {
  const auto *op = std::get_if<Collective>(&plan.steps[index].command->op);
  return op ? CollectiveView(plan.view(plan.steps[index]), *op)
                  .work(place.world, place.shards())
                  .sent()
            : 0;
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
