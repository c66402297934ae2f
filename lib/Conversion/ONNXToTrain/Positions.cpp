// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Following a coordinate from iota through ops that only rearrange axes.

#include "Positions.h"

using namespace mlir;
using trainc::train::DimAttr;
using trainc::train::TrainBuilder;

namespace trainc::legalize {

/// Where axis `axis` of `from` is in `to`, if both are equal but for axes of size 1.
static std::optional<int64_t> followReshape(ArrayRef<DimAttr> from, ArrayRef<DimAttr> to,
                                            int64_t axis) {
  auto isOne = [](DimAttr size) { return size.isConstant(1); };
  // An axis of size 1 has one position: it may be anywhere.
  if (isOne(from[axis]))
    return std::nullopt;
  // What is left without these axes has to agree, in order.
  SmallVector<std::pair<DimAttr, int64_t>> a, b;
  for (auto [i, size] : llvm::enumerate(from))
    if (!isOne(size))
      a.push_back({size, i});
  for (auto [i, size] : llvm::enumerate(to))
    if (!isOne(size))
      b.push_back({size, i});
  if (a.size() != b.size())
    return std::nullopt;
  std::optional<int64_t> found;
  for (auto [x, y] : llvm::zip(a, b)) {
    if (x.first != y.first)
      return std::nullopt;
    if (x.second == axis)
      found = y.second;
  }
  return found;
}

/// Nullopt is "not known": nothing is wrong then.
std::optional<int64_t> positionAxis(Value x) {
  Operation *op = x.getDefiningOp();
  if (!op)
    return std::nullopt;
  if (auto iota = dyn_cast<train::IotaOp>(op))
    return iota.getAxis();
  if (auto reshape = dyn_cast<train::ReshapeOp>(op)) {
    std::optional<int64_t> axis = positionAxis(reshape.getOperand());
    // Only names of axes change.
    return axis ? followReshape(train::getDims(reshape.getOperand()), train::getDims(x), *axis)
                : std::nullopt;
  }
  if (auto broadcast = dyn_cast<train::BroadcastOp>(op)) {
    // Broadcasting adds axes; those that were there have a place in the result.
    std::optional<int64_t> axis = positionAxis(broadcast.getOperand());
    return axis ? std::optional<int64_t>(broadcast.getAxes()[*axis]) : std::nullopt;
  }
  if (auto transpose = dyn_cast<train::TransposeOp>(op)) {
    std::optional<int64_t> axis = positionAxis(transpose.getOperand());
    // The result's axis that comes from it.
    for (auto [to, from] : llvm::enumerate(transpose.getPermutation()))
      if (axis == from)
        return to;
    return std::nullopt;
  }
  // Casts between integers: positions fit all of them.
  if (auto cast = dyn_cast<train::CastOp>(op))
    if (train::getElementType(x).isInteger(64) &&
        isa<IntegerType>(train::getElementType(cast.getOperand())))
      return positionAxis(cast.getOperand());
  return std::nullopt;
}

/// Which axis each element of the tuples counts; as many as the last axis has.
std::optional<SmallVector<int64_t>> positionTuple(Value indices) {
  int64_t last = train::getRank(indices) - 1;
  // One part an element, joined along the last axis.
  SmallVector<Value> parts = {indices};
  if (auto concat = indices.getDefiningOp<train::ConcatOp>()) {
    if (int64_t(concat.getAxis()) != last)
      return std::nullopt;
    parts.assign(concat.getOperands().begin(), concat.getOperands().end());
  }
  SmallVector<int64_t> axes;
  for (Value part : parts) {
    // A part of several elements would be several axes.
    std::optional<int64_t> axis =
        train::getDim(part, last).isConstant(1) ? positionAxis(part) : std::nullopt;
    if (!axis || *axis == last)
      return std::nullopt;
    axes.push_back(*axis);
  }
  return axes;
}

Value buildBand(TrainBuilder &tb, DictionaryAttr band, ArrayRef<DimAttr> dims) {
  assert(dims.size() >= 2 && "a matrix");
  const int64_t column = dims.size() - 1, row = column - 1;
  Type i64 = tb.b().getI64Type();
  Value all;
  // That `from` is at most `columns` behind `to`.
  auto limit = [&](int64_t from, int64_t to, StringRef columns) {
    auto most = band.getAs<IntegerAttr>(columns);
    if (!most)
      return;
    Value end = tb.iota(dims, i64, to);
    if (most.getInt() != 0)
      end = tb.add(end, tb.scalarLike(end, double(most.getInt())));
    Value near = tb.compare("le", tb.iota(dims, i64, from), end);
    all = all ? tb.logicalAnd(all, near) : near;
  };
  limit(column, row, "after");
  limit(row, column, "before");
  assert(all && "what is one number everywhere is no band");
  auto number = [&](StringRef where) {
    auto value = cast<DenseElementsAttr>(band.get(where));
    return tb.broadcast(tb.constant(value), dims, {});
  };
  Value inside = number("inside"), outside = number("outside");
  if (!train::getElementType(inside).isInteger(1))
    return tb.select(all, inside, outside);
  return cast<DenseElementsAttr>(band.get("inside")).getSplatValue<bool>() ? all
                                                                           : tb.logicalNot(all);
}

} // namespace trainc::legalize
