// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How a phase runs: timed, and guarded against crashes; where the compiler is at fault with a
// reproducer; its IR saved where that is asked for.
#ifndef TRAINC_LIB_DRIVER_PHASERUNNER_H
#define TRAINC_LIB_DRIVER_PHASERUNNER_H

#include "lib/Driver/Compilation.h"
#include "lib/Driver/CrashGuard.h"
#include "mlir/Pass/PassManager.h"

namespace trainc {

class PhaseRunner {
public:
  using BuildPipeline = llvm::function_ref<void(mlir::OpPassManager &)>;

  explicit PhaseRunner(Compilation &compilation) : c(compilation) {}

  /// Runs a phase: `work` returns its exit code. `build`: its passes, if it is one of passes, by
  /// which one that fails is found. Returns the exit code where the compilation ends here.
  std::optional<int> run(llvm::StringRef phase, llvm::function_ref<int()> work,
                         BuildPipeline build = nullptr);
  /// Calls the work of a phase; returns the signal that ended it, "" if none did.
  std::string guarded(llvm::StringRef phase, llvm::function_ref<void()> work);

  /// After a crash the compilation must not be destroyed: what it holds may be damaged.
  bool hasCrashed() const { return crashed; }

private:
  /// What follows a phase that has succeeded.
  std::optional<int> finish(llvm::StringRef phase);
  /// Tells of a fault of the compiler, and writes a reproducer. The exit code.
  int reportFault(llvm::StringRef phase, std::string fault, BuildPipeline build);

  Compilation &c;
  CrashGuard guard;
  /// What a reproducer of the phase begins with.
  mlir::OwningOpRef<mlir::ModuleOp> before;
  bool crashed = false;
};

} // namespace trainc

#endif // TRAINC_LIB_DRIVER_PHASERUNNER_H
