// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which plug-in's function a thread is in: what a program tells that dies of it.
#ifndef TRAINRT_PLAN_RUNNING_EXTERNAL_H
#define TRAINRT_PLAN_RUNNING_EXTERNAL_H

namespace trainrt {

/// Null: in none. May be read in a signal handler of the same thread.
const char *runningExternal();

/// For the time of a call; `what` outlives it.
class RunningExternal {
public:
  explicit RunningExternal(const char *what);
  ~RunningExternal();
  RunningExternal(const RunningExternal &) = delete;
  RunningExternal &operator=(const RunningExternal &) = delete;

private:
  const char *const before;
};

} // namespace trainrt

#endif // TRAINRT_PLAN_RUNNING_EXTERNAL_H
