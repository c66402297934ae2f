// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sizes are compared as expressions: what does not hold for all of them is not used.

#include "lib/Transforms/Support/PartSelections.h"

#include "lib/Transforms/Support/ZeroRows.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

/// Whether a <= b for all sizes.
/// Proved from the least values of symbols; false means unknown.
static bool isAtMost(DimAttr a, DimAttr b, Operation *op) { return isNeverNegative(b - a, op); }

/// A slice, or a part of a split; a pad has a fill and is none.
std::optional<Subrange> trainc::getCut(Operation *op) {
  auto range = dyn_cast_or_null<SubrangeOpInterface>(op);
  if (!range || range.getFill() || op->getNumOperands() != 1 || op->getNumResults() != 1)
    return std::nullopt;
  return range.getSubrange(0, 0);
}

/// Where a range of another value begins along `axis`, if it is all of it along the others.
/// None where steps or other axes would be needed as well.
static std::optional<DimAttr> startAlong(const Subrange &range, int64_t axis, Value part,
                                         Value whole) {
  for (int64_t a = 0; a < getRank(whole); ++a)
    if (range.steps[a] != 1 ||
        (a != axis && (!range.starts[a].isConstant(0) || getDim(part, a) != getDim(whole, a))))
      return std::nullopt;
  return range.starts[axis];
}

/// [start, start + size) of the parts, which follow each other.
/// Parts that the range does not touch are left out, those that it touches in part are selected
/// from. Null where sizes do not tell which these are.
static Value selectFromJoined(TrainBuilder &tb, SubrangeOpInterface joined, int64_t axis,
                              DimAttr start, DimAttr size) {
  DimAttr end = start + size;
  // One question, not one a part, of which an unrolled layer has many: where the last one lies
  // behind all others along the axis, each lies behind the one before.
  const unsigned last = joined->getNumOperands() - 1;
  DimAttr before = tb.dimAttr(0);
  for (Value part : joined->getOperands().drop_back())
    before = before + getDim(part, axis);
  // Starts of parts within the whole are negative offsets.
  std::optional<DimAttr> shift =
      startAlong(joined.getSubrange(last, 0), axis, joined->getOperand(last), joined->getResult(0));
  if (!shift || before != tb.dimAttr(0) - *shift)
    return {};
  SmallVector<Value> parts;
  DimAttr begin, stop = tb.dimAttr(0);
  for (Value part : joined->getOperands()) {
    DimAttr length = getDim(part, axis);
    begin = stop;
    stop = begin + length;
    // All of the part lies before the range, or behind it.
    if (isAtMost(stop, start, joined) || isAtMost(end, begin, joined))
      continue;
    bool fromFirst = isAtMost(start, begin, joined), toLast = isAtMost(stop, end, joined);
    // Where the range begins or ends has to be known to lie in this part.
    if ((!fromFirst && !isAtMost(begin, start, joined)) ||
        (!toLast && !isAtMost(end, stop, joined)))
      return {};
    DimAttr first = fromFirst ? tb.dimAttr(0) : start - begin;
    DimAttr until = toLast ? length : end - begin;
    parts.push_back(fromFirst && toLast ? part : tb.sliceAxis(part, axis, first, until - first));
  }
  // Joining parts anew is worth it only where they were not joined already for others.
  if (parts.empty() || (parts.size() > 1 && !joined->hasOneUse()))
    return {};
  return parts.size() == 1 ? parts.front() : tb.concat(parts, axis);
}

/// [start, start + size) of an operand that `padded` has all of, and something around it.
/// Nothing of the fill may be in the range.
static Value selectFromPadded(TrainBuilder &tb, SubrangeOpInterface padded, int64_t axis,
                              DimAttr start, DimAttr size) {
  Value inner = padded->getOperand(0);
  std::optional<DimAttr> shift =
      startAlong(padded.getSubrange(0, 0), axis, inner, padded->getResult(0));
  if (!shift)
    return {};
  DimAttr first = start + *shift;
  if (!isNeverNegative(first, padded) || !isAtMost(first + size, getDim(inner, axis), padded))
    return {};
  return first.isConstant(0) && size == getDim(inner, axis)
             ? inner
             : tb.sliceAxis(inner, axis, first, size);
}

/// Through one op: a split (back to what was split), a pad or a concat. The selection itself is not
/// touched.
Value trainc::selectFromParts(TrainBuilder &tb, Operation *selection) {
  std::optional<Subrange> cut = getCut(selection);
  auto slice = dyn_cast<SliceOpInterface>(selection);
  int64_t axis = cut && slice ? slice.getSlicedAxis() : -1;
  OpResult from = axis < 0 ? OpResult() : dyn_cast<OpResult>(selection->getOperand(0));
  auto def = from ? dyn_cast<SubrangeOpInterface>(from.getOwner()) : nullptr;
  if (!def)
    return {};
  DimAttr start = cut->starts[axis], size = slice.getSlicedExtent();
  int64_t step = cut->steps[axis];
  if (def->getNumResults() > 1) {
    std::optional<DimAttr> first =
        startAlong(def.getSubrange(0, from.getResultNumber()), axis, from, def->getOperand(0));
    return first ? tb.sliceAxis(def->getOperand(0), axis, start + *first, size, step) : Value();
  }
  // Steps would have to be in phase with each part.
  if (step != 1)
    return {};
  return def.getFill()               ? selectFromPadded(tb, def, axis, start, size)
         : def->getNumOperands() > 1 ? selectFromJoined(tb, def, axis, start, size)
                                     : Value();
}

/// In ascending order; empty if the op selects otherwise than by ranges.
SmallVector<int64_t> trainc::getSlicedAxes(SliceOpInterface selection) {
  if (int64_t axis = selection.getSlicedAxis(); axis >= 0)
    return {axis};
  SmallVector<int64_t> axes;
  if (!getCut(selection))
    return axes;
  AxisMap map = cast<AxisMapOpInterface>(*selection).getAxisMap();
  for (auto [axis, loop] : llvm::enumerate(map.results[0]))
    if (map.loops[loop] != LoopKind::Parallel)
      axes.push_back(axis);
  return axes;
}

Value trainc::selectOneAxis(TrainBuilder &tb, SliceOpInterface selection, int64_t axis) {
  const Subrange cut = *getCut(selection);
  return tb.sliceAxis(selection->getOperand(0), axis, cut.starts[axis],
                      getDim(selection->getResult(0), axis), cut.steps[axis]);
}

/// What `selection` does along the other axes, on a value that has been selected along `axis`.
Value trainc::selectOtherAxes(TrainBuilder &tb, SliceOpInterface selection, Value value,
                              int64_t axis) {
  // Along `axis` all is taken.
  Subrange cut = *getCut(selection);
  cut.starts[axis] = tb.dimAttr(0);
  cut.steps[axis] = 1;
  return tb.slice(value, cut.starts, getDims(selection->getResult(0)), cut.steps);
}

/// Starts of the outer selection count in steps of the inner one.
Value trainc::joinSelections(TrainBuilder &tb, SliceOpInterface selection) {
  std::optional<Subrange> outer = getCut(selection);
  Operation *def = outer ? selection->getOperand(0).getDefiningOp() : nullptr;
  std::optional<Subrange> inner = getCut(def);
  if (!inner)
    return {};
  for (size_t axis = 0; axis < inner->steps.size(); ++axis) {
    inner->starts[axis] =
        inner->starts[axis] + outer->starts[axis] * tb.dimAttr(inner->steps[axis]);
    inner->steps[axis] *= outer->steps[axis];
  }
  return tb.slice(def->getOperand(0), inner->starts, getDims(selection->getResult(0)),
                  inner->steps);
}
