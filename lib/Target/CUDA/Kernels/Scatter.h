// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What scatters of rows and of elements share.
#ifndef TRAINC_LIB_TARGET_CUDA_KERNELS_SCATTER_H
#define TRAINC_LIB_TARGET_CUDA_KERNELS_SCATTER_H

#include "Tiles.h"

namespace trainc::codegen {

/// Vectors of the result that a thread of these blocks clears.
inline constexpr int64_t kCleared = 8;

/// Zeros in the block's share of an array of as many `vectors` of `lanes`.
void clearArray(GpuEmitter &e, mlir::Value array, mlir::Type element, mlir::Value vectors,
                unsigned lanes);

void planElementScatter(train::FusionOp fusion, const Structure &structure, GpuPlan &plan);
void mapElementScatter(GpuKernel &kernel);

} // namespace trainc::codegen

#endif // TRAINC_LIB_TARGET_CUDA_KERNELS_SCATTER_H
