// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Brings the axes together, selects, and takes them apart again; all but the selection are views.

#include "lib/Transforms/Support/RestrictLoops.h"
#include "trainc/Support/Location.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

Value trainc::selectAlong(TrainBuilder &tb, Value value, ArrayRef<int64_t> axes, SelectAxis select,
                          ArrayRef<DimAttr> sizes) {
  if (axes.size() == 1)
    return select(tb, value, axes.front());
  // The axes side by side, in the place of the first.
  // A transpose, a reshape, the selection, and both back.
  int64_t rank = getRank(value), first = axes.front();
  SmallVector<int64_t> order, back(rank);
  for (int64_t axis = 0; axis < rank; ++axis) {
    if (axis == first)
      llvm::append_range(order, axes);
    else if (!llvm::is_contained(axes, axis))
      order.push_back(axis);
  }
  for (auto [to, from] : llvm::enumerate(order))
    back[from] = to;
  Value together = tb.transpose(value, order);
  int64_t begin = llvm::find(order, first) - order.begin();
  SmallVector<DimAttr> dims = getDims(together), merged = dims;
  DimAttr rows = product(tb.context(), ArrayRef(dims).slice(begin, axes.size()));
  merged.erase(merged.begin() + begin, merged.begin() + begin + axes.size());
  merged.insert(merged.begin() + begin, rows);
  Value selected = select(tb, tb.reshape(together, merged), begin);
  // Without sizes the selected rows stand in the last of the axes.
  for (size_t i = 0; i < axes.size(); ++i)
    dims[begin + i] = sizes.empty() ? tb.dimAttr(1) : sizes[i];
  if (sizes.empty())
    dims[begin + axes.size() - 1] = getDim(selected, begin);
  return tb.transpose(tb.reshape(selected, dims), back);
}

/// Of each loop the axis of the entry; empty where it has none of them, nothing where it has some
/// only.
std::optional<SmallVector<int64_t>> trainc::findAxes(ArrayRef<int> entry,
                                                     ArrayRef<unsigned> loops) {
  SmallVector<int64_t> axes;
  for (unsigned loop : loops)
    if (auto it = llvm::find(entry, int(loop)); it != entry.end())
      axes.push_back(it - entry.begin());
  if (!axes.empty() && axes.size() != loops.size())
    return std::nullopt;
  return axes;
}

bool trainc::isView(Operation *op) {
  auto fusion = dyn_cast<FusionOpInterface>(op);
  // Constant data is a view too, of nothing.
  return fusion && fusion.getFusionRole() == FusionRole::View && op->getNumOperands() == 1;
}

/// Whether a loop can run over selected coordinates alone: they must not influence each other, nor
/// must the op ask where it is.
std::string trainc::whyNotRestricted(AxisMapOpInterface op, ArrayRef<unsigned> loops,
                                     bool isPrefix) {
  AxisMap map = op.getAxisMap();
  for (unsigned loop : loops) {
    LoopKind kind = map.loops[loop];
    if (kind == LoopKind::Positional && !isPrefix && !op.takesCoordinates())
      return describeOp(op) + " depends on the coordinate along the axis";
    if (kind != LoopKind::Parallel && kind != LoopKind::Positional)
      return describeOp(op) + " mixes the elements along the axis";
  }
  for (ArrayRef<int> axes : map.operands)
    if (!findAxes(axes, loops))
      return describeOp(op) + " repeats an operand along a part of the rows";
  return {};
}

/// `operands` are selected already. A positional op gets its coordinates from the selected row
/// numbers, unless it runs over a prefix.
Operation *trainc::restrictLoops(TrainBuilder &tb, AxisMapOpInterface op, ValueRange operands,
                                 ArrayRef<unsigned> loops, DimAttr extent, bool isPrefix,
                                 SelectAxis select) {
  AxisMap map = op.getAxisMap();
  SmallVector<LoopExtent> extents;
  for (unsigned loop : loops)
    extents.push_back({loop, tb.dimAttr(1)});
  // The last loop counts the selected rows, loops before it have one step.
  extents.back().extent = extent;
  Operation *restricted = op.cloneRestricted(tb.b(), operands, extents);
  if (isPrefix)
    return restricted;

  // Coordinates along the loops, of the row numbers.
  SmallVector<int64_t> axes = *findAxes(map.results[0], loops);
  SmallVector<DimAttr> from = getDims(op->getResult(0)), to = getDims(restricted->getResult(0));
  Value rows;
  DimAttr stride = tb.dimAttr(1);
  // From the innermost loop: coordinate = row / stride % size.
  for (size_t i = loops.size(); i-- > 0; stride = stride * from[axes[i]]) {
    if (map.loops[loops[i]] != LoopKind::Positional)
      continue;
    Type i64 = tb.b().getI64Type();
    // Once: all loops are digits of the same row number.
    if (!rows) {
      SmallVector<DimAttr> sizes;
      for (int64_t axis : axes)
        sizes.push_back(from[axis]);
      rows = select(tb, tb.iota({product(tb.context(), sizes)}, i64, 0), 0);
    }
    auto number = [&](DimAttr dim) { return tb.splat(tb.dim(dim, i64), rows); };
    Value coordinate = stride.isConstant(1) ? rows : tb.div(rows, number(stride));
    // The outermost loop needs no remainder.
    if (i > 0) {
      Value size = number(from[axes[i]]);
      coordinate = tb.sub(coordinate, tb.mul(tb.div(coordinate, size), size));
    }
    coordinate = tb.broadcast(tb.cast(coordinate, tb.b().getI32Type()), to, {axes.back()});
    Operation *placed =
        cast<AxisMapOpInterface>(restricted).atCoordinate(tb.b(), loops[i], coordinate);
    restricted->erase();
    restricted = placed;
  }
  return restricted;
}
