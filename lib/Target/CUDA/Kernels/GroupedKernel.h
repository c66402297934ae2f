// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Several launches of one kernel at once: hundreds of small tensors, each with an optimizer update
// of a microsecond, would otherwise cost their launches.
#ifndef TRAINC_LIB_TARGET_CUDA_KERNELS_GROUPEDKERNEL_H
#define TRAINC_LIB_TARGET_CUDA_KERNELS_GROUPEDKERNEL_H

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

namespace trainc::codegen {

std::string groupedName(llvm::StringRef kernel);

/// Adds the grouped form of a kernel behind it: `(ptr blocks, ptr table, ptr error)`. `blocks`
/// holds for every block of the launch its member and its number in there (two i32), `table` for
/// every member the arguments of the kernel but the error slot, eight bytes each. The slot is the
/// launch's: what `reportNumber` writes there tells the member (`NumberReport::members`).
void addGroupedKernel(mlir::LLVM::LLVMFuncOp kernel);

} // namespace trainc::codegen

#endif // TRAINC_LIB_TARGET_CUDA_KERNELS_GROUPEDKERNEL_H
