// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Follows index operands back to inputs, through ops that only move elements.

#include "trainc/Analysis/InputRules.h"
#include "trainc/Analysis/ElementOrigin.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

std::vector<InputRule> trainc::collectInputRules(func::FuncOp function) {
  std::vector<InputRule> rules;
  function.walk([&](IndexOperandOpInterface op) {
    for (OpOperand &operand : op->getOpOperands()) {
      std::optional<IndexRule> rule = op.getIndexRule(operand.getOperandNumber());
      if (!rule)
        continue;
      // An index that is computed (of a position, say) has no input whose values could be checked
      // beforehand: the kernel checks it.
      BlockArgument argument = findOrigin(operand.get());
      if (!argument)
        continue;
      // ONNX counts negative indices from the end. Rows of a parameter have no end to count from:
      // there a negative id is a mark for padding that the model was not made for.
      BlockArgument table = findConverted(op->getOperand(0));
      auto tableRole = table
                           ? function.getArgAttrOfType<StringAttr>(table.getArgNumber(), kRoleAttr)
                           : StringAttr();
      if (tableRole && tableRole == "parameter")
        rule->min = DimAttr::constant(function.getContext(), 0);
      auto role = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kRoleAttr);
      auto name = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kNameAttr);
      // Other arguments (state, parameters) are the package's own, not the caller's.
      if (role && role == "input")
        rules.push_back({name.getValue().str(), *rule, op.getLoc()});
    }
  });
  return rules;
}
