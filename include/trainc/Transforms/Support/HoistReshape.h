// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Formulas in front of a reshape, computed behind it.
#ifndef TRAINC_TRANSFORMS_SUPPORT_HOISTRESHAPE_H
#define TRAINC_TRANSFORMS_SUPPORT_HOISTRESHAPE_H

#include "dialects/Train/TrainBuilder.h"

namespace trainc {

/// The value that `value` is a view of, in another shape and else the same; null where it is none.
mlir::Value getReshaped(mlir::Value value);

/// `value` in the shape `dims`, with the last cheap formulas that made it computed in that shape,
/// so that they are part of the kernels that read it (a cast of a matmul, the sum of two
/// gradients).
mlir::Value hoistReshape(train::TrainBuilder &tb, mlir::Value value,
                         llvm::ArrayRef<train::DimAttr> dims);

} // namespace trainc

#endif // TRAINC_TRANSFORMS_SUPPORT_HOISTRESHAPE_H
