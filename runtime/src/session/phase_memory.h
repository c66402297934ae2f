// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory at the phases of a step, for who asked for it.
#ifndef TRAINRT_SESSION_PHASE_MEMORY_H
#define TRAINRT_SESSION_PHASE_MEMORY_H

#include "device/device.h"
#include "session/options.h"

#include <functional>
#include <utility>

namespace trainrt {

class PhaseMemory {
public:
  void create(std::function<void(const MemoryRecord &)> observer) { done = std::move(observer); }
  bool isWanted() const { return bool(done); }
  /// A step begins.
  void begin() { peak = 0; }
  /// About a plan that has just been enqueued; `use`: what the session holds then.
  void tell(int64_t step, const ExecutionPlan &plan, const MemoryUse &use);

private:
  std::function<void(const MemoryRecord &)> done;
  int64_t peak = 0; ///< of the step so far
};

} // namespace trainrt

#endif // TRAINRT_SESSION_PHASE_MEMORY_H
