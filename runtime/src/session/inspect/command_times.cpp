// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Commands as they ran, those of loops added up.

#include "session/inspect/command_times.h"

namespace trainrt {

Status CommandTimes::ran(const ExecutionPlan &plan, size_t index, double start, double seconds,
                         const Read &) {
  CommandRecord record;
  const Command &command = *plan.steps[index].command;
  record.function = plan.function;
  record.index = size_t(&command - plan.function->commands.data());
  record.name = commandName(program, plan, index);
  for (uint32_t node : command.nodes)
    record.nodes.push_back(program.nodes[node].c_str());
  record.start = start;
  record.seconds = seconds;
  record.bytes = commandBytes(plan, index);
  record.flops = commandFlops(plan, index);
  record.kind = commandClass(plan, index);
  record.shape = commandShape(plan, index, record.type);
  record.sent = commandSent(plan, index, place);
  // Where nothing runs beside it all others wait.
  if (std::holds_alternative<Collective>(command.op))
    record.waited = waitedFor.value_or(seconds);
  waitedFor.reset();
  // A run that was stopped in a loop has left some.
  if (index == 0)
    loops.clear(), repeated.clear();
  const auto *loop = std::get_if<Loop>(&command.op);
  if (loop && !loop->isEnd) {
    const LoopView view(plan.view(plan.steps[index]), *loop);
    if (!view.isEmpty())
      loops.push_back(view.steps());
  }
  if (loops.empty()) {
    done(record);
    return {};
  }
  auto [known, isFirst] = repeated.try_emplace(index, record);
  if (!isFirst) {
    known->second.seconds += seconds;
    known->second.bytes += record.bytes;
    known->second.flops += record.flops;
    known->second.sent += record.sent;
  }
  if (loop && loop->isEnd && --loops.back() == 0)
    loops.pop_back();
  if (!loops.empty())
    return {};
  for (const auto &[number, sum] : repeated)
    done(sum);
  repeated.clear();
  return {};
}

} // namespace trainrt
