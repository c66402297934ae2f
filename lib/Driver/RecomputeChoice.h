// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// --recompute and --memory-budget, once the functions of the step are there.
#ifndef TRAINC_LIB_DRIVER_RECOMPUTECHOICE_H
#define TRAINC_LIB_DRIVER_RECOMPUTECHOICE_H

#include "lib/Driver/Log.h"
#include "mlir/IR/BuiltinOps.h"
#include "trainc/Driver.h"

namespace trainc {

/// Lets the step compute again what the options ask for; `module` is as the passes of the phase
/// `graph` leave it. With `list` prints the opportunities and makes that the last phase. Returns an
/// exit code, with a message on standard error.
int applyRecompute(mlir::ModuleOp module, CompileOptions &options, Log &log);

} // namespace trainc

#endif // TRAINC_LIB_DRIVER_RECOMPUTECHOICE_H
