// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Times of commands for who asked for them.
#ifndef TRAINRT_SESSION_INSPECT_COMMAND_TIMES_H
#define TRAINRT_SESSION_INSPECT_COMMAND_TIMES_H

#include "device/observer.h"
#include "plan/command_info.h"
#include "session/options.h"

#include <functional>
#include <optional>
#include <utility>

namespace trainrt {

/// Passes on what commands there were and how long they took.
class CommandTimes final : public CommandObserver {
public:
  /// `world`: ranks that train together.
  CommandTimes(const Program &program, int world, std::function<void(const CommandRecord &)> done)
      : program(program), world(world), done(std::move(done)) {}
  bool reads() const override { return false; }
  void waited(double seconds) override { waitedFor = seconds; }
  Status ran(const ExecutionPlan &plan, size_t index, double start, double seconds,
             const Read &) override {
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
    record.sent = commandSent(plan, index, world);
    // Where nothing runs beside it all others wait.
    if (std::holds_alternative<Collective>(command.op))
      record.waited = waitedFor.value_or(seconds);
    waitedFor.reset();
    done(record);
    return {};
  }

private:
  const Program &program;
  const int world;
  const std::function<void(const CommandRecord &)> done;
  std::optional<double> waitedFor; ///< the exchange that is told next
};

} // namespace trainrt

#endif // TRAINRT_SESSION_INSPECT_COMMAND_TIMES_H
