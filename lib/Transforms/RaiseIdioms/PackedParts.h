// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Values that were packed along an axis of their own, as q, k and v of one projection.
#ifndef TRAINC_TRANSFORMS_RAISEIDIOMS_PACKEDPARTS_H
#define TRAINC_TRANSFORMS_RAISEIDIOMS_PACKEDPARTS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace trainc {

/// x[a..., i, c, b...] for every number i of an axis, each without that axis, becomes one
/// `train.split` of x with the axis merged into the next one: [a..., i * c, b...]. A transpose of
/// x is looked through. What parts of which not all are read, or with the axis, stay as they are.
void splitPackedParts(mlir::func::FuncOp function);

} // namespace trainc

#endif // TRAINC_TRANSFORMS_RAISEIDIOMS_PACKEDPARTS_H
