// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which ops compute their elements whatever place these are at: in another order or shape, too.
#ifndef TRAINC_DIALECTS_TRAIN_REORDER_FORMULA_H
#define TRAINC_DIALECTS_TRAIN_REORDER_FORMULA_H

#include "dialects/Train/TrainDialect.h"

namespace trainc::train {

/// Whether an element may depend on where it is along some axis.
inline bool dependsOnPlace(PointwiseOpInterface op) {
  return llvm::any_of(llvm::seq<int64_t>(0, getRank(op->getResult(0))),
                      [&](int64_t axis) { return op.dependsOnIndex(axis); });
}

/// Whether the op makes each element of its operands' at the same place, whatever the place: it may
/// be computed in another shape. `op` may be null.
inline bool isFormula(mlir::Operation *op) {
  auto pointwise = llvm::dyn_cast_or_null<PointwiseOpInterface>(op);
  return pointwise && op->getNumOperands() != 0 && !dependsOnPlace(pointwise);
}

} // namespace trainc::train

#endif // TRAINC_DIALECTS_TRAIN_REORDER_FORMULA_H
