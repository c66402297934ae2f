// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sums over a row that code generation has a shorter way for.

#include "trainc/Formulas/RowSums.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

static bool isSum(Operation *op) {
  auto reduce = dyn_cast<ReduceOp>(op);
  return reduce && reduce.getKind() == ReduceKind::sum;
}
/// The shorter ways are of f32.
static bool isF32(Value value) { return getElementType(value).isF32(); }

/// The value of the kept axes that `value` repeats along the reduced ones, or null.
static Value keptSource(Value value, ArrayRef<int64_t> kept) {
  auto broadcast = value.getDefiningOp<BroadcastOp>();
  return broadcast && broadcast.getAxes() == kept ? broadcast.getOperand() : Value();
}

/// sum(exp(x - max(x))): the maximum, with which both are one pass.
Operation *trainc::matchMaximum(Operation *sum, ArrayRef<int64_t> kept) {
  if (!isSum(sum) || !isF32(sum->getOperand(0)))
    return nullptr;
  auto exp = sum->getOperand(0).getDefiningOp<ExpOp>();
  auto difference = exp ? exp->getOperand(0).getDefiningOp<SubOp>() : SubOp();
  Value top = difference ? keptSource(difference->getOperand(1), kept) : Value();
  auto maximum = top ? top.getDefiningOp<ReduceOp>() : ReduceOp();
  return maximum && maximum.getKind() == ReduceKind::max &&
                 maximum.getOperand() == difference->getOperand(0)
             ? maximum.getOperation()
             : nullptr;
}

Operation *trainc::matchMaximum(Operation *op) {
  if (!isSum(op))
    return nullptr;
  SmallVector<int64_t> kept;
  for (int64_t axis = 0; axis < getRank(op->getOperand(0)); ++axis)
    if (!llvm::is_contained(cast<ReduceOp>(op).getAxes(), axis))
      kept.push_back(axis);
  return matchMaximum(op, kept);
}

/// sum(select(iota == index, x, 0)): one element of each row, which needs no sum.
std::optional<Pick> trainc::matchPick(Operation *sum, ArrayRef<int64_t> kept, int64_t axis) {
  if (!isSum(sum) || !isF32(sum->getOperand(0)) ||
      cast<ReduceOp>(sum).getAxes() != ArrayRef<int64_t>(axis))
    return std::nullopt;
  auto select = sum->getOperand(0).getDefiningOp<SelectOp>();
  auto none = select ? select.getOnFalse().getDefiningOp<FullOp>() : FullOp();
  auto compare = none ? select.getCondition().getDefiningOp<CompareOp>() : CompareOp();
  auto value = none ? dyn_cast<FloatAttr>(none.getValue()) : FloatAttr();
  if (!compare || !value || !value.getValue().isZero() ||
      compare.getPredicate() != ComparePredicate::eq)
    return std::nullopt;
  // Either side of the comparison.
  for (unsigned side : {0, 1}) {
    auto iota = compare->getOperand(side).getDefiningOp<IotaOp>();
    OpOperand &index = compare->getOpOperand(1 - side);
    if (iota && int64_t(iota.getAxis()) == axis && keptSource(index.get(), kept) &&
        isa<IntegerType>(getElementType(index.get())))
      return Pick{&select.getOnTrueMutable(), &index};
  }
  return std::nullopt;
}
