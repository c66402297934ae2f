// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sliding windows and their transpose: each is the other's gradient, and both are index arithmetic.

#include "dialects/Train/Diagnostics/Notes.h"
#include "dialects/Train/TrainBuilder.h"

using namespace mlir;
using namespace trainc::train;

/// `windows` has the positions o along the axis, `whole` the o * stride + k * dilation.
template <typename Op> static LogicalResult verifySliding(Op op, Value whole, Value windows) {
  SmallVector<DimAttr> from = getDims(op.getOperand()), to = getDims(op.getResult());
  int64_t axis = op.getAxis(), tapAxis = op.getTaps(), rank = from.size();
  if (axis < 0 || axis >= rank || tapAxis < 0 || tapAxis >= rank || axis == tapAxis)
    return attachNotes(op.emitOpError("expected two axes below the rank ")
                           << rank << ", got " << axis << " and " << tapAxis,
                       {{"the operand", op.getOperand()}});
  if (op.getStride() < 1 || op.getDilation() < 1)
    return op.emitOpError("expected a stride and a dilation of at least 1");
  if (to.size() != from.size())
    return attachNotes(op.emitOpError("expected a result of rank ")
                           << rank << ", got " << to.size(),
                       {{"the operand", op.getOperand()}});
  for (int64_t i = 0; i < rank; ++i)
    if (i != axis && from[i] != to[i])
      return attachNotes(op.emitOpError("expected size ") << from[i].str() << " on axis " << i
                                                          << " of the result, got " << to[i].str(),
                         {{"the operand", op.getOperand()}});
  if (getElementType(op.getOperand()) != getElementType(op.getResult()))
    return attachNotes(op.emitOpError("expected the result to have the operand's element type"),
                       {{"the operand", op.getOperand()}});
  auto length = getDim(whole, axis).getConstant(), count = getDim(windows, axis).getConstant();
  auto taps = from[tapAxis].getConstant();
  if (!length || !count || !taps || *count == 0 || *taps == 0)
    return success();
  int64_t last = (*count - 1) * op.getStride() + (*taps - 1) * op.getDilation();
  if (last >= *length)
    return attachNotes(op.emitOpError("reaches position ")
                           << last << " of an axis of size " << *length,
                       {{"the operand", op.getOperand()}});
  return success();
}

/// The coordinate of the taps enters the values.
template <typename Op> static AxisMap slidingAxisMap(Op op) {
  AxisMap map;
  SmallVector<int> axes;
  int64_t axis = op.getAxis();
  for (int64_t i = 0; i < getRank(op.getResult()); ++i) {
    map.loops.push_back(i == axis                    ? LoopKind::Opaque
                        : i == int64_t(op.getTaps()) ? LoopKind::Positional
                                                     : LoopKind::Parallel);
    axes.push_back(i);
  }
  map.operands = {axes};
  map.results = {axes};
  return map;
}

//===----------------------------------------------------------------------===//
// window
//===----------------------------------------------------------------------===//

LogicalResult WindowOp::verify() { return verifySliding(*this, getOperand(), getResult()); }
AxisMap WindowOp::getAxisMap() { return slidingAxisMap(*this); }

Value WindowOp::buildElement(ElementBuilder &eb, unsigned, ArrayRef<ElementIndex> index) {
  int64_t axis = getAxis(), stride = getStride(), dilation = getDilation();
  SmallVector<ElementIndex> source(index);
  auto times = [&](const ElementIndex &i, int64_t factor) {
    return factor == 1 ? i : eb.mul(i, factor);
  };
  source[axis] = eb.add(times(index[axis], stride), times(index[getTaps()], dilation));
  return eb.element(getOperation()->getOpOperand(0), source);
}

std::optional<StridedLayout> WindowOp::getStridedView(const StridedLayout &operand) {
  StridedLayout layout = operand;
  int64_t axis = getAxis();
  auto times = [&](int64_t factor) {
    return operand.strides[axis] * DimAttr::constant(getContext(), factor);
  };
  layout.strides[axis] = times(getStride());
  layout.strides[getTaps()] = operand.strides[getTaps()] + times(getDilation());
  return layout;
}

void WindowOp::buildVJP(TrainBuilder &tb, ArrayRef<Value> cotangents, ArrayRef<bool>,
                        MutableArrayRef<Value> gradients) {
  gradients[0] = SpreadOp::create(tb.b(), tb.loc(), getOperand().getType(), cotangents[0],
                                  getAxis(), getTaps(), getStride(), getDilation());
}

/// Calls `fn` with the positions of corresponding elements in the whole (of this shape) and in the
/// windows; fails where a window reaches outside.
static LogicalResult forEachTap(ArrayRef<int64_t> whole, ArrayRef<int64_t> windows, int64_t axis,
                                int64_t taps, int64_t stride, int64_t dilation,
                                llvm::function_ref<void(int64_t, int64_t)> fn) {
  SmallVector<int64_t> index(windows.size(), 0);
  int64_t count = 1;
  for (int64_t size : windows)
    count *= size;
  for (int64_t position = 0; position < count; ++position) {
    int64_t rest = position;
    for (int64_t i = int64_t(windows.size()) - 1; i >= 0; --i) {
      index[i] = rest % windows[i];
      rest /= windows[i];
    }
    int64_t from = 0;
    for (int64_t i = 0; i < int64_t(whole.size()); ++i) {
      int64_t at = i == axis ? index[axis] * stride + index[taps] * dilation : index[i];
      if (at >= whole[i])
        return failure();
      from = from * whole[i] + at;
    }
    fn(from, position);
  }
  return success();
}

LogicalResult WindowOp::evaluate(ArrayRef<HostTensor> operands, const SymbolValues &,
                                 MutableArrayRef<HostTensor> results) {
  return forEachTap(
      operands[0].shape, results[0].shape, getAxis(), getTaps(), getStride(), getDilation(),
      [&](int64_t whole, int64_t window) { results[0].data[window] = operands[0].data[whole]; });
}

//===----------------------------------------------------------------------===//
// spread
//===----------------------------------------------------------------------===//

LogicalResult SpreadOp::verify() { return verifySliding(*this, getResult(), getOperand()); }
AxisMap SpreadOp::getAxisMap() { return slidingAxisMap(*this); }

Value SpreadOp::buildElement(ElementBuilder &eb, unsigned, ArrayRef<ElementIndex> index) {
  int64_t axis = getAxis(), stride = getStride(), dilation = getDilation();
  OpBuilder &b = eb.builder();
  Location loc = eb.loc();
  OpOperand &operand = getOperation()->getOpOperand(0);
  DimAttr count = getDim(operand.get(), axis);
  ElementIndex limit = count.getConstant() ? eb.constant(*count.getConstant()) : eb.dimIndex(count);
  const ElementIndex &tap = index[getTaps()];
  ElementIndex position = eb.sub(index[axis], dilation == 1 ? tap : eb.mul(tap, dilation));
  auto both = [&](Value x, Value y) -> Value {
    if (x.getType() != y.getType()) {
      x = isa<VectorType>(x.getType()) ? x : eb.splatValue(x);
      y = isa<VectorType>(y.getType()) ? y : eb.splatValue(y);
    }
    return arith::AndIOp::create(b, loc, x, y);
  };
  Value inside = eb.lessThan(eb.constant(-1), position);
  SmallVector<ElementIndex> source(index);
  source[axis] = position;
  if (stride != 1) {
    // Only every stride-th position comes from a window: where the quotient times the stride is not
    // less. Both stay one number for all lanes where the position is.
    source[axis] = eb.div(position, stride);
    ElementIndex product = eb.mul(source[axis], stride);
    inside = both(inside, eb.lessThan(position, eb.add(product, eb.constant(1))));
  }
  inside = both(inside, eb.lessThan(source[axis], limit));
  Type element = getElementTypeOrSelf(getResult().getType());
  return eb.elementIf(operand, source, inside, eb.splat(b.getZeroAttr(element)));
}

void SpreadOp::buildVJP(TrainBuilder &tb, ArrayRef<Value> cotangents, ArrayRef<bool>,
                        MutableArrayRef<Value> gradients) {
  gradients[0] = WindowOp::create(tb.b(), tb.loc(), getOperand().getType(), cotangents[0],
                                  getAxis(), getTaps(), getStride(), getDilation());
}

LogicalResult SpreadOp::evaluate(ArrayRef<HostTensor> operands, const SymbolValues &,
                                 MutableArrayRef<HostTensor> results) {
  return forEachTap(
      results[0].shape, operands[0].shape, getAxis(), getTaps(), getStride(), getDilation(),
      [&](int64_t whole, int64_t window) { results[0].data[whole] = operands[0].data[window]; });
}
