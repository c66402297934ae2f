// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// --recompute and --memory-budget, as passes of the phase `graph` and as what is told of them.
#ifndef TRAINC_LIB_DRIVER_RECOMPUTECHOICE_H
#define TRAINC_LIB_DRIVER_RECOMPUTECHOICE_H

#include "lib/Driver/Log.h"
#include "lib/Schedule/Memory/MemoryTrials.h"
#include "mlir/Pass/PassManager.h"
#include "trainc/Driver.h"

namespace trainc {

/// What a schedule is made for with these options.
TrialOptions trialOptions(const CompileOptions &options);

/// Reads the file that `config` names, if it is no configuration, into it. Returns what is wrong,
/// or "".
std::string readRecompute(std::string &config);

/// Whether anything is computed again.
bool recomputes(const CompileOptions &options);
/// Adds the pass that does it. What it chooses is told; `refused` is set where no choice fits.
void addRecompute(mlir::OpPassManager &pm, const CompileOptions &options, Log &log, bool &refused);

/// --recompute list: prints the opportunities of the module that the phase `graph` leaves.
mlir::LogicalResult listOpportunities(mlir::ModuleOp module, const CompileOptions &options,
                                      codegen::KernelCodegen &kernels, Log &log);

/// The plan without recompute, of the module that the phase `graph` begins with: what a report
/// compares with. Nothing is told of it.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> planPlain(mlir::ModuleOp legalized,
                                                             const CompileOptions &options,
                                                             codegen::KernelCodegen &kernels,
                                                             Log &log);

} // namespace trainc

#endif // TRAINC_LIB_DRIVER_RECOMPUTECHOICE_H
