// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Times of commands for who asked for them.
#ifndef TRAINRT_SESSION_INSPECT_COMMAND_TIMES_H
#define TRAINRT_SESSION_INSPECT_COMMAND_TIMES_H

#include "device/observer.h"
#include "plan/command_info.h"
#include "session/options.h"

#include <functional>
#include <map>
#include <optional>
#include <utility>

namespace trainrt {

/// Passes on what commands there were and how long they took; of those in a loop all steps
/// together, once it has ended.
class CommandTimes final : public CommandObserver {
public:
  /// `place`: which of the ranks that train together this is.
  CommandTimes(const Program &program, const RunPlace &place,
               std::function<void(const CommandRecord &)> done)
      : program(program), place(place), done(std::move(done)) {}
  bool reads() const override { return false; }
  void waited(double seconds) override { waitedFor = seconds; }
  Status ran(const ExecutionPlan &plan, size_t index, double start, double seconds,
             const Read &) override;

private:
  const Program &program;
  const RunPlace place;
  const std::function<void(const CommandRecord &)> done;
  std::optional<double> waitedFor; ///< the exchange that is told next
  /// Of the loops that the run is in, the innermost last: steps that are left.
  std::vector<int64_t> loops;
  /// What has run in them, by command.
  std::map<size_t, CommandRecord> repeated;
};

} // namespace trainrt

#endif // TRAINRT_SESSION_INSPECT_COMMAND_TIMES_H
