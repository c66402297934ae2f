// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One word a thread. Loaded with the library, so that a signal handler allocates nothing.

#include "device/cpu/running_external.h"

namespace trainrt {

static thread_local const char *volatile running = nullptr;

const char *runningExternal() { return running; }

RunningExternal::RunningExternal(const char *what) : before(running) { running = what; }

RunningExternal::~RunningExternal() { running = before; }

} // namespace trainrt
