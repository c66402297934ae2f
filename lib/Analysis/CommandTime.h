// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How long commands take by a model of the processor: matrix products and attention by their
// FLOPs, everything by the bytes that it touches.
#ifndef TRAINC_LIB_ANALYSIS_COMMANDTIME_H
#define TRAINC_LIB_ANALYSIS_COMMANDTIME_H

#include "lib/Analysis/Lifetimes.h"

namespace trainc {

/// What the model takes a processor to do in a second, and the seconds until a command begins.
struct ProcessorSpeed {
  double flops, bytes;
  double launch = 2e-6;
};
inline constexpr ProcessorSpeed kCpuSpeed{1e11, 2e10};
/// Of a GPU: products in 32 bits, of 32 bits rounded to TF32, and in 16 bits.
inline constexpr ProcessorSpeed kGpuSpeed{4e13, 3e12};
inline constexpr ProcessorSpeed kGpuTF32Speed{2.5e14, 3e12};
inline constexpr ProcessorSpeed kGpuLowPrecisionSpeed{5e14, 3e12};

/// Seconds of each command on a GPU, one after the other. `bytes`: of `evaluateBytes` for the same
/// symbols. What goes over the link to the host takes none: it runs beside the others. Fails as
/// `evaluateBytes` does.
mlir::FailureOr<llvm::SmallVector<double, 0>> estimateGpuSeconds(const FunctionLifetimes &lifetimes,
                                                                 llvm::ArrayRef<int64_t> bytes,
                                                                 SymbolLookup symbols);

} // namespace trainc

#endif // TRAINC_LIB_ANALYSIS_COMMANDTIME_H
