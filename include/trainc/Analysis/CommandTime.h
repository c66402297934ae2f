// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How long commands take by a model of the processor: matmuls and attention by their
// FLOPs, everything by the bytes that it touches.
#ifndef TRAINC_ANALYSIS_COMMANDTIME_H
#define TRAINC_ANALYSIS_COMMANDTIME_H

#include "trainc/Analysis/Lifetimes.h"

namespace trainc {

/// Seconds of each command on a processor, one after the other. `bytes`: of `evaluateBytes` for the
/// same symbols. What goes over a link, to the host or to other ranks, takes none. Fails as
/// `evaluateBytes` does.
mlir::FailureOr<llvm::SmallVector<double, 0>> estimateSeconds(const FunctionLifetimes &lifetimes,
                                                              llvm::ArrayRef<int64_t> bytes,
                                                              SymbolLookup symbols,
                                                              const ProcessorSpeeds &speeds);

} // namespace trainc

#endif // TRAINC_ANALYSIS_COMMANDTIME_H
