// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Who looks at a run command by command: to time it, or to look at values. A device with an
// observer starts commands one by one, in the plan's order, which is slower.
#ifndef TRAINRT_DEVICE_OBSERVER_H
#define TRAINRT_DEVICE_OBSERVER_H

#include "format/status.h"
#include "plan/execution_plan.h"

#include <functional>

namespace trainrt {

class CommandObserver {
public:
  virtual ~CommandObserver() = default;
  /// Bytes [offset, offset + bytes) of a buffer of the function as the host sees them, until the
  /// next call.
  using Read =
      std::function<Status(uint32_t buffer, int64_t offset, int64_t bytes, const void *&host)>;

  /// Whether it reads values: each command is then waited for before it is told of. Otherwise a
  /// device may tell of all of them at the end.
  virtual bool reads() const = 0;
  /// Before the first command; the inputs are there. An error ends the run.
  virtual Status begin(const ExecutionPlan &plan, const Read &read) { return {}; }
  /// Of an exchange that runs beside other steps: how long these waited for it. Before `ran` tells
  /// of it.
  virtual void waited(double seconds) {}
  /// Step `index` of the plan ran from `start` on, in seconds since the first one began.
  virtual Status ran(const ExecutionPlan &plan, size_t index, double start, double seconds,
                     const Read &read) = 0;
};

} // namespace trainrt

#endif // TRAINRT_DEVICE_OBSERVER_H
