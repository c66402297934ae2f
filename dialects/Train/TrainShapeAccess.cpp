// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Index arithmetic of the ops that move elements: which operand element a result element is.
// Written against ElementBuilder only, so that the same code serves every loop template and every
// target.

#include "dialects/Train/TrainDialect.h"

using namespace mlir;

namespace trainc::train {

using Index = SmallVector<ElementIndex>;

/// a and b, where either may be a scalar and the other a vector.
static Value conjunction(ElementBuilder &eb, Value a, Value b) {
  if (!a || !b)
    return a ? a : b;
  if (a.getType() != b.getType()) {
    if (!isa<VectorType>(a.getType()))
      a = eb.splatValue(a);
    if (!isa<VectorType>(b.getType()))
      b = eb.splatValue(b);
  }
  return arith::AndIOp::create(eb.builder(), eb.loc(), a, b);
}

static ElementIndex addDim(ElementBuilder &eb, const ElementIndex &index, DimAttr dim) {
  if (dim.isConstant(0))
    return index;
  if (auto value = dim.getConstant())
    return eb.add(index, eb.constant(*value));
  return eb.add(index, eb.dimIndex(dim));
}
static ElementIndex subDim(ElementBuilder &eb, const ElementIndex &index, DimAttr dim) {
  if (dim.isConstant(0))
    return index;
  if (auto value = dim.getConstant())
    return eb.add(index, eb.constant(-*value));
  return eb.sub(index, eb.dimIndex(dim));
}
static ElementIndex dimIndex(ElementBuilder &eb, DimAttr dim) {
  if (auto value = dim.getConstant())
    return eb.constant(*value);
  return eb.dimIndex(dim);
}

/// low <= index, for a bound that is not the constant 0.
static Value atLeast(ElementBuilder &eb, const ElementIndex &index, DimAttr low) {
  return eb.lessThan(addDim(eb, eb.constant(-1), low), index);
}

Value ConstantOp::buildElement(ElementBuilder &eb, unsigned, ArrayRef<ElementIndex>) {
  auto dense = dyn_cast<DenseElementsAttr>(getValue());
  if (!dense || !dense.isSplat())
    return {};
  return eb.splat(cast<TypedAttr>(dense.getSplatValue<Attribute>()));
}

Value DimOp::buildElement(ElementBuilder &eb, unsigned, ArrayRef<ElementIndex>) {
  OpBuilder &b = eb.builder();
  Value value = arith::IndexCastOp::create(b, eb.loc(), b.getI64Type(), eb.dim(getValue()));
  Type type = getElementTypeOrSelf(getResult().getType());
  if (isa<FloatType>(type))
    value = arith::SIToFPOp::create(b, eb.loc(), type, value);
  else if (type.getIntOrFloatBitWidth() < 64)
    value = arith::TruncIOp::create(b, eb.loc(), type, value);
  return eb.splatValue(value);
}

Value BroadcastOp::buildElement(ElementBuilder &eb, unsigned, ArrayRef<ElementIndex> index) {
  Index operandIndex;
  for (int64_t axis : getAxes())
    operandIndex.push_back(index[axis]);
  return eb.element(getOperation()->getOpOperand(0), operandIndex);
}

/// For each axis of `from` the axes of `to` that it is split into, as the end of their range; fails
/// where axes are merged, whose coordinates would take divisions.
static std::optional<SmallVector<size_t>> splitAxes(ArrayRef<DimAttr> from, ArrayRef<DimAttr> to) {
  SmallVector<size_t> ends;
  size_t next = 0;
  for (DimAttr dim : from) {
    DimAttr run = DimAttr::constant(dim.getContext(), 1);
    while (run != dim && next < to.size())
      run = run * to[next++];
    if (run != dim)
      return std::nullopt;
    ends.push_back(next);
  }
  while (next < to.size() && to[next].isConstant(1))
    ++next;
  return next == to.size() ? std::optional(ends) : std::nullopt;
}
bool ReshapeOp::hasElements() {
  return splitAxes(getDims(getOperand()), getDims(getResult())).has_value();
}
Value ReshapeOp::buildElement(ElementBuilder &eb, unsigned, ArrayRef<ElementIndex> index) {
  SmallVector<DimAttr> to = getDims(getResult());
  auto ends = splitAxes(getDims(getOperand()), to);
  Index source;
  size_t begin = 0;
  for (size_t end : *ends) {
    size_t count = end - begin;
    source.push_back(
        eb.linearize(index.slice(begin, count), ArrayRef<DimAttr>(to).slice(begin, count)));
    begin = end;
  }
  return eb.element(getOperandMutable(), source);
}

Value TransposeOp::buildElement(ElementBuilder &eb, unsigned, ArrayRef<ElementIndex> index) {
  Index operandIndex(index.size());
  for (auto [axis, source] : llvm::enumerate(getPermutation()))
    operandIndex[source] = index[axis];
  return eb.element(getOperation()->getOpOperand(0), operandIndex);
}

Value SliceOp::buildElement(ElementBuilder &eb, unsigned, ArrayRef<ElementIndex> index) {
  Index operandIndex;
  for (auto [i, start, step] : llvm::zip_equal(index, getStarts().getDims(), getSteps()))
    operandIndex.push_back(addDim(eb, step == 1 ? i : eb.mul(i, step), start));
  return eb.element(getOperation()->getOpOperand(0), operandIndex);
}

Value PadOp::buildElement(ElementBuilder &eb, unsigned, ArrayRef<ElementIndex> index) {
  SmallVector<DimAttr> operandDims = getDims(getOperand()), resultDims = getDims(getResult());
  Index operandIndex;
  Value inside;
  for (auto [axis, low] : llvm::enumerate(getLow().getDims())) {
    DimAttr size = operandDims[axis];
    operandIndex.push_back(subDim(eb, index[axis], low));
    if (!low.isConstant(0))
      inside = conjunction(eb, inside, atLeast(eb, index[axis], low));
    if (low + size != resultDims[axis])
      inside = conjunction(eb, inside, eb.lessThan(operandIndex.back(), dimIndex(eb, size)));
  }
  OpOperand &operand = getOperation()->getOpOperand(0);
  if (!inside)
    return eb.element(operand, operandIndex);
  return eb.elementIf(operand, operandIndex, inside, eb.splat(cast<TypedAttr>(getValue())));
}

Value ConcatOp::buildElement(ElementBuilder &eb, unsigned, ArrayRef<ElementIndex> index) {
  int64_t axis = getAxis();
  Type type = getElementTypeOrSelf(getResult().getType());
  Value value = eb.splat(eb.builder().getZeroAttr(type));
  unsigned count = getOperation()->getNumOperands();
  ElementIndex offset = index[axis];
  for (OpOperand &operand : getOperation()->getOpOperands()) {
    DimAttr size = getDim(operand.get(), axis);
    // Each test is made in the operand's own coordinate: no size but the operands' is needed.
    Value inside;
    if (operand.getOperandNumber() != 0)
      inside = eb.lessThan(eb.constant(-1), offset);
    if (operand.getOperandNumber() + 1 != count)
      inside = conjunction(eb, inside, eb.lessThan(offset, dimIndex(eb, size)));
    Index operandIndex(index);
    operandIndex[axis] = offset;
    value = inside ? eb.elementIf(operand, operandIndex, inside, value)
                   : eb.element(operand, operandIndex);
    offset = subDim(eb, offset, size);
  }
  return value;
}

Value SplitOp::buildElement(ElementBuilder &eb, unsigned result, ArrayRef<ElementIndex> index) {
  int64_t axis = getAxis();
  Index operandIndex(index);
  for (unsigned i = 0; i < result; ++i)
    operandIndex[axis] = addDim(eb, operandIndex[axis], getDim(getResults()[i], axis));
  return eb.element(getOperation()->getOpOperand(0), operandIndex);
}

Value GatherOp::buildElement(ElementBuilder &eb, unsigned, ArrayRef<ElementIndex> index) {
  int64_t axis = getAxis(), indexRank = getRank(getIndices());
  OpOperand &data = getOperation()->getOpOperand(0), &indices = getOperation()->getOpOperand(1);
  Value chosen = eb.element(indices, index.slice(axis, indexRank));
  Index dataIndex(index.take_front(axis));
  dataIndex.push_back(eb.checkedIndex(getOperation(), chosen, getDim(data.get(), axis)));
  dataIndex.append(index.begin() + axis + indexRank, index.end());
  return eb.element(data, dataIndex);
}

Value SelectRowsOp::buildElement(ElementBuilder &eb, unsigned, ArrayRef<ElementIndex> index) {
  int64_t axis = getAxis();
  OpBuilder &b = eb.builder();
  Value chosen = eb.element(getIndexMutable(), index.slice(axis, 1));
  Value zero = eb.splat(b.getI32IntegerAttr(0));
  Value wanted = arith::CmpIOp::create(b, eb.loc(), arith::CmpIPredicate::sge, chosen, zero);
  chosen = arith::MaxSIOp::create(b, eb.loc(), chosen, zero);
  Index dataIndex(index);
  dataIndex[axis] = eb.checkedIndex(getOperation(), chosen, getDim(getData(), axis));
  Type type = getElementTypeOrSelf(getResult().getType());
  return eb.elementIf(getDataMutable(), dataIndex, wanted, eb.splat(b.getZeroAttr(type)));
}

Value GatherElementsOp::buildElement(ElementBuilder &eb, unsigned, ArrayRef<ElementIndex> index) {
  int64_t axis = getAxis();
  OpOperand &data = getOperation()->getOpOperand(0), &indices = getOperation()->getOpOperand(1);
  Index dataIndex(index);
  dataIndex[axis] =
      eb.checkedIndex(getOperation(), eb.element(indices, index), getDim(data.get(), axis));
  return eb.element(data, dataIndex);
}

Value GatherNdOp::buildElement(ElementBuilder &eb, unsigned, ArrayRef<ElementIndex> index) {
  int64_t batch = getBatchDims(), indexRank = getRank(getIndices());
  OpOperand &data = getOperation()->getOpOperand(0), &indices = getOperation()->getOpOperand(1);
  int64_t tuple = *getDim(indices.get(), indexRank - 1).getConstant();
  Index dataIndex(index.take_front(batch));
  Index position(index.take_front(indexRank - 1));
  position.push_back({});
  for (int64_t i = 0; i < tuple; ++i) {
    position.back() = eb.constant(i);
    Value chosen = eb.element(indices, position);
    dataIndex.push_back(eb.checkedIndex(getOperation(), chosen, getDim(data.get(), batch + i)));
  }
  dataIndex.append(index.begin() + (indexRank - 1), index.end());
  return eb.element(data, dataIndex);
}

} // namespace trainc::train
