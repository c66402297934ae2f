// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A boolean mask that is added to scores before a softmax. ONNX has no such Add; PyTorch's dynamo
// exporter writes it at opset 23 for attention with dropout. It stands for -inf where it is false.

#ifndef TRAINC_LIB_CONVERSION_ONNXTOTRAIN_MASKADD_H
#define TRAINC_LIB_CONVERSION_ONNXTOTRAIN_MASKADD_H

#include "lib/Conversion/ONNXToTrain/Handlers.h"

namespace trainc::legalize {

/// Whether `node` is such an Add, its second input the mask, and nothing but softmaxes read it.
inline bool addsMask(onnx::NodeOp node, Legalization &state) {
  if (!node || !node.getDomain().empty() || node.getOpType() != "Add" ||
      node.getInputs().size() != 2)
    return false;
  for (mlir::Operation *user : node.getResult(0).getUsers())
    if (auto softmax = mlir::dyn_cast<onnx::NodeOp>(user);
        !softmax || !softmax.getDomain().empty() || softmax.getOpType() != "Softmax")
      return false;
  auto element = [&](unsigned input) { return state.valueOf(node.getInputs()[input]).element; };
  return mlir::isa<mlir::FloatType>(element(0)) && element(1).isInteger(1);
}

} // namespace trainc::legalize

#endif // TRAINC_LIB_CONVERSION_ONNXTOTRAIN_MASKADD_H
