// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Casts and reshapes, judged by their types; sums over a row that code generation has a shorter way
// for.

#include "dialects/Train/RowIdioms.h"
#include "dialects/Train/TrainBuilder.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

bool train::isWidening(Operation *op) {
  auto cast = dyn_cast_or_null<CastOp>(op);
  if (!cast)
    return false;
  auto from = dyn_cast<FloatType>(getElementType(cast.getOperand()));
  auto to = dyn_cast<FloatType>(getElementType(cast.getResult()));
  return from && to && from.getWidth() < to.getWidth();
}

bool train::keepsColumns(Operation *op) {
  auto reshape = dyn_cast_or_null<ReshapeOp>(op);
  if (!reshape)
    return false;
  SmallVector<DimAttr> from = getDims(reshape.getOperand()), to = getDims(reshape.getResult());
  return !from.empty() && !to.empty() && from.back() == to.back();
}

static bool isSum(Operation *op) {
  auto reduce = dyn_cast<ReduceOp>(op);
  return reduce && reduce.getKind() == ReduceKind::sum;
}
static bool isF32(Value value) { return getElementType(value).isF32(); }

/// The value of the kept axes that `value` repeats along the reduced ones, or null.
static Value keptSource(Value value, ArrayRef<int64_t> kept) {
  auto broadcast = value.getDefiningOp<BroadcastOp>();
  return broadcast && broadcast.getAxes() == kept ? broadcast.getOperand() : Value();
}

Operation *trainc::train::matchMaximum(Operation *sum, ArrayRef<int64_t> kept) {
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

Operation *trainc::train::matchMaximum(Operation *op) {
  if (!isSum(op))
    return nullptr;
  SmallVector<int64_t> kept;
  for (int64_t axis = 0; axis < getRank(op->getOperand(0)); ++axis)
    if (!llvm::is_contained(cast<ReduceOp>(op).getAxes(), axis))
      kept.push_back(axis);
  return matchMaximum(op, kept);
}

std::optional<Pick> trainc::train::matchPick(Operation *sum, ArrayRef<int64_t> kept, int64_t axis) {
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
  for (unsigned side : {0, 1}) {
    auto iota = compare->getOperand(side).getDefiningOp<IotaOp>();
    OpOperand &index = compare->getOpOperand(1 - side);
    if (iota && int64_t(iota.getAxis()) == axis && keptSource(index.get(), kept) &&
        isa<IntegerType>(getElementType(index.get())))
      return Pick{&select.getOnTrueMutable(), &index};
  }
  return std::nullopt;
}

Value trainc::train::buildRowNumbers(TrainBuilder &tb, GatherNdOp gather, Value *isValid) {
  SmallVector<DimAttr> data = getDims(gather.getData()), tuples = getDims(gather.getIndices());
  const int64_t batch = gather.getBatchDims(), depth = *tuples.pop_back_val().getConstant();
  Type integer = tb.b().getI64Type();
  Value wide = tb.cast(gather.getIndices(), integer), number;
  auto advance = [&](Value next, DimAttr size) {
    number = number ? tb.add(tb.mul(number, tb.splat(tb.dim(size, integer), number)), next) : next;
  };
  for (int64_t axis = 0; axis < batch; ++axis)
    advance(tb.iota(tuples, integer, axis), data[axis]);
  for (int64_t i = 0; i < depth; ++i) {
    Value index =
        tb.reshape(tb.sliceAxis(wide, tuples.size(), tb.dimAttr(i), tb.dimAttr(1)), tuples);
    DimAttr size = data[batch + i];
    Value extent = tb.splat(tb.dim(size, integer), index), zero = tb.scalarLike(index, 0);
    index = tb.select(tb.compare("lt", index, zero), tb.add(index, extent), index);
    if (isValid) {
      Value isInside =
          tb.logicalAnd(tb.compare("ge", index, zero), tb.compare("lt", index, extent));
      *isValid = *isValid ? tb.logicalAnd(*isValid, isInside) : isInside;
    }
    advance(index, size);
  }
  return number;
}
