// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A view where the indices count, a selection of rows where they are one number a sample.

#include "lib/Transforms/RaiseIdioms/PositionGather.h"

#include "dialects/Train/Splats.h"
#include "trainc/Analysis/AffineIntegers.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

Value trainc::viewOfGather(GatherOp gather) {
  int64_t axis = gather.getAxis();
  std::optional<AffineInteger> affine = AffineIntegers().get(gather.getIndices());
  if (!affine || !affine->constant.isConstant(0) || affine->isUniform())
    return {};
  OpBuilder builder(gather);
  TrainBuilder tb(builder, gather.getLoc());
  SmallVector<DimAttr> indices = getDims(gather.getIndices()), data = getDims(gather.getData());
  // Axes that the index runs over, each counting the elements of those behind it.
  // Row-major: the last axis that the index runs over counts ones.
  DimAttr stride = tb.dimAttr(1);
  SmallVector<DimAttr> parts;
  SmallVector<int64_t> places;
  for (size_t a = indices.size(); a-- > 0;) {
    if (affine->factors[a].isConstant(0))
      continue;
    if (affine->factors[a] != stride)
      return {};
    parts.insert(parts.begin(), indices[a]);
    places.insert(places.begin(), axis + int64_t(a));
    stride = stride * indices[a];
  }
  // The index runs over the whole axis: no row is left out.
  if (stride != data[axis])
    return {};
  SmallVector<DimAttr> dims(data.begin(), data.begin() + axis);
  SmallVector<int64_t> axes;
  for (int64_t a = 0; a < axis; ++a)
    axes.push_back(a);
  llvm::append_range(dims, parts);
  // Axes of the indices take the gathered axis's place.
  llvm::append_range(axes, places);
  for (size_t a = axis + 1; a < data.size(); ++a) {
    dims.push_back(data[a]);
    axes.push_back(int64_t(a - 1 + indices.size()));
  }
  return tb.broadcast(tb.reshape(gather.getData(), dims), getDims(gather.getResult()), axes);
}

/// Indices of one number each choose along the first axis.
static Value rowsOfOneNumber(GatherNdOp gather) {
  SmallVector<DimAttr> indices = getDims(gather.getIndices());
  if (gather.getBatchDims() != 0 || indices.size() != 2 || !indices.back().isConstant(1))
    return {};
  OpBuilder builder(gather);
  TrainBuilder tb(builder, gather.getLoc());
  return tb.gather(gather.getData(), tb.reshape(gather.getIndices(), {indices[0]}), 0);
}

/// data[i, j, ...] with coordinates for i and j is a repeat of the data.
Value trainc::viewOfGather(GatherNdOp gather) {
  auto tuples = gather.getIndices().getDefiningOp<ConcatOp>();
  SmallVector<DimAttr> indices = getDims(gather.getIndices()), data = getDims(gather.getData());
  int64_t last = int64_t(indices.size()) - 1;
  if (!tuples || gather.getBatchDims() != 0 || int64_t(tuples.getAxis()) != last)
    return {};
  // Each number of a tuple counts along an axis of its own, in the data's order.
  SmallVector<int64_t> axes;
  for (Value part : tuples.getOperands()) {
    std::optional<AffineInteger> affine = AffineIntegers().get(part);
    if (!affine || !getDim(part, last).isConstant(1) || !affine->constant.isConstant(0))
      return {};
    int64_t along = -1;
    for (auto [axis, factor] : llvm::enumerate(affine->factors)) {
      if (factor.isConstant(0))
        continue;
      if (along >= 0 || !factor.isConstant(1))
        return {};
      along = axis;
    }
    if (along < 0 || (!axes.empty() && along <= axes.back()) || indices[along] != data[axes.size()])
      return {};
    axes.push_back(along);
  }
  for (size_t a = axes.size(); a < data.size(); ++a)
    axes.push_back(last + int64_t(a - tuples.getNumOperands()));
  OpBuilder builder(gather);
  TrainBuilder tb(builder, gather.getLoc());
  return tb.broadcast(gather.getData(), getDims(gather.getResult()), axes);
}

/// Whether `value` is the first position at which something holds along an axis of this length, as
/// argmax gives it: the smallest one, `length - 1` standing for the others.
/// Such a position is always inside: no check is needed in the step.
static bool isPosition(Value value, DimAttr length) {
  while (auto view = value.getDefiningOp<ReshapeOp>())
    value = view.getOperand();
  auto least = value.getDefiningOp<ReduceOp>();
  auto select = least ? least.getOperand().getDefiningOp<SelectOp>() : SelectOp();
  if (!select || least.getKind() != ReduceKind::min || least.getAxes().size() != 1)
    return false;
  AffineIntegers affine;
  std::optional<AffineInteger> found = affine.get(select.getOnTrue()),
                               none = affine.get(select.getOnFalse());
  int64_t axis = least.getAxes()[0];
  return found && none && getDim(select.getResult(), axis) == length && found->isCoordinate(axis) &&
         none->isUniform() && none->constant + DimAttr::constant(value.getContext(), 1) == length;
}

namespace {
/// As train.select_rows takes them.
struct RowIndices {
  Value index, inverse;
};
} // namespace

/// The row positions[sample] of each sample.
/// Both directions, so that the gradient of the selection is one as well. Positions are checked
/// unless they are known to be inside.
static RowIndices buildRowOfEach(TrainBuilder &tb, Value positions, DimAttr samples,
                                 DimAttr length) {
  Type i32 = tb.b().getI32Type(), i64 = tb.b().getI64Type();
  auto number = [&](DimAttr dim, Value like) { return tb.splat(tb.dim(dim, i64), like); };
  bool isInside = isPosition(positions, length);
  Value at = tb.cast(tb.reshape(positions, {samples}), i64), size = number(length, at), valid;
  if (!isInside) {
    // A position below 0 counts from the end.
    Value isNegative = tb.compare("lt", at, tb.scalarLike(at, 0));
    at = tb.select(isNegative, tb.add(at, size), at);
    valid = tb.logicalAnd(tb.compare("ge", at, tb.scalarLike(at, 0)), tb.compare("lt", at, size));
  }
  // Of all samples' rows behind each other.
  Value index = tb.add(tb.mul(tb.iota({samples}, i64, 0), size), at);
  // One out of range would be a row of another sample: it ends the run instead.
  if (!isInside)
    index = tb.select(valid, index, number(samples * length, index));
  // A row's sample if it is that sample's chosen one, else none.
  Value sample = tb.iota({samples, length}, i32, 0), column = tb.iota({samples, length}, i64, 1);
  Value isSelected = tb.compare("eq", column, tb.broadcast(at, {samples, length}, {0}));
  Value inverse = tb.select(isSelected, sample, tb.scalarLike(sample, -1));
  return {tb.cast(index, i32), tb.reshape(inverse, {samples * length})};
}

/// data[sample, positions[sample]] of each sample.
static Value selectRowOfEach(TrainBuilder &tb, Value data, Value positions) {
  SmallVector<DimAttr> dims = getDims(data);
  RowIndices of = buildRowOfEach(tb, positions, dims[0], dims[1]);
  SmallVector<DimAttr> rows = {dims[0] * dims[1]};
  rows.append(dims.begin() + 2, dims.end());
  return tb.selectRows(tb.reshape(data, rows), of.index, of.inverse, 0);
}

/// Whether these are the numbers of the samples, along axis 0.
/// 0, factor, 2 * factor, ... along axis 0, the same along all others.
static bool countsSamples(Value value, DimAttr factor) {
  std::optional<AffineInteger> affine = AffineIntegers().get(value);
  return affine && affine->constant.isConstant(0) && affine->factors[0] == factor &&
         llvm::all_of(ArrayRef(affine->factors).drop_front(),
                      [](DimAttr other) { return other.isConstant(0); });
}

/// Tries batch_dims, then tuples of sample and position; else single numbers.
Value trainc::rowsOfGather(GatherNdOp gather) {
  SmallVector<DimAttr> indices = getDims(gather.getIndices()), data = getDims(gather.getData());
  if (data.size() < 2 || indices.size() != 2 || indices[0] != data[0])
    return rowsOfOneNumber(gather);
  Value positions;
  if (gather.getBatchDims() == 1 && indices[1].isConstant(1))
    positions = gather.getIndices();
  auto tuples = gather.getIndices().getDefiningOp<ConcatOp>();
  if (tuples && gather.getBatchDims() == 0 && tuples.getAxis() == 1 &&
      tuples.getNumOperands() == 2 && getDim(tuples.getOperand(1), 1).isConstant(1) &&
      countsSamples(tuples.getOperand(0), DimAttr::constant(gather.getContext(), 1)))
    positions = tuples.getOperand(1);
  if (!positions)
    return rowsOfOneNumber(gather);
  OpBuilder builder(gather);
  TrainBuilder tb(builder, gather.getLoc());
  return selectRowOfEach(tb, gather.getData(), positions);
}

/// Row numbers that are sample * length + position, written out.
Value trainc::rowsOfGather(GatherOp gather) {
  auto sum = gather.getIndices().getDefiningOp<AddOp>();
  SmallVector<DimAttr> data = getDims(gather.getData());
  if (!sum || gather.getAxis() != 0 || getRank(sum.getResult()) != 1)
    return {};
  for (unsigned side = 0; side < 2; ++side) {
    Value positions = sum->getOperand(side);
    DimAttr samples = getDim(sum.getResult(), 0), length = divideExactly(data[0], samples);
    if (!length || !countsSamples(sum->getOperand(1 - side), length) ||
        !isPosition(positions, length))
      continue;
    OpBuilder builder(gather);
    TrainBuilder tb(builder, gather.getLoc());
    SmallVector<DimAttr> dims = {samples, length};
    dims.append(data.begin() + 1, data.end());
    return selectRowOfEach(tb, tb.reshape(gather.getData(), dims), positions);
  }
  return {};
}

/// What an index is made of: before views, parts of joined indices, and adding the size to one
/// below 0.
/// Only forms that leave the number what it is, or what it would be counted from the start.
static Value originOfIndex(Value index) {
  while (Operation *def = index.getDefiningOp()) {
    if (isa<ReshapeOp>(def)) {
      index = def->getOperand(0);
    } else if (auto part = dyn_cast<SliceOp>(def)) {
      auto joined = part.getOperand().getDefiningOp<ConcatOp>();
      int64_t axis = part.getSlicedAxis();
      std::optional<int64_t> start =
          axis < 0 ? std::nullopt : part.getStarts().getDims()[axis].getConstant();
      bool ofOnes = joined && int64_t(joined.getAxis()) == axis &&
                    llvm::all_of(joined.getOperands(), [&](Value operand) {
                      return getDim(operand, axis).isConstant(1);
                    });
      if (!ofOnes || !start || !part.getSlicedExtent().isConstant(1))
        return index;
      index = joined.getOperands()[*start];
    } else if (auto wrapped = dyn_cast<SelectOp>(def)) {
      auto below = wrapped.getCondition().getDefiningOp<CompareOp>();
      auto added = wrapped.getOnTrue().getDefiningOp<AddOp>();
      if (!below || !added || below.getPredicate() != ComparePredicate::lt ||
          below.getLhs() != wrapped.getOnFalse() || getSplatValue(below.getRhs()) != 0.0 ||
          !llvm::is_contained(added->getOperands(), wrapped.getOnFalse()))
        return index;
      index = wrapped.getOnFalse();
    } else {
      return index;
    }
  }
  return index;
}

/// The gradient of a selection of one row for each sample, as exporters write it: a selection back.
Value trainc::rowsOfScatter(ScatterElementsAddOp scatter) {
  SmallVector<DimAttr> from = getDims(scatter.getUpdates()), to = getDims(scatter.getResult());
  auto repeated = scatter.getIndices().getDefiningOp<BroadcastOp>();
  if (scatter.getAxis() != 0 || !repeated || repeated.getAxes() != ArrayRef<int64_t>{0} ||
      ArrayRef(from).drop_front() != ArrayRef(to).drop_front())
    return {};
  auto sum = repeated.getOperand().getDefiningOp<AddOp>();
  DimAttr length = divideExactly(to[0], from[0]);
  // Either order of the sum, either order of its product.
  for (unsigned side = 0; sum && length && side < 2; ++side) {
    auto product = sum->getOperand(side).getDefiningOp<MulOp>();
    Value position = originOfIndex(sum->getOperand(1 - side));
    for (unsigned factor = 0; product && factor < 2; ++factor) {
      std::optional<AffineInteger> size = AffineIntegers().get(product->getOperand(factor));
      Value sample = originOfIndex(product->getOperand(1 - factor));
      if (!size || !size->isUniform() || size->constant != length ||
          getNumElements(position.getType()) != from[0] ||
          getNumElements(sample.getType()) != from[0] ||
          !countsSamples(sample, DimAttr::constant(scatter.getContext(), 1)))
        continue;
      OpBuilder builder(scatter);
      TrainBuilder tb(builder, scatter.getLoc());
      RowIndices of = buildRowOfEach(tb, position, from[0], length);
      return tb.selectRows(scatter.getUpdates(), of.inverse, of.index, 0);
    }
  }
  return {};
}
