// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Order along an axis: the positions of extremes, the largest elements, one-hot maxima.

#include "lib/Conversion/ONNXToTrain/Indexing/Order.h"
#include "lib/Conversion/ONNXToTrain/Sizes/SizeHints.h"

using namespace mlir;
using trainc::train::ReduceKind;
using trainc::train::TrainBuilder;

namespace trainc::legalize {

/// First or last of equal ones. A line of NaN, which equals nothing, gives `none`.
Value extremePosition(TrainBuilder &tb, Value x, int64_t axis, bool isMax, bool last) {
  Dims dims = train::getDims(x);
  Type integer = tb.b().getI64Type();
  Value peak = tb.reduce(isMax ? ReduceKind::max : ReduceKind::min, x, {axis});
  Value hit = tb.compare("eq", x, tb.broadcastAlong(peak, dims, {axis}));
  Value position = tb.iota(dims, integer, axis);
  // Neutral in the reduction below, and still a position of the axis.
  Value none = last ? tb.scalarLike(position, 0)
                    : tb.splat(tb.dim(dims[axis] - tb.dimAttr(1), integer), position);
  return tb.reduce(last ? ReduceKind::max : ReduceKind::min, tb.select(hit, position, none),
                   {axis});
}

static LogicalResult argExtreme(NodeContext &c) {
  std::optional<int64_t> axis = c.axis(c.attr("axis", int64_t(0)), c.rank(0));
  if (!axis)
    return failure();
  // As ONNX has it.
  if (c.element(0).isInteger(1))
    return c.fail("it is not supported on booleans");
  Value y = extremePosition(c.tb, c.tensor(0), *axis, c.op.getOpType() == "ArgMax",
                            c.attr("select_last_index", int64_t(0)));
  if (c.attr("keepdims", int64_t(1))) {
    Dims dims = c.dims(0);
    dims[*axis] = c.dim(1);
    y = c.tb.reshape(y, dims);
  }
  return c.set(y);
}

/// 1 at the first maximum along the axis; before opset 13 along all axes from there on as one.
static LogicalResult hardmax(NodeContext &c) {
  bool flat = c.version() < 13;
  std::optional<int64_t> axis = c.axis(c.attr("axis", int64_t(flat ? 1 : -1)), c.rank(0));
  if (!axis || !c.needFloat(0))
    return failure();
  TrainBuilder &tb = c.tb;
  Value x = c.tensor(0);
  // A softmax's axes before opset 13, as one.
  if (flat) {
    ArrayRef<DimAttr> dims = c.dims(0);
    x = tb.reshape(x, {train::product(c.context(), dims.take_front(*axis)),
                       train::product(c.context(), dims.drop_front(*axis))});
    axis = 1;
  }
  Dims dims = train::getDims(x);
  Value first = extremePosition(tb, x, *axis, /*isMax=*/true, /*last=*/false);
  Value position = tb.iota(dims, tb.b().getI64Type(), *axis);
  // Exactly one of a line, also among equal ones.
  Value hit = tb.compare("eq", position, tb.broadcastAlong(first, dims, {*axis}));
  return c.set(tb.reshape(tb.cast(hit, c.element(0)), c.dims(0)));
}

/// The k largest (or smallest) elements, in order; equal ones keep theirs. An element's rank is how
/// many come before it, which needs no sorting network: every pair is compared.
static LogicalResult topK(NodeContext &c) {
  // k was an attribute before opset 10.
  std::optional<int64_t> axis = c.axis(c.attr("axis", int64_t(-1)), c.rank(0));
  Dims count;
  if (c.version() < 10) {
    count = {c.dim(c.attr("k", int64_t(0)))};
  } else if (auto given = c.has(1) ? c.sizes(1, "k") : std::nullopt) {
    count = *given;
  }
  if (!axis || count.empty())
    return failure();
  if (count.size() != 1 || !c.needSizes(count))
    return c.fail("its k is not one size");
  // Known, or made a bound of the batch's size: positions are all within the axis then.
  if (DimAttr k = count[0], size = c.dims(0)[*axis];
      !c.state.bounds.atMost(k, size) && !c.state.bounds.demandAtMost(k - size, 0))
    return c.fail("its k of '" + k.str() + "' is not known to be at most its axis of size '" +
                  size.str() + "'" + boundHint({size}, k.getConstant().value_or(1)));
  if (c.element(0).isInteger(1))
    return c.fail("it is not supported on booleans");
  TrainBuilder &tb = c.tb;
  Type integer = tb.b().getI64Type();
  Value x = c.tensor(0);
  Dims dims = c.dims(0), pairs = dims, taken = dims;
  taken[*axis] = count[0];
  // Axis `axis` is the element, the one after it the element that it is compared with.
  pairs.insert(pairs.begin() + *axis, dims[*axis]);
  Value self = tb.broadcastAlong(x, pairs, {*axis + 1});
  Value other = tb.broadcastAlong(x, pairs, {*axis});
  bool largest = c.attr("largest", int64_t(1));
  Value wins = tb.compare(largest ? "gt" : "lt", other, self);
  Value equal = tb.compare("eq", other, self);
  // Compares with NaN are all false.
  if (isa<FloatType>(c.element(0))) {
    // NaN is the largest number.
    Value selfNan = tb.isNan(self), otherNan = tb.isNan(other);
    Value more = largest ? tb.logicalAnd(otherNan, tb.logicalNot(selfNan))
                         : tb.logicalAnd(selfNan, tb.logicalNot(otherNan));
    wins = tb.logicalOr(wins, more);
    equal = tb.logicalOr(equal, tb.logicalAnd(selfNan, otherNan));
  }
  // An equal element comes before if it is earlier, so that ranks are a permutation.
  Value before =
      tb.compare("lt", tb.iota(pairs, integer, *axis + 1), tb.iota(pairs, integer, *axis));
  Value ahead = tb.logicalOr(wins, tb.logicalAnd(equal, before));
  Value rank = tb.sum(tb.cast(ahead, integer), {*axis + 1});
  // The position whose rank is i, for i below k.
  Dims search = taken;
  search.insert(search.begin() + *axis + 1, dims[*axis]);
  // Exactly one position of a line has the rank, so that the sum below is that position.
  Value hit =
      tb.compare("eq", tb.broadcastAlong(rank, search, {*axis}), tb.iota(search, integer, *axis));
  Value position = tb.iota(search, integer, *axis + 1);
  Value index = tb.sum(tb.select(hit, position, tb.scalarLike(position, 0)), {*axis + 1});
  (void)c.set(tb.gatherElements(x, index, *axis), 0);
  // The elements are those of the input, whose carrier is wider.
  if (unsigned bits = c.in(0).unsignedBits)
    c.wrap(c.state.valueOf(c.op.getOutputs()[0]), bits);
  return c.set(index, 1);
}

void registerOrder(HandlerTable &table) {
  table.add("ArgMax", argExtreme, 1, 1);
  table.add("ArgMin", argExtreme, 1, 1);
  table.add("Hardmax", hardmax, 1, 1);
  table.add("TopK", topK, 1, 1);
  for (StringRef name : {"ArgMax", "ArgMin", "TopK"})
    table.entries[name].typedAs = -1;
  using Table = HandlerTable;
  table.describe({"ArgMax", "ArgMin"}, Table::kNumbers, false);
  table.describe({"Hardmax"}, Table::kReals, false);
  table.describe({"TopK"}, Table::kNumbers);
}

} // namespace trainc::legalize
