// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Conversions and reshapes, judged by what they say of themselves and by their types.

#include "dialects/Train/RowMoves.h"

#include "mlir/Interfaces/CastInterfaces.h"

using namespace mlir;
using namespace trainc::train;

bool trainc::train::isWidening(Operation *op) {
  if (!isa_and_nonnull<CastOpInterface>(op))
    return false;
  auto from = dyn_cast<FloatType>(getElementType(op->getOperand(0)));
  auto to = dyn_cast<FloatType>(getElementType(op->getResult(0)));
  return from && to && from.getWidth() < to.getWidth();
}

bool trainc::train::isReshape(Operation *op) {
  auto access = dyn_cast_or_null<ElementAccessOpInterface>(op);
  auto fusion = dyn_cast_or_null<FusionOpInterface>(op);
  return access && access.onlyMoves() && fusion && fusion.getFusionRole() == FusionRole::View;
}

bool trainc::train::keepsColumns(Operation *op) {
  if (!isReshape(op))
    return false;
  SmallVector<DimAttr> from = getDims(op->getOperand(0)), to = getDims(op->getResult(0));
  return !from.empty() && !to.empty() && from.back() == to.back();
}
