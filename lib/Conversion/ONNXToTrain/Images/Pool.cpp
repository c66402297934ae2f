// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Pools: reductions over the taps of sliding windows, or over whole images.

#include "lib/Conversion/ONNXToTrain/Images/Windows.h"
#include <limits>

using namespace mlir;
using trainc::train::ReduceKind;
using trainc::train::TrainBuilder;

namespace trainc::legalize {

/// Positions of so many elements, and the number behind them: the gradient keeps one for each
/// window, which of i64 would be as much as four windows of bf16.
static Type positionType(TrainBuilder &tb, ArrayRef<DimAttr> dims) {
  DimAttr count = tb.dimAttr(1);
  for (DimAttr dim : dims)
    count = count * dim;
  std::optional<int64_t> known = count.getConstant();
  for (unsigned bits : {8, 16})
    if (known && llvm::isIntN(bits, *known))
      return tb.b().getIntegerType(bits);
  return tb.b().getI64Type();
}

/// Where the largest element along `axes` is, the first one of equal ones.
static Value isFirstMax(TrainBuilder &tb, Value x, ArrayRef<int64_t> axes) {
  Dims dims = train::getDims(x);
  Value largest = tb.broadcastAlong(tb.reduce(ReduceKind::max, x, axes), dims, axes);
  // A NaN is as large as any.
  Value wins = tb.logicalOr(tb.compare("ge", x, largest), tb.isNan(x));
  Type integer = positionType(
      tb, llvm::map_to_vector(axes, [&](int64_t axis) { return DimAttr(dims[axis]); }));
  DimAttr count = tb.dimAttr(1);
  Value position;
  // Positions counted through the taps, the last axis fastest.
  for (int64_t axis : llvm::reverse(axes)) {
    Value along = tb.iota(dims, integer, axis);
    if (!count.isConstant(1))
      along = tb.mul(along, tb.splat(tb.dim(count, integer), along));
    position = position ? tb.add(position, along) : along;
    count = count * dims[axis];
  }
  // Beyond all positions.
  Value none = tb.splat(tb.dim(count, integer), position);
  Value first = tb.reduce(ReduceKind::min, tb.select(wins, position, none), axes);
  return tb.compare("eq", position, tb.broadcastAlong(first, dims, axes));
}

/// The largest element along `axes`; of equal ones the first takes the gradient, as in PyTorch.
static Value firstMax(TrainBuilder &tb, Value x, ArrayRef<int64_t> axes) {
  // The gradient of a select goes to one tap.
  return tb.sum(tb.select(isFirstMax(tb, x, axes), x, tb.scalarLike(x, 0)), axes);
}

/// The positions of the elements that `windows` were made of, counted through the whole input; what
/// is outside of it has any.
static Value positionsOf(NodeContext &c, ArrayRef<DimAttr> dims, ArrayRef<Sliding> slidings) {
  TrainBuilder &tb = c.tb;
  Type integer = tb.b().getI64Type();
  int64_t axes = slidings.size();
  // A product with 1 would only be more to read.
  auto times = [&](Value x, DimAttr size) {
    return size.isConstant(1) ? x : tb.mul(x, tb.splat(tb.dim(size, integer), x));
  };
  // Axes of the input from the one whose neighbours are neighbours in memory on.
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(0, axes));
  if (!c.attr("storage_order", int64_t(0)))
    std::reverse(order.begin(), order.end());
  DimAttr stride = c.dim(1);
  Value position;
  for (int64_t i : order) {
    const Sliding &s = slidings[i];
    // Of the window's start plus the tap's distance.
    Value at = tb.add(times(tb.iota(dims, integer, axes + 2 + i), c.dim(s.stride)),
                      times(tb.iota(dims, integer, i), c.dim(s.dilation)));
    // Counted from the input's first element, which padding is in front of.
    at = times(tb.sub(at, tb.splat(tb.dim(s.low, integer), at)), stride);
    position = position ? tb.add(position, at) : at;
    stride = stride * s.size;
  }
  // Then channels, then the batch, as they lie in memory.
  position = tb.add(position, times(tb.iota(dims, integer, axes + 1), stride));
  return tb.add(position, times(tb.iota(dims, integer, axes), stride * c.dims(0)[1]));
}

/// (sum |x|^p)^(1/p) along `axes`.
static Value powerNorm(TrainBuilder &tb, Value x, int64_t p, ArrayRef<int64_t> axes) {
  if (p == 1)
    return tb.sum(tb.abs(x), axes);
  // The common cases without powers, whose gradient is not defined at 0.
  if (p == 2)
    return tb.sqrt(tb.sum(tb.mul(x, x), axes));
  Value sum = tb.sum(tb.pow(tb.abs(x), tb.scalarLike(x, double(p))), axes);
  return tb.pow(sum, tb.scalarLike(sum, 1.0 / double(p)));
}

static LogicalResult maxPool(NodeContext &c) {
  auto slidings = c.needFloat(0) ? readSlidings(c, {}) : std::nullopt;
  if (!slidings)
    return failure();
  // Padding never wins.
  double lowest = -std::numeric_limits<double>::infinity();
  Value windows = buildWindows(c.tb, c.tensor(0), *slidings, lowest);
  SmallVector<int64_t> taps = tapAxes(*slidings);
  // The indices cost a second reduction: only where they are read.
  if (c.used(1)) {
    Value position = positionsOf(c, train::getDims(windows), *slidings);
    Value chosen = isFirstMax(c.tb, windows, taps);
    (void)c.set(c.tb.sum(c.tb.select(chosen, position, c.tb.scalarLike(position, 0)), taps), 1);
  }
  return c.set(firstMax(c.tb, windows, taps));
}

static LogicalResult averagePool(NodeContext &c) {
  auto slidings = c.needFloat(0) ? readSlidings(c, {}) : std::nullopt;
  if (!slidings)
    return failure();
  TrainBuilder &tb = c.tb;
  bool withPads = c.attr("count_include_pad", int64_t(0));
  SmallVector<int64_t> taps = tapAxes(*slidings);
  Value y = tb.sum(buildWindows(tb, c.tensor(0), *slidings, 0), taps);
  Dims dims = train::getDims(y);
  // What a window counts is a product over the axes.
  // It is 1 for windows that lie inside.
  int64_t whole = 1;
  for (auto [i, s] : llvm::enumerate(*slidings)) {
    // Elements that windows reach, with all padding.
    DimAttr end = s.size + s.low + s.high;
    DimAttr counted = withPads ? end - s.beyond : s.size;
    DimAttr low = withPads ? c.dim(0) : s.low;
    if (counted == end) {
      assert(s.taps > 0 && "readSlidings has asked");
      whole *= s.taps;
      continue;
    }
    // [1, 1, positions] -> [taps, 1, 1, windows]
    Sliding own = s;
    own.size = counted;
    // What is not counted stands for padding.
    own.low = low;
    own.high = end - counted - low;
    Value ones = tb.full({c.dim(1), c.dim(1), counted}, c.element(0), 1);
    Value count = tb.sum(buildWindows(tb, ones, {own}, 0), {0});
    // Each axis divides by its own counts.
    count = tb.broadcast(tb.reshape(count, {s.count}), dims, {2 + int64_t(i)});
    y = tb.div(y, count);
  }
  if (whole != 1)
    y = tb.div(y, tb.scalarLike(y, double(whole)));
  return c.set(y);
}

static LogicalResult lpPool(NodeContext &c) {
  auto slidings = c.needFloat(0) ? readSlidings(c, {}) : std::nullopt;
  if (!slidings)
    return failure();
  int64_t p = c.attr("p", int64_t(2));
  Value windows = buildWindows(c.tb, c.tensor(0), *slidings, 0);
  return c.set(powerNorm(c.tb, windows, p, tapAxes(*slidings)));
}

/// [batch, channels, axes...] -> [batch, channels, 1, ...]
/// Average, maximum, or norm, by the operator's name.
static LogicalResult globalPool(NodeContext &c) {
  if (!c.needFloat(0))
    return failure();
  if (c.rank(0) < 3)
    return c.fail("it needs an input [batch, channels, axes...]");
  TrainBuilder &tb = c.tb;
  SmallVector<int64_t> axes;
  Dims kept = c.dims(0);
  for (int64_t axis = 2; axis < c.rank(0); ++axis) {
    // There is neither a maximum nor a mean of nothing.
    if (kept[axis].isConstant(0))
      return c.fail("its input " + train::dimsToString(c.dims(0)) + " has nothing along axis " +
                    Twine(axis) + ": give it at least one position");
    // Axes stay, with size 1.
    axes.push_back(axis);
    kept[axis] = c.dim(1);
  }
  Value x = c.tensor(0), y;
  if (c.op.getOpType() == "GlobalAveragePool")
    y = tb.mean(x, axes);
  else if (c.op.getOpType() == "GlobalMaxPool")
    y = firstMax(tb, x, axes);
  else
    y = powerNorm(tb, x, std::max<int64_t>(1, c.attr("p", int64_t(2))), axes);
  return c.set(tb.reshape(y, kept));
}

void registerPool(HandlerTable &table) {
  table.add("MaxPool", maxPool, 1, 1);
  table.add("AveragePool", averagePool, 1, 1);
  table.add("LpPool", lpPool, 1, 1);
  table.add("GlobalAveragePool", globalPool, 1, 1);
  table.add("GlobalMaxPool", globalPool, 1, 1);
  table.add("GlobalLpPool", globalPool, 1, 1);
}

} // namespace trainc::legalize
