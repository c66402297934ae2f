// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A plan says how much of the arena is in use where its phases begin and end.

#include "session/phase_memory.h"

#include <algorithm>

namespace trainrt {

void PhaseMemory::tell(int64_t step, const ExecutionPlan &plan, const MemoryUse &use) {
  // All that lasts, without the arena, which phases fill and empty.
  const int64_t lasting = use.total() - use.arena;
  const Function &function = *plan.function;
  const int32_t count = int32_t(function.commands.size());
  auto tell = [&](const char *phase, int64_t live, int64_t most) {
    const int64_t allocated = lasting + live;
    peak = std::max({peak, allocated, lasting + most});
    done({step, phase, allocated, peak, use.total()});
  };
  const ExecutionPlan::PhaseMarks &marks = plan.marks;
  // Without marks only the step as a whole is known.
  if (function.forwardEnd < 0) {
    tell("pre_step", 0, 0);
    return tell("post_step", 0, marks.most[2]);
  }
  // Each phase by what is live at its ends, and the most in between.
  if (function.forwardEnd > 0) {
    tell("pre_forward", 0, 0);
    tell("post_forward", marks.between[0], marks.most[0]);
  }
  if (function.backwardEnd > function.forwardEnd) {
    tell("pre_backward", marks.between[0], 0);
    tell("post_backward", marks.between[1], marks.most[1]);
  }
  // The rest of the commands.
  if (count > function.backwardEnd) {
    tell("pre_update", marks.between[1], 0);
    tell("post_update", 0, marks.most[2]);
  }
}

} // namespace trainrt
