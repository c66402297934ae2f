// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What could be computed again: --recompute list.
#ifndef TRAINC_SCHEDULE_MEMORY_OPPORTUNITYTABLE_H
#define TRAINC_SCHEDULE_MEMORY_OPPORTUNITYTABLE_H

#include "trainc/Schedule/Memory/MemoryTrials.h"

namespace trainc {

/// Prints the opportunities of the step of a module that the phase `graph` leaves, then those of
/// its variants; bytes and milliseconds where all sizes have a number. Nothing is printed where no
/// function trains. Fails with a diagnostic.
mlir::LogicalResult listOpportunities(mlir::ModuleOp module, const TrialOptions &options,
                                      codegen::KernelCodegen &kernels, llvm::raw_ostream &out);

} // namespace trainc

#endif // TRAINC_SCHEDULE_MEMORY_OPPORTUNITYTABLE_H
