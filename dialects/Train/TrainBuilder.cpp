// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Building train ops with inferred types.

#include "dialects/Train/TrainBuilder.h"

using namespace mlir;

namespace trainc::train {

/// A fold may be wrong where operands do not fit, before a verifier sees the op.
[[maybe_unused]] static constexpr const char *kAlike = "operands are of one type: broadcast them";

Value TrainBuilder::neg(Value x) { return NegOp::create(builder, location, x.getType(), x); }
Value TrainBuilder::abs(Value x) { return AbsOp::create(builder, location, x.getType(), x); }
Value TrainBuilder::sign(Value x) { return SignOp::create(builder, location, x.getType(), x); }
Value TrainBuilder::exp(Value x) { return ExpOp::create(builder, location, x.getType(), x); }
Value TrainBuilder::log(Value x) { return LogOp::create(builder, location, x.getType(), x); }
Value TrainBuilder::sqrt(Value x) { return SqrtOp::create(builder, location, x.getType(), x); }
Value TrainBuilder::rsqrt(Value x) { return RsqrtOp::create(builder, location, x.getType(), x); }
Value TrainBuilder::reciprocal(Value x) {
  return ReciprocalOp::create(builder, location, x.getType(), x);
}
Value TrainBuilder::tanh(Value x) { return TanhOp::create(builder, location, x.getType(), x); }
Value TrainBuilder::erf(Value x) { return ErfOp::create(builder, location, x.getType(), x); }
Value TrainBuilder::sigmoid(Value x) {
  return SigmoidOp::create(builder, location, x.getType(), x);
}
Value TrainBuilder::relu(Value x) { return ReluOp::create(builder, location, x.getType(), x); }
Value TrainBuilder::floor(Value x) { return FloorOp::create(builder, location, x.getType(), x); }
Value TrainBuilder::sin(Value x) { return SinOp::create(builder, location, x.getType(), x); }
Value TrainBuilder::cos(Value x) { return CosOp::create(builder, location, x.getType(), x); }
Value TrainBuilder::sub(Value x, Value y) {
  assert(x.getType() == y.getType() && kAlike);
  return builder.createOrFold<SubOp>(location, x.getType(), x, y);
}
Value TrainBuilder::mul(Value x, Value y) {
  assert(x.getType() == y.getType() && kAlike);
  return builder.createOrFold<MulOp>(location, x.getType(), x, y);
}
Value TrainBuilder::div(Value x, Value y) {
  assert(x.getType() == y.getType() && kAlike);
  return builder.createOrFold<DivOp>(location, x.getType(), x, y);
}
Value TrainBuilder::max(Value x, Value y) {
  assert(x.getType() == y.getType() && kAlike);
  return builder.createOrFold<MaxOp>(location, x.getType(), x, y);
}
Value TrainBuilder::min(Value x, Value y) {
  assert(x.getType() == y.getType() && kAlike);
  return builder.createOrFold<MinOp>(location, x.getType(), x, y);
}
Value TrainBuilder::pow(Value x, Value y) {
  assert(x.getType() == y.getType() && kAlike);
  return builder.createOrFold<PowOp>(location, x.getType(), x, y);
}
Value TrainBuilder::add(Value x, Value y) {
  if (!x || !y)
    return x ? x : y;
  assert(x.getType() == y.getType() && kAlike);
  return builder.createOrFold<AddOp>(location, x.getType(), x, y);
}
Value TrainBuilder::geluGrad(Value x, bool tanhForm) {
  return GeluGradOp::create(builder, location, x.getType(), x, tanhForm);
}
Value TrainBuilder::isNan(Value x) {
  return IsNanOp::create(builder, location, withElementType(x.getType(), builder.getI1Type()), x);
}
Value TrainBuilder::isInf(Value x) {
  return IsInfOp::create(builder, location, withElementType(x.getType(), builder.getI1Type()), x);
}
Value TrainBuilder::logicalNot(Value x) { return NotOp::create(builder, location, x.getType(), x); }
Value TrainBuilder::logicalAnd(Value x, Value y) {
  return AndOp::create(builder, location, x.getType(), x, y);
}
Value TrainBuilder::logicalOr(Value x, Value y) {
  return OrOp::create(builder, location, x.getType(), x, y);
}
Value TrainBuilder::compare(StringRef predicate, Value x, Value y) {
  std::optional<ComparePredicate> kind = symbolizeComparePredicate(predicate);
  assert(kind && "not a comparison");
  assert(x.getType() == y.getType() && kAlike);
  return CompareOp::create(builder, location, withElementType(x.getType(), builder.getI1Type()),
                           *kind, x, y);
}
Value TrainBuilder::select(Value condition, Value x, Value y) {
  assert(x.getType() == y.getType() && getDims(condition) == getDims(x) && kAlike);
  return SelectOp::create(builder, location, x.getType(), condition, x, y);
}
Value TrainBuilder::cast(Value x, Type type) {
  Type element = getElementTypeOrSelf(type);
  if (getElementType(x) == element)
    return x;
  return builder.createOrFold<CastOp>(location, withElementType(x.getType(), element), x);
}
Value TrainBuilder::cumsum(Value x, int64_t axis, bool exclusive, bool reverse) {
  return CumsumOp::create(builder, location, x.getType(), x, axis, exclusive, reverse);
}
Value TrainBuilder::detach(Value x) { return DetachOp::create(builder, location, x.getType(), x); }
Value TrainBuilder::dropout(Value x, Value key, FloatAttr ratio) {
  return DropoutOp::create(builder, location, x.getType(), x, key, ValueRange(), ratio,
                           builder.getDenseI64ArrayAttr({}));
}
Value TrainBuilder::bitcast(Value x, Type elementType) {
  return BitcastOp::create(builder, location, withElementType(x.getType(), elementType), x);
}
Value TrainBuilder::rngKey(Value seed, Value step, Value microBatch, Value rank, uint64_t node) {
  return RngKeyOp::create(builder, location, seed.getType(), seed, step, microBatch, rank,
                          builder.getI64IntegerAttr(int64_t(node)));
}
Value TrainBuilder::randomBits(Value key, ArrayRef<DimAttr> dims) {
  return RandomBitsOp::create(builder, location, getTensorType(dims, builder.getI32Type()), key);
}

/// The nearest integer of 64 bits.
static int64_t toInteger(double value) {
  if (value >= 0x1p63)
    return INT64_MAX;
  return value > -0x1p63 ? int64_t(value) : INT64_MIN;
}

Value TrainBuilder::full(ArrayRef<DimAttr> dims, Type elementType, double value) {
  TypedAttr attr;
  if (isa<FloatType>(elementType))
    attr = builder.getFloatAttr(elementType, value);
  else if (elementType.isInteger(1))
    attr = builder.getBoolAttr(value != 0);
  else
    attr = builder.getIntegerAttr(elementType, toInteger(value));
  return FullOp::create(builder, location, getTensorType(dims, elementType), attr);
}
Value TrainBuilder::scalarLike(Value x, double value) {
  return full(getDims(x), getElementType(x), value);
}
Value TrainBuilder::zeros(Type tensorType) {
  return full(getDims(tensorType), getElementTypeOrSelf(tensorType), 0);
}
Value TrainBuilder::iota(ArrayRef<DimAttr> dims, Type elementType, int64_t axis) {
  return IotaOp::create(builder, location, getTensorType(dims, elementType), axis);
}
Value TrainBuilder::constant(DenseElementsAttr value) {
  return ConstantOp::create(builder, location, value.getType(), value);
}
Value TrainBuilder::dim(DimAttr dim, Type elementType) {
  if (std::optional<int64_t> value = dim.getConstant())
    return full({}, elementType, double(*value));
  return DimOp::create(builder, location, getTensorType({}, elementType), dim);
}

Value TrainBuilder::broadcast(Value x, ArrayRef<DimAttr> dims, ArrayRef<int64_t> axes) {
  assert(int64_t(axes.size()) == getRank(x) && llvm::is_sorted(axes) && "an axis for each");
  return builder.createOrFold<BroadcastOp>(location, getTensorType(dims, getElementType(x)), x,
                                           axes);
}
Value TrainBuilder::broadcastAlong(Value x, ArrayRef<DimAttr> dims, ArrayRef<int64_t> reducedAxes) {
  SmallVector<int64_t> axes;
  for (int64_t axis = 0; axis < int64_t(dims.size()); ++axis)
    if (!llvm::is_contained(reducedAxes, axis))
      axes.push_back(axis);
  return broadcast(x, dims, axes);
}
Value TrainBuilder::splat(Value scalar, Value like) { return broadcast(scalar, getDims(like), {}); }
Value TrainBuilder::reshape(Value x, ArrayRef<DimAttr> dims) {
  return builder.createOrFold<ReshapeOp>(location, getTensorType(dims, getElementType(x)), x);
}
Value TrainBuilder::barrier(Value x) { return BarrierOp::create(builder, location, x); }
Value TrainBuilder::transpose(Value x, ArrayRef<int64_t> permutation) {
  assert(int64_t(permutation.size()) == getRank(x) && "every axis has its place");
  SmallVector<DimAttr> from = getDims(x), dims;
  for (int64_t axis : permutation)
    dims.push_back(from[axis]);
  return builder.createOrFold<TransposeOp>(location, getTensorType(dims, getElementType(x)), x,
                                           permutation);
}
Value TrainBuilder::slice(Value x, ArrayRef<DimAttr> starts, ArrayRef<DimAttr> sizes,
                          ArrayRef<int64_t> steps) {
  assert(int64_t(starts.size()) == getRank(x) && sizes.size() == starts.size() &&
         (steps.empty() || steps.size() == starts.size()) && "a range along every axis");
  SmallVector<int64_t> ones(starts.size(), 1);
  return builder.createOrFold<SliceOp>(location, getTensorType(sizes, getElementType(x)), x,
                                       DimsAttr::get(context(), starts),
                                       steps.empty() ? ArrayRef<int64_t>(ones) : steps);
}
Value TrainBuilder::sliceAxis(Value x, int64_t axis, DimAttr start, DimAttr size, int64_t step) {
  SmallVector<DimAttr> sizes = getDims(x), starts(sizes.size(), dimAttr(0));
  SmallVector<int64_t> steps(sizes.size(), 1);
  starts[axis] = start;
  sizes[axis] = size;
  steps[axis] = step;
  return slice(x, starts, sizes, steps);
}
Value TrainBuilder::pad(Value x, double value, ArrayRef<DimAttr> low, ArrayRef<DimAttr> dims) {
  assert(int64_t(low.size()) == getRank(x) && dims.size() == low.size());
  Type element = getElementType(x);
  TypedAttr attr;
  if (isa<FloatType>(element))
    attr = builder.getFloatAttr(element, value);
  else if (element.isInteger(1))
    attr = builder.getBoolAttr(value != 0);
  else
    attr = builder.getIntegerAttr(element, toInteger(value));
  return PadOp::create(builder, location, getTensorType(dims, element), x, attr,
                       DimsAttr::get(context(), low));
}
Value TrainBuilder::concat(ValueRange operands, int64_t axis) {
  if (operands.size() == 1)
    return operands[0];
  SmallVector<DimAttr> dims = getDims(operands[0]);
  for (Value operand : operands.drop_front()) {
    assert(getRank(operand) == int64_t(dims.size()) &&
           getElementType(operand) == getElementType(operands[0]) && kAlike);
    dims[axis] = dims[axis] + getDim(operand, axis);
  }
  return ConcatOp::create(builder, location, getTensorType(dims, getElementType(operands[0])),
                          operands, axis);
}
ResultRange TrainBuilder::split(Value x, int64_t axis, ArrayRef<DimAttr> sizes) {
  SmallVector<Type> types;
  SmallVector<DimAttr> dims = getDims(x);
  for (DimAttr size : sizes) {
    dims[axis] = size;
    types.push_back(getTensorType(dims, getElementType(x)));
  }
  return SplitOp::create(builder, location, types, x, axis).getResults();
}
Value TrainBuilder::gather(Value data, Value indices, int64_t axis) {
  SmallVector<DimAttr> from = getDims(data), dims(from.begin(), from.begin() + axis);
  llvm::append_range(dims, getDims(indices));
  dims.append(from.begin() + axis + 1, from.end());
  return GatherOp::create(builder, location, getTensorType(dims, getElementType(data)), data,
                          indices, axis);
}
Value TrainBuilder::selectRows(Value data, Value index, Value inverse, int64_t axis) {
  SmallVector<DimAttr> dims = getDims(data);
  dims[axis] = getDim(index, 0);
  return SelectRowsOp::create(builder, location, getTensorType(dims, getElementType(data)), data,
                              index, inverse, axis);
}
Value TrainBuilder::dequantize(Value codes, Value table, Value scales, int64_t block, Type result) {
  return DequantizeOp::create(builder, location, result, codes, table, scales, block);
}
Value TrainBuilder::withGradient(Value value, ValueRange of, ValueRange gradients) {
  assert(of.size() == gradients.size() && "a gradient for each");
  return WithGradientOp::create(builder, location, value.getType(), value, of, gradients);
}
Value TrainBuilder::gatherElements(Value data, Value indices, int64_t axis) {
  return GatherElementsOp::create(builder, location,
                                  getTensorType(getDims(indices), getElementType(data)), data,
                                  indices, axis);
}
Value TrainBuilder::scatterAdd(Value indices, Value updates, int64_t axis, Type resultType,
                               bool unique) {
  return ScatterAddOp::create(builder, location, resultType, indices, updates, axis, unique);
}

Value TrainBuilder::reduce(ReduceKind kind, Value x, ArrayRef<int64_t> axes) {
  SmallVector<DimAttr> from = getDims(x), dims;
  for (auto [axis, dim] : llvm::enumerate(from))
    if (!llvm::is_contained(axes, int64_t(axis)))
      dims.push_back(dim);
  return builder.createOrFold<ReduceOp>(location, getTensorType(dims, getElementType(x)), kind, x,
                                        axes);
}
Value TrainBuilder::mean(Value x, ArrayRef<int64_t> axes) {
  SmallVector<DimAttr> dims = getDims(x), reduced;
  for (int64_t axis : axes)
    reduced.push_back(dims[axis]);
  Value total = sum(x, axes);
  DimAttr count = product(context(), reduced);
  if (std::optional<int64_t> constant = count.getConstant())
    return div(total, scalarLike(total, double(*constant)));
  return div(total, splat(dim(count, getElementType(x)), total));
}
Value TrainBuilder::sumAll(Value x) {
  SmallVector<int64_t> axes;
  for (int64_t axis = 0; axis < getRank(x); ++axis)
    axes.push_back(axis);
  return axes.empty() ? x : sum(x, axes);
}
Value TrainBuilder::matmul(Value lhs, Value rhs, bool transposeLhs, bool transposeRhs) {
  SmallVector<DimAttr> dims = getDims(lhs), right = getDims(rhs);
  size_t rank = dims.size();
  assert(rank >= 2 && right.size() == rank && "matrices, behind the same axes of a batch");
  dims[rank - 2] = transposeLhs ? dims[rank - 1] : dims[rank - 2];
  dims[rank - 1] = transposeRhs ? right[rank - 2] : right[rank - 1];
  return MatmulOp::create(builder, location, getTensorType(dims, getElementType(lhs)), lhs, rhs,
                          transposeLhs, transposeRhs)
      .getResult();
}

} // namespace trainc::train
