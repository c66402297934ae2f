// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sizes are compared as expressions: what does not hold for all of them is not used.

#include "lib/Transforms/Support/PartSelections.h"

#include "lib/Transforms/Support/ZeroRows.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

/// Whether a <= b for all sizes.
static bool isAtMost(DimAttr a, DimAttr b, Operation *op) { return isNeverNegative(b - a, op); }

/// [start, start + size) of the parts, which follow each other.
static Value selectFromJoined(TrainBuilder &tb, ConcatOp joined, int64_t axis, DimAttr start,
                              DimAttr size) {
  DimAttr begin = tb.dimAttr(0), end = start + size;
  SmallVector<Value> parts;
  for (Value part : joined.getOperands()) {
    DimAttr length = getDim(part, axis), stop = begin + length;
    if (!isAtMost(stop, start, joined) && !isAtMost(end, begin, joined)) {
      bool fromFirst = isAtMost(start, begin, joined), toLast = isAtMost(stop, end, joined);
      // Where the range begins or ends has to be known to lie in this part.
      if ((!fromFirst && !isAtMost(begin, start, joined)) ||
          (!toLast && !isAtMost(end, stop, joined)))
        return {};
      DimAttr first = fromFirst ? tb.dimAttr(0) : start - begin;
      DimAttr last = toLast ? length : end - begin;
      parts.push_back(fromFirst && toLast ? part : tb.sliceAxis(part, axis, first, last - first));
    }
    begin = stop;
  }
  // Joining parts anew is worth it only where they were not joined already for others.
  if (parts.empty() || (parts.size() > 1 && !joined->hasOneUse()))
    return {};
  return parts.size() == 1 ? parts.front() : tb.concat(parts, axis);
}

Value trainc::selectFromParts(TrainBuilder &tb, Operation *selection) {
  auto slice = dyn_cast<SliceOp>(selection);
  int64_t axis = slice ? slice.getSlicedAxis() : -1;
  Operation *def = slice ? slice.getOperand().getDefiningOp() : nullptr;
  if (axis < 0 || !def)
    return {};
  DimAttr start = slice.getStarts().getDims()[axis], size = slice.getSlicedExtent();
  int64_t step = slice.getSteps()[axis];
  if (auto split = dyn_cast<SplitOp>(def); split && int64_t(split.getAxis()) == axis) {
    for (Value part : split.getResults()) {
      if (part == slice.getOperand())
        break;
      start = start + getDim(part, axis);
    }
    return tb.sliceAxis(split.getOperand(), axis, start, size, step);
  }
  if (step != 1)
    return {};
  if (auto joined = dyn_cast<ConcatOp>(def); joined && int64_t(joined.getAxis()) == axis)
    return selectFromJoined(tb, joined, axis, start, size);
  auto pad = dyn_cast<PadOp>(def);
  if (!pad)
    return {};
  SmallVector<DimAttr> from = getDims(pad.getOperand()), to = getDims(pad.getResult());
  for (auto [a, low] : llvm::enumerate(pad.getLow().getDims()))
    if (int64_t(a) != axis && (!low.isConstant(0) || from[a] != to[a]))
      return {};
  DimAttr first = start - pad.getLow().getDims()[axis];
  if (!isNeverNegative(first, pad) || !isAtMost(first + size, from[axis], pad))
    return {};
  return first.isConstant(0) && size == from[axis]
             ? pad.getOperand()
             : tb.sliceAxis(pad.getOperand(), axis, first, size);
}

SmallVector<int64_t> trainc::getSlicedAxes(SliceOpInterface selection) {
  if (int64_t axis = selection.getSlicedAxis(); axis >= 0)
    return {axis};
  SmallVector<int64_t> axes;
  auto slice = dyn_cast<SliceOp>(selection.getOperation());
  if (!slice)
    return axes;
  AxisMap map = slice.getAxisMap();
  for (auto [axis, loop] : llvm::enumerate(map.results[0]))
    if (map.loops[loop] != LoopKind::Parallel)
      axes.push_back(axis);
  return axes;
}

Value trainc::selectOneAxis(TrainBuilder &tb, SliceOpInterface selection, int64_t axis) {
  auto slice = cast<SliceOp>(selection.getOperation());
  return tb.sliceAxis(slice.getOperand(), axis, slice.getStarts().getDims()[axis],
                      getDim(slice.getResult(), axis), slice.getSteps()[axis]);
}

Value trainc::selectOtherAxes(TrainBuilder &tb, SliceOpInterface selection, Value value,
                              int64_t axis) {
  auto slice = cast<SliceOp>(selection.getOperation());
  SmallVector<DimAttr> starts(slice.getStarts().getDims());
  SmallVector<int64_t> steps(slice.getSteps());
  starts[axis] = tb.dimAttr(0);
  steps[axis] = 1;
  return tb.slice(value, starts, getDims(slice.getResult()), steps);
}

Value trainc::joinSelections(TrainBuilder &tb, SliceOpInterface selection) {
  auto outer = dyn_cast<SliceOp>(selection.getOperation());
  auto inner = outer ? outer.getOperand().getDefiningOp<SliceOp>() : SliceOp();
  if (!inner)
    return {};
  SmallVector<DimAttr> starts(inner.getStarts().getDims());
  SmallVector<int64_t> steps(inner.getSteps());
  for (size_t axis = 0; axis < steps.size(); ++axis) {
    starts[axis] = starts[axis] + outer.getStarts().getDims()[axis] * tb.dimAttr(steps[axis]);
    steps[axis] *= outer.getSteps()[axis];
  }
  return tb.slice(inner.getOperand(), starts, getDims(outer.getResult()), steps);
}
