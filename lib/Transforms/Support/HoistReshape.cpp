// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rebuilds a tree of formulas in another shape.

#include "trainc/Transforms/Support/HoistReshape.h"
#include "dialects/Train/Reorder/Formula.h"

#include "mlir/IR/IRMapping.h"
#include "trainc/Analysis/StridedViews.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

/// Formulas in a row that are moved, at most, and what one may cost: those with other readers are
/// computed twice.
static constexpr unsigned kMostSteps = 4, kLargestCost = 1;

/// Whether the op computes each element from those at its place, whatever its coordinates.
/// An op of coordinates would see others.
static bool isMovable(Operation *def) {
  auto pointwise = dyn_cast_or_null<PointwiseOpInterface>(def);
  auto cost = dyn_cast_or_null<CostOpInterface>(def);
  return pointwise && cost && cost.getElementCost() <= kLargestCost && !dependsOnPlace(pointwise);
}

Value trainc::getReshaped(Value value) {
  Operation *def = value.getDefiningOp();
  bool isView = def && getFusionRole(def) == FusionRole::View && def->getNumOperands() == 1;
  return isView ? def->getOperand(0) : Value();
}

/// Ends at what is not movable, at scalars, and after kMostSteps, with a reshape.
static Value hoist(TrainBuilder &tb, Value value, ArrayRef<DimAttr> dims, unsigned steps) {
  // A repeated scalar is repeated to the new shape.
  Operation *def = value.getDefiningOp();
  // One number for all elements.
  if (def && getFusionRole(def) == FusionRole::Access && def->getNumOperands() == 1 &&
      getRank(def->getOperand(0)) == 0)
    return tb.broadcast(def->getOperand(0), dims, {});
  if (getRank(value) == 0 || steps == 0 || !isMovable(def))
    return tb.reshape(value, dims);
  IRMapping mapping;
  for (Value operand : def->getOperands())
    if (getRank(operand) > 0)
      mapping.map(operand, hoist(tb, operand, dims, steps - 1));
  // A clone: other readers keep the old shape.
  Operation *clone = tb.b().clone(*def, mapping);
  clone->getResult(0).setType(getTensorType(dims, getElementType(value)));
  return clone->getResult(0);
}

Value trainc::hoistReshape(TrainBuilder &tb, Value value, ArrayRef<DimAttr> dims) {
  return hoist(tb, value, dims, kMostSteps);
}
