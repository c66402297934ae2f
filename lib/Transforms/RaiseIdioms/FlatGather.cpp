// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Indices in row-major order, each checked against its own axis.

#include "lib/Transforms/RaiseIdioms/FlatGather.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

/// Parameters and inputs are read where they are; constants fold.
static bool isComputed(Value data) {
  Operation *def = data.getDefiningOp();
  return def && def->getNumOperands() > 0;
}

/// The gather of rows at `flat`, which has one axis, given the shape that is wanted.
static Value gatherRows(TrainBuilder &tb, Value rows, Value flat, int64_t axis, Value like) {
  return tb.reshape(tb.gather(rows, flat, axis), getDims(like));
}

Value trainc::flattenGather(GatherOp gather) {
  if (getRank(gather.getIndices()) < 2 || getRank(gather.getData()) < 2 ||
      !isComputed(gather.getData()))
    return {};
  OpBuilder builder(gather);
  TrainBuilder tb(builder, gather.getLoc());
  Value flat =
      tb.reshape(gather.getIndices(), {product(tb.context(), getDims(gather.getIndices()))});
  return gatherRows(tb, gather.getData(), flat, gather.getAxis(), gather.getResult());
}

Value trainc::flattenGather(GatherNdOp gather) {
  SmallVector<DimAttr> data = getDims(gather.getData()), indices = getDims(gather.getIndices());
  const int64_t batch = gather.getBatchDims(), depth = *indices.pop_back_val().getConstant();
  if (batch + depth >= int64_t(data.size()) || !isComputed(gather.getData()))
    return {};
  OpBuilder builder(gather);
  TrainBuilder tb(builder, gather.getLoc());
  Type integer = builder.getI64Type();
  Value wide = tb.cast(gather.getIndices(), integer), place, isValid;
  auto advance = [&](Value next, DimAttr size) {
    place = place ? tb.add(tb.mul(place, tb.splat(tb.dim(size, integer), place)), next) : next;
  };
  for (int64_t axis = 0; axis < batch; ++axis)
    advance(tb.iota(indices, integer, axis), data[axis]);
  for (int64_t i = 0; i < depth; ++i) {
    Value at =
        tb.reshape(tb.sliceAxis(wide, indices.size(), tb.dimAttr(i), tb.dimAttr(1)), indices);
    DimAttr size = data[batch + i];
    Value extent = tb.splat(tb.dim(size, integer), at), zero = tb.scalarLike(at, 0);
    // Below 0 counts from the end.
    at = tb.select(tb.compare("lt", at, zero), tb.add(at, extent), at);
    Value isInside = tb.logicalAnd(tb.compare("ge", at, zero), tb.compare("lt", at, extent));
    isValid = isValid ? tb.logicalAnd(isValid, isInside) : isInside;
    advance(at, size);
  }
  DimAttr count = product(tb.context(), ArrayRef(data).take_front(batch + depth));
  // What is outside of its own axis would be another row: it ends the run instead.
  place = tb.select(isValid, place, tb.splat(tb.dim(count, integer), place));
  SmallVector<DimAttr> rows = {count};
  rows.append(data.begin() + batch + depth, data.end());
  return gatherRows(tb, tb.reshape(gather.getData(), rows),
                    tb.reshape(place, {product(tb.context(), indices)}), 0, gather.getResult());
}
