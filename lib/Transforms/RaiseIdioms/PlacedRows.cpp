// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where the rows lie has to be known to be inside for all sizes.

#include "lib/Transforms/RaiseIdioms/PlacedRows.h"

#include "dialects/Train/Splats.h"
#include "lib/Transforms/Support/ZeroRows.h"
#include "trainc/Analysis/AffineIntegers.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

/// `rows` at `start` of an axis of size `whole`; null where they may not fit.
/// Proved by the sizes' ranges, as expressions: a negative pad would cut rows off.
static Value padAxis(TrainBuilder &tb, Value rows, int64_t axis, DimAttr start, DimAttr whole) {
  SmallVector<DimAttr> dims = getDims(rows), low(dims.size(), tb.dimAttr(0));
  Operation *op =
      rows.getDefiningOp() ? rows.getDefiningOp() : rows.getParentBlock()->getParentOp();
  if (!isNeverNegative(start, op) || !isNeverNegative(whole - start - dims[axis], op))
    return {};
  low[axis] = start;
  dims[axis] = whole;
  return tb.pad(rows, 0, low, dims);
}

namespace {
/// Whether elements of a value are those at one place of an axis.
struct Place {
  int64_t axis;
  DimAttr at;
};
} // namespace

/// Whether the condition is "coordinate along an axis equals a number", also behind repeats. As
/// deep as the chain of views.
static std::optional<Place> placeOf(Value condition) {
  if (auto compare = condition.getDefiningOp<CompareOp>()) {
    std::optional<AffineInteger> left = AffineIntegers().get(compare.getLhs()),
                                 right = AffineIntegers().get(compare.getRhs());
    if (compare.getPredicate() != ComparePredicate::eq || !left || !right)
      return std::nullopt;
    // The coordinate on the left, the number on the right.
    if (left->isUniform())
      std::swap(left, right);
    for (int64_t axis = 0; axis < int64_t(left->factors.size()); ++axis) {
      AffineInteger coordinate = *left;
      coordinate.constant = DimAttr::constant(condition.getContext(), 0);
      if (right->isUniform() && coordinate.isCoordinate(axis))
        return Place{axis, right->constant - left->constant};
    }
    return std::nullopt;
  }
  Operation *def = condition.getDefiningOp();
  if (!isa_and_nonnull<BroadcastOp, ReshapeOp>(def))
    return std::nullopt;
  std::optional<Place> place = placeOf(def->getOperand(0));
  AxisMap map = cast<AxisMapOpInterface>(def).getAxisMap();
  int loop = place ? map.operands[0][place->axis] : -1;
  if (loop < 0 || map.loops[loop] != LoopKind::Parallel)
    return std::nullopt;
  auto axis = llvm::find(map.results[0], loop);
  if (axis == map.results[0].end())
    return std::nullopt;
  return Place{axis - map.results[0].begin(), place->at};
}

/// select(coordinate == at, repeated, 0): the repeated value lies in one row among zeros.
Value trainc::padOfSelect(SelectOp select) {
  auto repeated = select.getOnTrue().getDefiningOp<BroadcastOp>();
  if (!repeated || getSplatValue(select.getOnFalse()) != 0.0 || getSplatValue(repeated.getResult()))
    return {};
  std::optional<Place> place = placeOf(select.getCondition());
  // Repeated along the axis, or each row would be another one.
  if (!place || llvm::is_contained(repeated.getAxes(), place->axis))
    return {};
  OpBuilder builder(select);
  TrainBuilder tb(builder, select.getLoc());
  SmallVector<DimAttr> dims = getDims(select.getResult());
  DimAttr whole = dims[place->axis];
  dims[place->axis] = tb.dimAttr(1);
  Value rows = tb.broadcast(repeated.getOperand(), dims, repeated.getAxes());
  return padAxis(tb, rows, place->axis, place->at, whole);
}

/// A scatter to one place, known now: rows among zeros.
Value trainc::padOfScatter(ScatterAddOp scatter) {
  OpBuilder builder(scatter);
  TrainBuilder tb(builder, scatter.getLoc());
  std::optional<double> index = getSplatValue(scatter.getIndices());
  if (!index || !getNumElements(scatter.getIndices().getType()).isConstant(1))
    return {};
  int64_t axis = scatter.getAxis();
  SmallVector<DimAttr> dims = getDims(scatter.getResult());
  DimAttr whole = dims[axis];
  // Counted from the end if negative.
  DimAttr start = *index < 0 ? whole + tb.dimAttr(int64_t(*index)) : tb.dimAttr(int64_t(*index));
  dims[axis] = tb.dimAttr(1);
  return padAxis(tb, tb.reshape(scatter.getUpdates(), dims), axis, start, whole);
}

/// Of a choice that is always the same, what is chosen.
static Value skipChoice(Value value) {
  while (auto choice = value.getDefiningOp<SelectOp>()) {
    std::optional<double> condition = getSplatValue(choice.getCondition());
    if (!condition)
      break;
    value = *condition != 0 ? choice.getOnTrue() : choice.getOnFalse();
  }
  return value;
}

/// A scatter of whole rows: to neighbouring places a pad, else a scatter of rows.
Value trainc::placementOfScatter(ScatterElementsAddOp scatter) {
  int64_t axis = scatter.getAxis();
  SmallVector<DimAttr> from = getDims(scatter.getUpdates()), to = getDims(scatter.getResult());
  from[axis] = to[axis];
  // Whole rows, each to one place.
  auto repeated = scatter.getIndices().getDefiningOp<BroadcastOp>();
  if (from != to || !repeated || repeated.getAxes() != ArrayRef<int64_t>{axis})
    return {};
  Value index = skipChoice(repeated.getOperand());
  OpBuilder builder(scatter);
  TrainBuilder tb(builder, scatter.getLoc());
  std::optional<AffineInteger> affine = AffineIntegers().get(index);
  // One row at one place, or all rows in their order from a place on.
  bool isOne = affine && affine->isUniform() && getDim(index, 0).isConstant(1);
  if (affine && (isOne || affine->isCoordinate(0) ||
                 (affine->factors[0].isConstant(1) && !affine->isUniform())))
    if (Value pad = padAxis(tb, scatter.getUpdates(), axis, affine->constant, to[axis]))
      return pad;
  return tb.scatterAdd(index, scatter.getUpdates(), axis, scatter.getResult().getType());
}
