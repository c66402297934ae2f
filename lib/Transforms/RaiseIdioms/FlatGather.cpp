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
/// Indices in one list make a gather of whole rows.
static Value gatherRows(TrainBuilder &tb, Value rows, Value flat, int64_t axis, Value like) {
  return tb.reshape(tb.gather(rows, flat, axis), getDims(like));
}

/// Null where nothing is gained: few axes, or data that is read in place.
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

/// Index tuples become row numbers of the axes that they choose along, taken as one.
Value trainc::flattenGather(GatherNdOp gather) {
  SmallVector<DimAttr> data = getDims(gather.getData()), indices = getDims(gather.getIndices());
  const int64_t batch = gather.getBatchDims(), depth = *indices.pop_back_val().getConstant();
  // With tuples as deep as the data, single elements are chosen: no rows.
  if (batch + depth >= int64_t(data.size()) || !isComputed(gather.getData()))
    return {};
  OpBuilder builder(gather);
  TrainBuilder tb(builder, gather.getLoc());
  DimAttr count = product(tb.context(), ArrayRef(data).take_front(batch + depth));
  Value isValid, place = gather.buildRowNumbers(tb, &isValid);
  // What is outside of its own axis would be another row: it ends the run instead.
  // `count` is out of range for every row.
  place = tb.select(isValid, place, tb.splat(tb.dim(count, builder.getI64Type()), place));
  SmallVector<DimAttr> rows = {count};
  rows.append(data.begin() + batch + depth, data.end());
  return gatherRows(tb, tb.reshape(gather.getData(), rows),
                    tb.reshape(place, {product(tb.context(), indices)}), 0, gather.getResult());
}
