// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the ops of several ranks have in common, and their verifiers.

#include "dialects/Train/Collectives/Collectives.h"

using namespace mlir;
using namespace trainc::train;

#include "dialects/Train/TrainCollectiveInterfaces.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/Train/TrainCollectives.cpp.inc"

DimAttr trainc::train::getWorld(MLIRContext *context) {
  return DimAttr::symbol(context, kWorldSymbol);
}

AxisMap trainc::train::detail::collectiveAxisMap(Operation *op) {
  AxisMap map;
  for (Value operand : op->getOperands())
    map.operands.emplace_back(getRank(operand), -1);
  for (Value result : op->getResults()) {
    SmallVector<int> &axes = map.results.emplace_back();
    for (int64_t axis = 0; axis < getRank(result); ++axis) {
      axes.push_back(int(map.loops.size()));
      map.loops.push_back(LoopKind::Opaque);
    }
  }
  return map;
}

LogicalResult trainc::train::detail::evaluateAlone(ArrayRef<HostTensor> operands,
                                                   const SymbolValues &,
                                                   MutableArrayRef<HostTensor> results) {
  for (auto [operand, result] : llvm::zip_equal(operands, results))
    result.data = operand.data;
  return success();
}

/// What every collective demands of its tensors.
static LogicalResult verifyTensors(Operation *op) {
  if (op->getNumOperands() == 0)
    return op->emitOpError("expected a tensor at least");
  if (op->getNumOperands() != op->getNumResults())
    return op->emitOpError("expected as many results as tensors, ")
           << op->getNumOperands() << ", got " << op->getNumResults();
  Type element = getElementType(op->getOperand(0));
  for (Value value : llvm::concat<Value>(llvm::to_vector_of<Value>(op->getOperands()),
                                         llvm::to_vector_of<Value>(op->getResults())))
    if (getElementType(value) != element)
      return op->emitOpError("expected tensors of one type, ")
             << element << ", got " << value.getType();
  return success();
}

LogicalResult AllReduceOp::verify() {
  if (failed(verifyTensors(*this)))
    return failure();
  for (auto [from, to] : llvm::zip_equal(getTensors(), getResults())) {
    if (!getElementType(from).isF32() && !getElementType(from).isF64())
      return emitOpError("expected tensors of f32 or f64, got ") << from.getType();
    if (from.getType() != to.getType())
      return emitOpError("expected a result of type ")
             << from.getType() << ", got " << to.getType();
  }
  return success();
}

SmallVector<Value> trainc::train::buildAllReduce(OpBuilder &builder, Location loc,
                                                 ValueRange values) {
  return AllReduceOp::create(builder, loc, values.getTypes(), values)->getResults();
}
