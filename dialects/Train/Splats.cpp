// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The number of a splat, from what the ops that make it say of themselves.

#include "dialects/Train/Splats.h"

#include "dialects/Train/Ranges/Ranges.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace trainc::train;

std::optional<double> trainc::train::getSplatValue(Value value) {
  Operation *def = value.getDefiningOp();
  while (auto moved = dyn_cast_or_null<ElementAccessOpInterface>(def)) {
    if (!moved.onlyMoves())
      break;
    value = def->getOperand(0);
    def = value.getDefiningOp();
  }
  if (!def || def->getNumOperands() > 0)
    return std::nullopt;
  // Not by its range, for which each of its elements would be looked at.
  DenseElementsAttr constant;
  if (matchPattern(value, m_Constant(&constant)) && !constant.isSplat())
    return std::nullopt;
  const Range range = inferRange(def, cast<OpResult>(value).getResultNumber(), {});
  return range.isNumber() ? std::optional<double>(range.lo) : std::nullopt;
}
