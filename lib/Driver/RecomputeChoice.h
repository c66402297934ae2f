// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// --recompute and --memory-budget, once the functions of the step are there.
#ifndef TRAINC_LIB_DRIVER_RECOMPUTECHOICE_H
#define TRAINC_LIB_DRIVER_RECOMPUTECHOICE_H

#include "lib/Driver/Log.h"
#include "lib/Schedule/Memory/MemoryTrials.h"

namespace trainc {

/// Lets the step compute again what the options ask for; `module` is as the passes of the phase
/// `graph` leave it, `trials` of it, `batch` the symbol of its batch or "". With `list` prints the
/// opportunities and makes that the last phase. `plain` gets the plan without recompute where a
/// report is to compare with it. Returns an exit code, with a message on standard error.
int applyRecompute(mlir::ModuleOp module, MemoryTrials &trials, llvm::StringRef batch,
                   CompileOptions &options, Log &log, mlir::OwningOpRef<mlir::ModuleOp> &plain);

} // namespace trainc

#endif // TRAINC_LIB_DRIVER_RECOMPUTECHOICE_H
