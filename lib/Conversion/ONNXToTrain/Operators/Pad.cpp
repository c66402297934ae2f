// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Pad in all its modes, and CenterCropPad.

#include "lib/Conversion/ONNXToTrain/Handlers.h"
#include "lib/Conversion/ONNXToTrain/Sizes/SizeHints.h"

using namespace mlir;
using trainc::train::TrainBuilder;

namespace trainc::legalize {

/// Where each element along an axis of `size` comes from, if the axis grows to `padded` with `low`
/// before it: an index into the axis, of rank 1.
static Value sourceIndex(NodeContext &c, StringRef mode, DimAttr size, DimAttr low,
                         DimAttr padded) {
  TrainBuilder &tb = c.tb;
  Type integer = tb.b().getI64Type();
  Value at = tb.iota({padded}, integer, 0);
  // Gathered once along the axis, whatever the mode.
  auto number = [&](DimAttr value) { return tb.splat(tb.dim(value, integer), at); };
  auto mod = [&](Value x, Value y) -> Value {
    return train::ModOp::create(tb.b(), tb.loc(), x.getType(), x, y);
  };
  // Where the element would be without padding.
  at = tb.sub(at, number(low));
  // The sign of the divisor: negative positions count from the end.
  if (mode == "wrap")
    return mod(at, number(size));
  Value last = number(size - c.dim(1));
  if (mode == "edge")
    return tb.min(tb.max(at, tb.scalarLike(at, 0)), last);
  // reflect: there and back again, without repeating the ends.
  // At least 1: an axis of one element repeats it.
  Value period = tb.max(tb.add(last, last), tb.scalarLike(at, 1));
  at = mod(at, period);
  // The second half of the period comes back; the last min is for axes of one element.
  return tb.min(tb.min(at, tb.sub(period, at)), last);
}

static LogicalResult pad(NodeContext &c) {
  StringRef mode = c.attr("mode", "constant");
  int64_t rank = c.rank(0);
  auto pads = c.sizeList(1, "pads");
  if (!pads)
    return failure();
  // Constant mode only.
  double value = c.attr("value", 0.0); // an attribute before opset 11
  if (c.has(2)) {
    auto given = c.realConstant(2, "padding value");
    if (!given)
      return failure();
    value = *given;
  }
  Axes axes;
  // Axes as an input came with opset 18.
  if (c.has(3)) {
    auto values = c.constants(3, "axes");
    auto found = values ? c.axes(*values, rank) : std::nullopt;
    if (!found)
      return failure();
    axes = *found;
  } else {
    for (int64_t i = 0; i < rank; ++i)
      axes.push_back(i);
  }
  if (pads->size() != 2 * axes.size())
    return c.fail("it needs two pads an axis");
  Dims low(rank, c.dim(0)), dims = c.dims(0);
  for (auto [i, axis] : llvm::enumerate(axes)) {
    // Both ends of an axis: the lower ones of all axes come first.
    low[axis] = (*pads)[i];
    dims[axis] = dims[axis] + (*pads)[i] + (*pads)[i + axes.size()];
  }
  // Negative pads crop, and may crop too much.
  for (int64_t axis : axes)
    if (std::optional<int64_t> size = dims[axis].getConstant(); size && *size < 0)
      return c.fail("its pads cut off more than the " + c.dims(0)[axis].str() +
                    " positions of axis " + Twine(axis) + "; give it larger ones");
  if (!c.needSizes(dims))
    return failure();
  // Exporters write pads of 0.
  auto unchanged = [&](int64_t axis) {
    return dims[axis] == c.dims(0)[axis] && low[axis].isConstant(0);
  };
  if (llvm::all_of(axes, unchanged))
    return c.alias(c.in(0));
  if (mode == "constant")
    return c.set(c.tb.pad(c.tensor(0), value, low, dims));
  Value x = c.tensor(0);
  // One axis after the other, each from what the last one made.
  for (int64_t axis : axes) {
    if (unchanged(axis))
      continue;
    DimAttr size = c.dims(0)[axis];
    if (size.isConstant(0))
      return c.fail("mode '" + mode + "' has no element to repeat along an axis of size 0");
    x = c.tb.gather(x, sourceIndex(c, mode, size, low[axis], dims[axis]), axis);
  }
  return c.set(x);
}

/// Crops or pads around the middle; what is left over goes to the end.
static LogicalResult centerCropPad(NodeContext &c) {
  auto wanted = c.constants(1, "shape");
  if (!wanted)
    return failure();
  // Without axes: all of them.
  SmallVector<int64_t> given;
  if (auto list = c.ints("axes"))
    given = *list;
  else
    for (int64_t i = 0; i < c.rank(0); ++i)
      given.push_back(i);
  std::optional<Axes> axes = c.axes(given, c.rank(0));
  if (!axes)
    return failure();
  if (axes->size() != wanted->size())
    return c.fail("its shape needs one size an axis");
  Dims dims = c.dims(0), low(dims.size(), c.dim(0));
  for (auto [axis, size] : llvm::zip(*axes, *wanted)) {
    auto from = dims[axis].getConstant();
    if (!from)
      return c.fail("it crops or pads an axis of symbolic size '" + dims[axis].str() + "'" +
                    fixHint({dims[axis]}));
    low[axis] = c.dim((size - *from) / 2); // truncates: the smaller half comes first either way
    dims[axis] = c.dim(size);
  }
  // The shape is the user's.
  if (!c.needSizes(dims))
    return failure();
  return c.set(c.tb.pad(c.tensor(0), 0, low, dims));
}

void registerPad(HandlerTable &table) {
  table.add("Pad", pad, 1, 2);
  table.entries["Pad"].settings = {1, 2, 3};
  table.add("CenterCropPad", centerCropPad, 2, 18);
  table.describe({"Pad", "CenterCropPad"}, HandlerTable::kAll);
}

} // namespace trainc::legalize
