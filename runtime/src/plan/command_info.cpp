// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kinds of commands tell of themselves.

#include "plan/command_info.h"

#include <algorithm>

namespace trainrt {

std::string commandName(const Program &program, const ExecutionPlan &plan, size_t index) {
  return plan.visit(plan.steps[index],
                    [&](const auto &op, const StepView &step) { return op.name(program, step); });
}

/// Of a tensor of a collective, in words: a gradient in the arena by the update that reads it
/// beside its parameter. Of one that is cut it is the shard that an update reads.
static std::string exchangedName(const Program &program, const Function &function,
                                 const Buffer &sent, uint32_t own) {
  for (const Command &user : function.commands) {
    const auto *launch = std::get_if<Launch>(&user.op);
    if (!launch || function.buffers[own].space != Space::Arena)
      continue;
    const size_t args = user.operands.size() / launch->numMembers();
    for (size_t i = 0; i < user.operands.size(); ++i)
      if (user.operands[i].buffer == own && user.operands[i].isRead())
        for (size_t other = i / args * args; other < (i / args + 1) * args; ++other)
          if (const Operand &beside = user.operands[other];
              beside.isPresent() && function.buffers[beside.buffer].space == Space::Parameter)
            return "the gradient of " + bufferName(program, function.buffers[beside.buffer]);
  }
  return bufferName(program, sent);
}

std::string exchangeText(const Program &program, const Function &function, const Command &command) {
  constexpr size_t most = 3;
  const auto &collective = std::get<Collective>(command.op);
  // Of one that does not work in place the second half are the results.
  const size_t count = command.operands.size() / (collective.isInPlace() ? 1 : 2);
  const bool makesSums = collective.kind != Collective::Kind::AllGather;
  const size_t made = makesSums && !collective.isInPlace() ? count : 0;
  std::string text = "exchange of ";
  for (size_t i = 0; i < std::min(count, most); ++i)
    text += (i == 0           ? ""
             : i + 1 == count ? " and "
                              : ", ") +
            exchangedName(program, function, function.buffers[command.operands[i].buffer],
                          command.operands[made + i].buffer);
  return text + (count > most ? " and " + std::to_string(count - most) + " others: " : ": ");
}

int64_t commandBytes(const ExecutionPlan &plan, size_t index) {
  return plan.visit(plan.steps[index],
                    [](const auto &op, const StepView &step) { return op.bytes(step); });
}

/// Kinds without operations have no such member; nor have those with nothing else to tell.
int64_t commandFlops(const ExecutionPlan &plan, size_t index) {
  return plan.visit(plan.steps[index], [](const auto &op, const StepView &step) {
    if constexpr (requires { op.flops(step); })
      return op.flops(step);
    else
      return int64_t(0);
  });
}

CommandClass commandClass(const ExecutionPlan &plan, size_t index) {
  return plan.visit(plan.steps[index], [](const auto &op, const StepView &step) {
    if constexpr (requires { op.commandClass(step); })
      return op.commandClass(step);
    else
      return CommandClass::Other;
  });
}

CommandShape commandShape(const ExecutionPlan &plan, size_t index, const char *&type) {
  type = "";
  return plan.visit(plan.steps[index], [&](const auto &op, const StepView &step) {
    if constexpr (requires { op.shape(step); }) {
      type = nameOf(op.dtype);
      return op.shape(step);
    } else {
      return CommandShape();
    }
  });
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
