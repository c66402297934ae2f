// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// LLVM's crash recovery, with its signal handlers on a stack of their own: the program's is what a
// recursion without end has used up.

#include "lib/Driver/CrashGuard.h"
#include "trainc/Plugin/Culprit.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/CrashRecoveryContext.h"
#include <csignal>
#include <cstring>

using namespace trainc;

namespace {
/// Enough for a handler, which only leaves the function.
constexpr size_t kStackBytes = 1 << 16;
constexpr int kOnOwnStack[] = {SIGSEGV, SIGBUS};
/// Those that LLVM handles.
constexpr int kSignals[] = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGTRAP};
/// LLVM's handlers, which leave the stack.
struct sigaction leave[std::size(kSignals)];

/// While the stack still tells whose calls there were.
void onSignal(int signal) {
  plugin::noteCulprit();
  leave[llvm::find(kSignals, signal) - std::begin(kSignals)].sa_handler(signal);
}
} // namespace

CrashGuard::CrashGuard() : stack(std::make_unique<char[]>(kStackBytes)) {
  llvm::CrashRecoveryContext::Enable();
  // Signals that a full stack raises.
  stack_t alternative{};
  alternative.ss_sp = stack.get();
  alternative.ss_size = kStackBytes;
  sigaltstack(&alternative, nullptr);
  for (auto [signal, next] : llvm::zip_equal(kSignals, leave)) {
    sigaction(signal, nullptr, &next);
    struct sigaction action = next;
    action.sa_handler = onSignal;
    if (llvm::is_contained(kOnOwnStack, signal))
      action.sa_flags |= SA_ONSTACK;
    sigaction(signal, &action, nullptr);
  }
}

/// In the order in which they were set: the stack is not in use here.
CrashGuard::~CrashGuard() {
  llvm::CrashRecoveryContext::Disable();
  stack_t none{};
  none.ss_flags = SS_DISABLE;
  sigaltstack(&none, nullptr);
}

std::string CrashGuard::run(llvm::function_ref<void()> work) {
  llvm::CrashRecoveryContext context;
  if (context.RunSafely(work))
    return {};
  // LLVM's code of a signal is that of a shell.
  return strsignal(context.RetCode - 128);
}
