// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One compilation: what its phases know and make.
#ifndef TRAINC_LIB_DRIVER_COMPILATION_H
#define TRAINC_LIB_DRIVER_COMPILATION_H

#include "lib/Driver/Diagnostics.h"
#include "lib/Driver/Outputs.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Support/Timing.h"
#include "trainc/Package/Package.h"
#include <chrono>

namespace trainc {

/// Handed from phase to phase (lib/Driver/Phases); each fills what is its own.
struct Compilation {
  explicit Compilation(const CompileOptions &options);

  /// Whether the IR of this phase is replaced, with --start-from, by that of the file or of a phase
  /// behind it. It runs nevertheless: for what is not in the IR, the model's weights and identity,
  /// and what the package offers.
  bool precedesSavedIR(llvm::StringRef phase) const;
  /// At the end of a phase: takes the IR that --start-from names, where it is this phase's. The
  /// exit code.
  int takeSavedIR(llvm::StringRef phase);
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  /// The phases complete them: by the model, where the command line leaves something open.
  CompileOptions options;
  Log log;
  mlir::MLIRContext context;
  DiagnosticPrinter printer;
  Outputs outputs;
  /// Of all of it, and of the phase under way.
  mlir::DefaultTimingManager timing;
  mlir::TimingScope rootTimer, timer;
  const std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();

  /// What code is generated with. It loads dialects, which must happen outside of pass managers.
  std::unique_ptr<codegen::KernelCodegen> codegen;
  /// The program, as the last phase has left it.
  mlir::OwningOpRef<mlir::ModuleOp> module;
  /// Of `import`.
  ImportedModel model;
  /// Of `legalize`.
  LegalizeResult legalized;
  /// Of `graph`: that no choice is within --memory-budget; and the plan without recompute, where a
  /// report compares with it.
  bool budgetRefused = false;
  mlir::OwningOpRef<mlir::ModuleOp> plain;
  /// Of `schedule`: what the package offers, from the functions while they are functions.
  PackageInterface interface;
  /// What is in the package beside the weights.
  PackageContents contents;
};

/// For a target and its processors, as the options say; `variants`: kernels in a few ways each.
std::unique_ptr<codegen::KernelCodegen> makeCodegen(Compilation &compilation, bool variants);

} // namespace trainc

#endif // TRAINC_LIB_DRIVER_COMPILATION_H
