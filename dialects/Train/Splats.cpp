// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The number of a splat, from the ops that make it.

#include "dialects/Train/Splats.h"

#include "dialects/Train/TrainDialect.h"

using namespace mlir;
using namespace trainc::train;

std::optional<double> trainc::train::getSplatValue(Value value) {
  Operation *def = value.getDefiningOp();
  if (!def)
    return std::nullopt;
  Attribute attr;
  if (auto full = dyn_cast<FullOp>(def))
    attr = full.getValue();
  else if (auto constant = dyn_cast<ConstantOp>(def)) {
    if (auto splat = dyn_cast<SplatElementsAttr>(constant.getValue()))
      attr = splat.getSplatValue<Attribute>();
  } else if (isa<BroadcastOp, ReshapeOp, TransposeOp>(def))
    return getSplatValue(def->getOperand(0));
  if (auto number = dyn_cast_or_null<FloatAttr>(attr))
    return number.getValueAsDouble();
  if (auto number = dyn_cast_or_null<IntegerAttr>(attr))
    return number.getType().isInteger(1) ? double(number.getValue().getBoolValue())
                                         : double(number.getValue().getSExtValue());
  return std::nullopt;
}
