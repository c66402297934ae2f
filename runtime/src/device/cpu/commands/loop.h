// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The loops that a run is in.
#ifndef TRAINRT_DEVICE_CPU_COMMANDS_LOOP_H
#define TRAINRT_DEVICE_CPU_COMMANDS_LOOP_H

#include "plan/execution_plan.h"

namespace trainrt {

class Loops {
public:
  /// The command that runs behind the one at `index`. Where that begins a step, the addresses of
  /// its slices in `buffers` become those of the step.
  size_t next(const ExecutionPlan &plan, size_t index, std::vector<void *> &buffers);

private:
  struct Open {
    size_t begin;
    int64_t step; ///< that comes next
  };
  static void place(const LoopView &view, int64_t step, std::vector<void *> &buffers);

  std::vector<Open> open; ///< the innermost last
};

} // namespace trainrt

#endif // TRAINRT_DEVICE_CPU_COMMANDS_LOOP_H
