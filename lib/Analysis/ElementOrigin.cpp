// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Follows a value backwards through ops with one operand.

#include "trainc/Analysis/ElementOrigin.h"

#include "dialects/Train/Ranges/Ranges.h"

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
BlockArgument trainc::findOrigin(Value value) {
  while (Operation *def = value.getDefiningOp()) {
    if (!movesElements(def))
      return {};
    value = def->getOperand(0);
  }
  return cast<BlockArgument>(value);
}
