// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loops and combinations of threads that several mappings share.

#include "Tiles.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace trainc::train;

namespace trainc::codegen {

/// No wider than there are columns; the block's other threads are further rows.
Tile Tile::forColumns(DimAttr columns, int64_t limit) {
  Tile tile;
  tile.columns = limit;
  if (auto known = columns.getConstant())
    while (tile.columns > 1 && tile.columns / 2 >= *known)
      tile.columns /= 2;
  tile.rows = kTileThreads / tile.columns;
  return tile;
}

/// Rounds of `unroll` positions, then single ones, in ascending order. One round is no loop.
Values stridedLoop(GpuEmitter &e, Value lower, Value upper, int64_t step, unsigned unroll,
                   ValueRange init, llvm::function_ref<Values(ArrayRef<Value>, ValueRange)> body) {
  auto from = getConstantIntValue(lower), to = getConstantIntValue(upper);
  if (from && to && *to - *from == step * unroll) {
    Values positions;
    for (unsigned i = 0; i < unroll; ++i)
      positions.push_back(e.constantIndex(*from + i * step));
    return body(positions, init);
  }
  Values carried(init);
  Value stride = e.constantIndex(step), begin = lower;
  if (unroll > 1) {
    // Whole rounds from `begin` to `middle`; the range may be empty or turned around.
    begin = e.minIndex(lower, upper);
    Value length = e.addIndex(e.subIndex(upper, begin), e.constantIndex(step - 1));
    Value rounds = e.divIndex(length, e.constantIndex(step * unroll));
    Value round = e.constantIndex(step * unroll);
    Value middle = e.addIndex(begin, e.mulIndex(rounds, round));
    auto loop = e.openLoop(begin, middle, round, carried);
    Values positions;
    for (unsigned i = 0; i < unroll; ++i)
      positions.push_back(e.addIndex(loop.getInductionVar(), e.constantIndex(i * step)));
    carried = e.closeLoop(loop, body(positions, loop.getRegionIterArgs()));
    begin = middle;
  }
  auto loop = e.openLoop(begin, upper, stride, carried);
  Value position = loop.getInductionVar();
  return e.closeLoop(loop, body(position, loop.getRegionIterArgs()));
}

/// In a tree over the rows, lower half plus upper half. Results are right in the first row only.
Values combineRows(GpuEmitter &e, const Tile &tile, ArrayRef<TileValue> values) {
  Values results;
  for (const TileValue &value : values)
    results.push_back(value.value);
  if (tile.rows == 1)
    return results;
  assert(llvm::isPowerOf2_64(uint64_t(tile.rows)) && "rows are halved");
  unsigned lanes = e.getLanes();
  Value row = e.divIndex(e.thread(), e.constantIndex(tile.columns));
  ElementIndex mine = vectorAt(e, e.thread(), lanes);
  // Nobody may still read what an earlier call has left in the arrays.
  e.syncBlock();
  for (const TileValue &value : values)
    e.storeTo(value.array, value.element, mine, value.value);
  for (int64_t half = tile.rows / 2; half >= 1; half /= 2) {
    e.syncBlock();
    e.openIf(e.lessIndex(row, e.constantIndex(half)));
    ElementIndex other = e.add(mine, e.constant(half * tile.columns * lanes));
    for (const TileValue &value : values) {
      Value x = e.loadFrom(value.array, value.element, mine),
            y = e.loadFrom(value.array, value.element, other);
      e.storeTo(value.array, value.element, mine, value.combine(x, y));
    }
    e.closeIf();
  }
  for (auto [result, value] : llvm::zip_equal(results, values))
    result = e.loadFrom(value.array, value.element, mine);
  return results;
}

Value temporaryAt(GpuEmitter &e, DimAttr byteOffset) {
  OpBuilder &b = e.builder();
  Value base = e.temporary();
  if (byteOffset.isConstant(0))
    return base;
  Value offset = arith::IndexCastOp::create(b, e.loc(), b.getI64Type(), e.dim(byteOffset));
  return LLVM::GEPOp::create(b, e.loc(), base.getType(), b.getI8Type(), base, ValueRange{offset});
}

DimAttr atLeastOne(DimAttr size) { return maxDim(size, DimAttr::constant(size.getContext(), 1)); }

} // namespace trainc::codegen
