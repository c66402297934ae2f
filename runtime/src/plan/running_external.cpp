// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One word a thread, loaded with the library, so that a signal handler allocates nothing; and a
// stack for the handler, as a recursion without end leaves none.

#include "plan/running_external.h"

#include <csignal>
#include <memory>

namespace trainrt {

static thread_local const char *volatile running = nullptr;

namespace {

/// Of a thread that has called a plug-in, unless it has one of its own.
class HandlerStack {
public:
  HandlerStack() {
    stack_t own{};
    if (sigaltstack(nullptr, &own) || !(own.ss_flags & SS_DISABLE))
      return;
    bytes = std::make_unique<char[]>(kBytes);
    own.ss_sp = bytes.get();
    own.ss_size = kBytes;
    own.ss_flags = 0;
    sigaltstack(&own, nullptr);
  }
  ~HandlerStack() {
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    if (bytes)
      sigaltstack(&none, nullptr);
  }
  HandlerStack(const HandlerStack &) = delete;
  HandlerStack &operator=(const HandlerStack &) = delete;

private:
  static constexpr size_t kBytes = 1 << 16;
  std::unique_ptr<char[]> bytes;
};

} // namespace

const char *runningExternal() { return running; }

RunningExternal::RunningExternal(const char *what) : before(running) {
  static thread_local const HandlerStack stack;
  running = what;
}

RunningExternal::~RunningExternal() { running = before; }

} // namespace trainrt
