// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The work of each phase on a compilation. Functions with an exit code return it after messages.
#ifndef TRAINC_LIB_DRIVER_PHASES_PHASES_H
#define TRAINC_LIB_DRIVER_PHASES_PHASES_H

#include "lib/Driver/Compilation.h"
#include "mlir/Pass/PassManager.h"

namespace trainc {

/// Reads the model, or the artifacts, and decides on the optimizer; then opens what is written
/// while passes run.
int importModel(Compilation &c);
/// Makes @forward, with adapters; tells what is trained.
int legalizeModel(Compilation &c);
/// Runs the passes that `build` adds, those of `graph` or `schedule`.
int runPhasePasses(Compilation &c, llvm::StringRef phase,
                   llvm::function_ref<void(mlir::OpPassManager &)> build);
/// Says which ops stay in fp32 though `--precision` asks for less, since the target computes
/// matmuls alone in it. Behind the phase `graph`; `--explain` has the nodes.
void tellWideOps(Compilation &c);
/// Makes the plan and the code of its kernels.
int generateCode(Compilation &c);
/// The program from the plan, into the contents.
int makeProgram(Compilation &c);
/// Writes the package.
int makePackage(Compilation &c);

/// Adds the passes of a phase, and the one that checks what it leaves behind.
void buildPhase(Compilation &c, llvm::StringRef phase, mlir::OpPassManager &pm);
/// Runs them, for a phase that does other work before.
int runPlainPasses(Compilation &c, llvm::StringRef phase);
/// --print-pipeline; after legalization, which has the last word on what the passes are to do.
void printPipelines(Compilation &c);
/// Collects what the package offers.
mlir::LogicalResult readInterface(Compilation &c);

} // namespace trainc

#endif // TRAINC_LIB_DRIVER_PHASES_PHASES_H
