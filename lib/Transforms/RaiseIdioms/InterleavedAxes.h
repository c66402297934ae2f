// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every n-th element of rows, as rotary positions of neighbours take them.
#ifndef TRAINC_TRANSFORMS_RAISEIDIOMS_INTERLEAVEDAXES_H
#define TRAINC_TRANSFORMS_RAISEIDIOMS_INTERLEAVEDAXES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace trainc {

/// Lets slices of rows with a step, of which there are several of one value, take a part of an axis
/// of their own: neighbours are apart then, and `keepGroups` computes with them.
void splitInterleaved(mlir::func::FuncOp function);

} // namespace trainc

#endif // TRAINC_TRANSFORMS_RAISEIDIOMS_INTERLEAVEDAXES_H
