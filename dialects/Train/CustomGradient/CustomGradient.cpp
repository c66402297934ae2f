// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An identity until autodiff, which copies its body into the backward pass.

#include "dialects/Train/CustomGradient/CustomGradient.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace trainc::train;

#define GET_OP_CLASSES
#include "dialects/Train/TrainCustomGradient.cpp.inc"

static bool isFloat(Type type) { return isa<FloatType>(getElementTypeOrSelf(type)); }

LogicalResult CustomGradientOp::verify() {
  if (getOutputs().getTypes() != getResultTypes())
    return emitOpError("expected results of ")
           << getOutputs().getTypes() << ", got " << getResultTypes();
  for (int64_t number : getWrt())
    if (number < 0 || number >= int64_t(getInputs().size()) ||
        !isFloat(getInputs()[number].getType()))
      return emitOpError("expected wrt to name inputs that are floats, got ") << number;
  return success();
}

/// Behind the check of the body's ops: the terminator is one.
LogicalResult CustomGradientOp::verifyRegions() {
  Block &body = getBody().front();
  SmallVector<Type> arguments(getInputs().getTypes());
  llvm::append_range(arguments, getOutputs().getTypes());
  llvm::copy_if(getOutputs().getTypes(), std::back_inserter(arguments), isFloat);
  if (!llvm::equal(arguments, body.getArgumentTypes()))
    return emitOpError("expected a body of ") << arguments << ", got " << body.getArgumentTypes();
  SmallVector<Type> gradients;
  for (int64_t number : getWrt())
    gradients.push_back(getInputs()[number].getType());
  if (!llvm::equal(gradients, body.getTerminator()->getOperandTypes()))
    return emitOpError("expected gradients of ")
           << gradients << ", got " << body.getTerminator()->getOperandTypes();
  return success();
}

/// Composites are gone before kernels form.
FusionRole CustomGradientOp::getFusionRole() { return FusionRole::None; }

/// The outputs come first among the operands.
bool CustomGradientOp::isDifferentiable(unsigned operand) {
  return operand >= getOutputs().size() &&
         llvm::is_contained(getWrt(), int64_t(operand - getOutputs().size()));
}

void CustomGradientOp::buildVJP(TrainBuilder &tb, ArrayRef<Value> cotangents, ArrayRef<bool>,
                                MutableArrayRef<Value> gradients) {
  Block &body = getBody().front();
  IRMapping mapping;
  SmallVector<Value> arguments(getInputs());
  llvm::append_range(arguments, getOutputs());
  for (auto [output, cotangent] : llvm::zip_equal(getOutputs(), cotangents))
    if (isFloat(output.getType()))
      arguments.push_back(cotangent ? cotangent : tb.zeros(output.getType()));
  mapping.map(body.getArguments(), arguments);
  for (Operation &op : body.without_terminator())
    tb.b().clone(op, mapping);
  for (auto [number, value] : llvm::zip_equal(getWrt(), body.getTerminator()->getOperands()))
    gradients[getOutputs().size() + number] = mapping.lookupOrDefault(value);
  // It has done what it is for: what follows sees the values themselves.
  replaceAllUsesWith(getOutputs());
}

void CustomGradientOp::decompose(TrainBuilder &, SmallVectorImpl<Value> &results) {
  llvm::append_range(results, getOutputs());
}

void CustomGradientOp::buildEvalMode(TrainBuilder &, SmallVectorImpl<Value> &results) {
  llvm::append_range(results, getOutputs());
}

LogicalResult CustomGradientOp::evaluate(ArrayRef<HostTensor> operands, const SymbolValues &,
                                         MutableArrayRef<HostTensor> results) {
  for (auto [result, output] : llvm::zip_first(results, operands))
    result.data = output.data;
  return success();
}
