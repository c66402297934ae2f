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

namespace {
/// Axes of both sides of a reshape with the same elements, as ends of ranges.
struct AxisRun {
  size_t from, to;
};
} // namespace

/// The shortest runs of axes that have the same elements on both sides; fails where there are none
/// but all, or where sizes do not say so.
static std::optional<SmallVector<AxisRun>> alignAxes(ArrayRef<DimAttr> from, ArrayRef<DimAttr> to) {
  SmallVector<AxisRun> runs;
  size_t i = 0, j = 0;
  while (i < from.size()) {
    DimAttr left = from[i++], right = DimAttr::constant(left.getContext(), 1);
    // The side that is known to be smaller goes on.
    while (left != right) {
      if (j < to.size() && divideExactly(left, right) && left != right)
        right = right * to[j++];
      else if (i < from.size() && divideExactly(right, left))
        left = left * from[i++];
      else
        return std::nullopt;
    }
    runs.push_back({i, j});
  }
  while (j < to.size() && to[j].isConstant(1))
    ++j;
  return j == to.size() ? std::optional(runs) : std::nullopt;
}

/// Whether elements of a reshape are had by sums of products of coordinates and by divisions of
/// coordinates of rows: the last axis is not merged, and what is divided by is known.
static bool takesKnownDivisions(ArrayRef<DimAttr> from, ArrayRef<AxisRun> runs) {
  size_t begin = 0;
  for (auto [number, run] : llvm::enumerate(runs)) {
    ArrayRef<DimAttr> inner = from.slice(begin, run.from - begin).drop_front();
    auto isOne = [](DimAttr dim) { return dim.isConstant(1); };
    const bool isLast = number + 1 == runs.size();
    if (!llvm::all_of(inner,
                      [&](DimAttr dim) { return isLast ? isOne(dim) : bool(dim.getConstant()); }))
      return false;
    begin = run.from;
  }
  return true;
}
bool ReshapeOp::hasElements() {
  const SmallVector<DimAttr> from = getDims(getOperand());
  std::optional<SmallVector<AxisRun>> runs = alignAxes(from, getDims(getResult()));
  return runs && takesKnownDivisions(from, *runs);
}
Value ReshapeOp::buildElement(ElementBuilder &eb, unsigned, ArrayRef<ElementIndex> index) {
  const SmallVector<DimAttr> from = getDims(getOperand()), to = getDims(getResult());
  auto runs = alignAxes(from, to);
  assert(runs && "only what has elements is asked for them");
  Index source;
  size_t fromBegin = 0, begin = 0;
  for (auto [fromEnd, end] : *runs) {
    ElementIndex place = eb.linearize(index.slice(begin, end - begin),
                                      ArrayRef<DimAttr>(to).slice(begin, end - begin));
    // From the inside out: the rest of a division is the coordinate, its quotient is divided next.
    SmallVector<ElementIndex> coordinates;
    for (size_t axis = fromEnd - 1; axis > fromBegin; --axis) {
      const int64_t size = *from[axis].getConstant();
      ElementIndex outer = size == 1 ? place : eb.div(place, size);
      coordinates.push_back(size == 1 ? eb.constant(0) : eb.sub(place, eb.mul(outer, size)));
      place = outer;
    }
    coordinates.push_back(place);
    source.append(coordinates.rbegin(), coordinates.rend());
    fromBegin = fromEnd, begin = end;
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
