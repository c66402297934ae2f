// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Follows index operands back to inputs, through ops that only move elements.

#include "lib/Analysis/InputRules.h"

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

std::vector<InputRule> trainc::collectInputRules(func::FuncOp function) {
  std::vector<InputRule> rules;
  function.walk([&](IndexOperandOpInterface op) {
    for (OpOperand &operand : op->getOpOperands()) {
      std::optional<IndexRule> rule = op.getIndexRule(operand.getOperandNumber());
      if (!rule)
        continue;
      Value value = operand.get();
      while (Operation *def = value.getDefiningOp()) {
        if (!movesElements(def))
          break;
        value = def->getOperand(0);
      }
      auto argument = dyn_cast<BlockArgument>(value);
      if (!argument)
        continue;
      // ONNX counts negative indices from the end. Rows of a parameter have no end to count from:
      // there a negative id is a mark for padding that the model was not made for.
      auto table = dyn_cast<BlockArgument>(op->getOperand(0));
      auto tableRole = table
                           ? function.getArgAttrOfType<StringAttr>(table.getArgNumber(), kRoleAttr)
                           : StringAttr();
      if (tableRole && tableRole == "parameter")
        rule->min = DimAttr::constant(function.getContext(), 0);
      auto role = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kRoleAttr);
      auto name = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kNameAttr);
      if (role && role == "input")
        rules.push_back({name.getValue().str(), *rule, op.getLoc()});
    }
  });
  return rules;
}
