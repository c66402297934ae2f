// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Follows a value backwards through ops with one operand.

#include "lib/Analysis/ElementOrigin.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

/// Whether every element of the op's result is an element of operand 0 (or a constant of the op).
static bool movesElements(Operation *op) {
  if (op->getNumOperands() != 1)
    return false;
  if (isa<ElementAccessOpInterface, StridedViewOpInterface>(op))
    return true;
  // Conversions between integer types: f(x) = x wherever both sides can hold x.
  auto pointwise = dyn_cast<PointwiseOpInterface>(op);
  if (!pointwise || !isa<IntegerType>(getElementType(op->getOperand(0))) ||
      getElementType(op->getOperand(0)).isInteger(1) ||
      getElementType(op->getResult(0)).isInteger(1))
    return false;
  SmallVector<int64_t> index(getRank(op->getResult(0)), 0);
  return llvm::all_of(ArrayRef<double>{-100, -1, 0, 1, 2, 77},
                      [&](double x) { return pointwise.evaluateScalar(x, index) == x; });
}

BlockArgument trainc::findOrigin(Value value) {
  while (Operation *def = value.getDefiningOp()) {
    if (!movesElements(def))
      return {};
    value = def->getOperand(0);
  }
  return cast<BlockArgument>(value);
}
