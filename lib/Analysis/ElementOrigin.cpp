// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Follows a value backwards through ops with one operand.

#include "trainc/Analysis/ElementOrigin.h"

#include "dialects/Train/Collectives/Collectives.h"
#include "dialects/Train/Ranges/Ranges.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

/// Whether every element of the op's result is an element of operand 0 (or a constant of the op).
/// What asks this wants values, not places: a constant that padding adds is none of the input's,
/// but in range.
static bool movesElements(Operation *op) {
  if (op->getNumOperands() != 1)
    return false;
  if (isa<ElementAccessOpInterface, StridedViewOpInterface>(op))
    return true;
  // Conversions between integer types: f(x + c) = f(x) + c, and f(0) = 0.
  auto known = dyn_cast<RangeOpInterface>(op);
  return known && known.carriesTerm(0) && inferRange(op, 0, Range::number(0)).isNumber(0);
}

/// The block argument whose elements `value` has, moved or converted; none where anything else is
/// computed.
/// Nothing for what the body of a loop gets: other elements in each step, and its numbers are not
/// those of the function's arguments.
static BlockArgument ofFunction(Value argument) {
  auto found = cast<BlockArgument>(argument);
  return isa<FunctionOpInterface>(found.getOwner()->getParentOp()) ? found : BlockArgument();
}

BlockArgument trainc::findOrigin(Value value) {
  while (Operation *def = value.getDefiningOp()) {
    if (!movesElements(def))
      return {};
    value = def->getOperand(0);
  }
  return ofFunction(value);
}

/// Sums over ranks are never of arguments that ranks hold a shard of: a call that has such an
/// operand gathers it.
BlockArgument trainc::findConverted(Value value) {
  while (Operation *def = value.getDefiningOp()) {
    auto fusion = dyn_cast<FusionOpInterface>(def);
    if (def->hasTrait<CollectiveCall>())
      value = def->getOperand(cast<OpResult>(value).getResultNumber());
    else if (def->getNumOperands() == 1 &&
             (isa<PointwiseOpInterface>(def) || (fusion && fusion.separatesKernels())))
      value = def->getOperand(0);
    else
      return {};
  }
  return ofFunction(value);
}
