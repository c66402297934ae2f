// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Group normalisation, whose channels stay in their groups until something needs them in one axis.
#ifndef TRAINC_TRANSFORMS_RAISEIDIOMS_GROUPEDAXES_H
#define TRAINC_TRANSFORMS_RAISEIDIOMS_GROUPEDAXES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace trainc {

/// Where numbers of groups of an axis have been applied and the axis is put together again, lets
/// the formulas behind it (scale, bias, activation) be computed before that.
void keepGroups(mlir::func::FuncOp function);

} // namespace trainc

#endif // TRAINC_TRANSFORMS_RAISEIDIOMS_GROUPEDAXES_H
