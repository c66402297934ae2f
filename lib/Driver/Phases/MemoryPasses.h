// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// --recompute and --memory-budget as passes of the phase `graph`, --offload as one of `codegen`.
#ifndef TRAINC_LIB_DRIVER_PHASES_MEMORYPASSES_H
#define TRAINC_LIB_DRIVER_PHASES_MEMORYPASSES_H

#include "lib/Driver/Log.h"
#include "mlir/Pass/PassManager.h"
#include "trainc/Driver/Driver.h"
#include "trainc/Schedule/Memory/TrialOptions.h"

namespace trainc {

/// What a schedule is made for with these options.
TrialOptions trialOptions(const CompileOptions &options);

/// Whether anything is computed again.
bool recomputes(const CompileOptions &options);
/// Adds the pass that does it. What it chooses is told; `refused` is set where no choice fits.
void addRecompute(mlir::OpPassManager &pm, const CompileOptions &options, Log &log, bool &refused);

/// Adds the pass of --offload, where that is asked for.
void addOffload(mlir::OpPassManager &pm, const CompileOptions &options);

} // namespace trainc

#endif // TRAINC_LIB_DRIVER_PHASES_MEMORYPASSES_H
