// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Work that may crash, and control behind it: what makes a reproducer of a crash possible.
#ifndef TRAINC_LIB_DRIVER_CRASHGUARD_H
#define TRAINC_LIB_DRIVER_CRASHGUARD_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include <memory>
#include <string>

namespace trainc {

/// While it lives, `run` survives crash signals, stack overflow among them. One at a time.
class CrashGuard {
public:
  CrashGuard();
  ~CrashGuard();
  CrashGuard(const CrashGuard &) = delete;
  CrashGuard &operator=(const CrashGuard &) = delete;

  /// Calls `work`; returns the name of the signal that ended it, "" if none did. After a signal the
  /// objects that `work` used must be neither used nor destroyed.
  std::string run(llvm::function_ref<void()> work);

private:
  std::unique_ptr<char[]> stack;
};

} // namespace trainc

#endif // TRAINC_LIB_DRIVER_CRASHGUARD_H
