// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// train.within: numbers of steps and indices, which are checked where they are read.

#include "dialects/Train/Loops/Loops.h"

using namespace mlir;
using namespace trainc::train;

static DimAttr getEnd(WithinOp op) { return op.getLimit() + DimAttr::constant(op.getContext(), 1); }
static DimAttr getBegin(WithinOp op) {
  DimAttr zero = DimAttr::constant(op.getContext(), 0);
  return op.getFromEnd() ? zero - getEnd(op) : zero;
}

FusionRole WithinOp::getFusionRole() { return FusionRole::Access; }

bool WithinOp::onlyMoves() { return true; }

AxisMap WithinOp::getAxisMap() {
  AxisMap map;
  SmallVector<int> axes = llvm::to_vector(llvm::seq(int(getRank(getOperand()))));
  map.loops.assign(axes.size(), LoopKind::Parallel);
  map.operands = {axes};
  map.results = {axes};
  return map;
}

std::optional<IndexRule> WithinOp::getIndexRule(unsigned) {
  return IndexRule{getBegin(*this), getEnd(*this), std::nullopt};
}

/// The value is used as it is: a run that met a bad one ends behind its command.
Value WithinOp::buildElement(ElementBuilder &eb, unsigned, ArrayRef<ElementIndex> index) {
  Value value = eb.element(getOperation()->getOpOperand(0), index);
  eb.checkedIndex(getOperation(), value, getEnd(*this));
  return value;
}

LogicalResult WithinOp::evaluate(ArrayRef<HostTensor> operands, const SymbolValues &symbols,
                                 MutableArrayRef<HostTensor> results) {
  const FailureOr<int64_t> limit = symbols.evaluate(getLimit());
  if (failed(limit))
    return failure();
  for (auto [value, result] : llvm::zip_equal(operands[0].data, results[0].data)) {
    if (value < (getFromEnd() ? -double(*limit) - 1 : 0) || value > double(*limit))
      return failure();
    result = value;
  }
  return success();
}

/// Integers have none.
void WithinOp::buildVJP(TrainBuilder &, ArrayRef<Value>, ArrayRef<bool>, MutableArrayRef<Value>) {
  llvm_unreachable("no gradient flows to integers");
}
