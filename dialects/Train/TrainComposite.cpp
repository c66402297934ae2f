// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Softmax, layer normalisation, cross entropy and in_training: what passes see as one thing.
// `decompose` and the gradients are written in primitive ops, so that they fuse. Half-precision
// operands are computed in f32.

#include "dialects/Train/Diagnostics/Notes.h"
#include "dialects/Train/TrainBuilder.h"
#include <limits>

using namespace mlir;
using namespace trainc::train;

/// f32 for the 16-bit types, the type itself for f32 and f64.
static Type computeType(Value value) {
  Type element = getElementType(value);
  return element.getIntOrFloatBitWidth() < 32 ? Type(Float32Type::get(value.getContext()))
                                              : element;
}
static Value inComputeType(TrainBuilder &tb, Value value) {
  return tb.cast(value, computeType(value));
}

/// One loop an axis, `opaque` from `first` up to `end`, parallel elsewhere; every value of the rank
/// has them all.
static AxisMap rowMap(int64_t rank, int64_t first, int64_t end) {
  AxisMap map;
  map.loops.assign(rank, LoopKind::Parallel);
  std::fill(map.loops.begin() + first, map.loops.begin() + end, LoopKind::Opaque);
  return map;
}
static SmallVector<int> loopRange(int64_t first, int64_t end) {
  SmallVector<int> loops;
  llvm::append_range(loops, llvm::seq<int>(first, end));
  return loops;
}
/// Of an op that computes the rows of an axis, from an operand to a result of its shape.
static AxisMap axisMapAlong(Value operand, int64_t axis) {
  int64_t rank = getRank(operand);
  AxisMap map = rowMap(rank, axis, axis + 1);
  map.operands.push_back(loopRange(0, rank));
  map.results.push_back(loopRange(0, rank));
  return map;
}

static LogicalResult verifyAxis(Operation *op, int64_t axis, int64_t rank) {
  if (axis < 0 || axis >= rank)
    return op->emitOpError("expected an axis below the rank ") << rank << ", got " << axis;
  return success();
}

/// Type of a statistic: `dims`, in the element type of `of` or in the one it is computed in.
static LogicalResult verifyStatistic(Operation *op, StringRef name, Value statistic,
                                     ArrayRef<DimAttr> dims, Value of) {
  Type element = getElementType(statistic);
  if (element != getElementType(of) && element != computeType(of))
    return op->emitOpError("expected ")
           << name << " of element type " << computeType(of) << ", got " << element;
  Type expected = getTensorType(dims, element);
  if (statistic.getType() != expected)
    return op->emitOpError("expected ")
           << name << " of type " << expected << ", got " << statistic.getType();
  return success();
}

//===----------------------------------------------------------------------===//
// softmax
//===----------------------------------------------------------------------===//

LogicalResult SoftmaxOp::verify() { return verifyAxis(*this, getAxis(), getRank(getOperand())); }

AxisMap SoftmaxOp::getAxisMap() { return axisMapAlong(getOperand(), getAxis()); }

void SoftmaxOp::decompose(TrainBuilder &tb, SmallVectorImpl<Value> &results) {
  int64_t axis = getAxis();
  Value x = inComputeType(tb, getOperand());
  SmallVector<DimAttr> dims = getDims(x);
  Value shift = tb.reduce(ReduceKind::max, x, axis), dead;
  if (getGuarded()) {
    // A row of -inf is shifted by 0: all its exponentials are 0, and it is divided by 1.
    dead = tb.compare("eq", shift, tb.scalarLike(shift, -std::numeric_limits<double>::infinity()));
    shift = tb.select(dead, tb.scalarLike(shift, 0), shift);
  }
  Value e = tb.exp(tb.sub(x, tb.broadcastAlong(shift, dims, axis)));
  Value total = tb.sum(e, axis);
  if (dead)
    total = tb.select(dead, tb.scalarLike(total, 1), total);
  Value y = tb.div(e, tb.broadcastAlong(total, dims, axis));
  results.push_back(tb.cast(y, getResult().getType()));
}

void SoftmaxOp::buildVJP(TrainBuilder &tb, ArrayRef<Value> cotangents, ArrayRef<bool> needed,
                         MutableArrayRef<Value> gradients) {
  if (!needed[0] || !cotangents[0])
    return;
  int64_t axis = getAxis();
  Value y = inComputeType(tb, getResult()), g = inComputeType(tb, cotangents[0]);
  // Where y is 0 the gradient is 0, whatever comes from behind: a dead row must not make a NaN of
  // an infinite cotangent.
  if (getGuarded())
    g = tb.select(tb.compare("ne", y, tb.scalarLike(y, 0)), g, tb.scalarLike(g, 0));
  Value dot = tb.sum(tb.mul(g, y), axis);
  Value dx = tb.mul(y, tb.sub(g, tb.broadcastAlong(dot, getDims(y), axis)));
  gradients[0] = tb.cast(dx, getOperand().getType());
}

//===----------------------------------------------------------------------===//
// log_softmax
//===----------------------------------------------------------------------===//

LogicalResult LogSoftmaxOp::verify() { return verifyAxis(*this, getAxis(), getRank(getOperand())); }

AxisMap LogSoftmaxOp::getAxisMap() { return axisMapAlong(getOperand(), getAxis()); }

void LogSoftmaxOp::decompose(TrainBuilder &tb, SmallVectorImpl<Value> &results) {
  int64_t axis = getAxis();
  Value x = inComputeType(tb, getOperand());
  SmallVector<DimAttr> dims = getDims(x);
  Value shifted = tb.sub(x, tb.broadcastAlong(tb.reduce(ReduceKind::max, x, axis), dims, axis));
  Value logTotal = tb.log(tb.sum(tb.exp(shifted), axis));
  Value y = tb.sub(shifted, tb.broadcastAlong(logTotal, dims, axis));
  results.push_back(tb.cast(y, getResult().getType()));
}

void LogSoftmaxOp::buildVJP(TrainBuilder &tb, ArrayRef<Value> cotangents, ArrayRef<bool> needed,
                            MutableArrayRef<Value> gradients) {
  if (!needed[0] || !cotangents[0])
    return;
  int64_t axis = getAxis();
  Value y = inComputeType(tb, getResult()), g = inComputeType(tb, cotangents[0]);
  Value total = tb.broadcastAlong(tb.sum(g, axis), getDims(y), axis);
  Value dx = tb.sub(g, tb.mul(tb.exp(y), total));
  gradients[0] = tb.cast(dx, getOperand().getType());
}

//===----------------------------------------------------------------------===//
// layer_norm
//===----------------------------------------------------------------------===//

LogicalResult LayerNormOp::verify() {
  SmallVector<DimAttr> dims = getDims(getOperand());
  int64_t axis = getAxis();
  if (failed(verifyAxis(*this, axis, dims.size())))
    return failure();
  ArrayRef<DimAttr> rows = ArrayRef(dims).take_front(axis),
                    normalised = ArrayRef(dims).drop_front(axis);
  if (getResult().getType() != getOperand().getType())
    return emitOpError("expected a result of the operand's type ")
           << getOperand().getType() << ", got " << getResult().getType();
  for (Value value : {getScale(), getBias()})
    if (value && getDims(value) != normalised)
      return attachNotes(
          emitOpError("expected scale and bias of shape ")
              << dimsToString(normalised) << ", got " << dimsToString(getDims(value)),
          {{value == getScale() ? "scale" : "bias", value}, {"the operand", getOperand()}});
  if (failed(verifyStatistic(*this, "mean", getMean(), rows, getOperand())))
    return failure();
  return verifyStatistic(*this, "rstd", getRstd(), rows, getOperand());
}

AxisMap LayerNormOp::getAxisMap() {
  int64_t rank = getRank(getOperand()), axis = getAxis();
  AxisMap map = rowMap(rank, axis, rank);
  map.operands.push_back(loopRange(0, rank));
  map.operands.push_back(loopRange(axis, rank));
  if (getBias())
    map.operands.push_back(loopRange(axis, rank));
  map.results.push_back(loopRange(0, rank));
  map.results.push_back(loopRange(0, axis));
  map.results.push_back(loopRange(0, axis));
  return map;
}

namespace {
/// Axes of a layer normalisation and the broadcasts over them.
struct LayerNormAxes {
  LayerNormAxes(TrainBuilder &tb, LayerNormOp op) : tb(tb), dims(getDims(op.getOperand())) {
    for (int64_t axis = 0; axis < int64_t(dims.size()); ++axis)
      (axis < int64_t(op.getAxis()) ? rows : normalised).push_back(axis);
  }
  /// A statistic of the rows, in the type that is computed in, at every element.
  Value ofRows(Value statistic, Type type) {
    return tb.broadcastAlong(tb.cast(statistic, type), dims, normalised);
  }
  /// Scale or bias at every element.
  Value ofColumns(Value value, Type type) {
    return tb.broadcastAlong(tb.cast(value, type), dims, rows);
  }
  /// Mean over the normalised axes, at every element.
  Value mean(Value value) {
    return tb.broadcastAlong(tb.mean(value, normalised), dims, normalised);
  }

  TrainBuilder &tb;
  SmallVector<DimAttr> dims;
  SmallVector<int64_t> rows, normalised;
};
} // namespace

void LayerNormOp::decompose(TrainBuilder &tb, SmallVectorImpl<Value> &results) {
  LayerNormAxes axes(tb, *this);
  Value x = inComputeType(tb, getOperand());
  Type type = x.getType();
  // Two passes: the variance of centred values loses nothing to cancellation.
  Value mean = tb.mean(x, axes.normalised);
  Value centred = tb.sub(x, axes.ofRows(mean, type));
  Value variance = tb.mean(tb.mul(centred, centred), axes.normalised);
  Value rstd = tb.rsqrt(tb.add(variance, tb.scalarLike(variance, getEpsilon().convertToDouble())));
  Value y = tb.mul(tb.mul(centred, axes.ofRows(rstd, type)), axes.ofColumns(getScale(), type));
  if (getBias())
    y = tb.add(y, axes.ofColumns(getBias(), type));
  results.push_back(tb.cast(y, getResult().getType()));
  results.push_back(tb.cast(mean, getMean().getType()));
  results.push_back(tb.cast(rstd, getRstd().getType()));
}

void LayerNormOp::buildVJP(TrainBuilder &tb, ArrayRef<Value> cotangents, ArrayRef<bool> needed,
                           MutableArrayRef<Value> gradients) {
  LayerNormAxes axes(tb, *this);
  Value x = inComputeType(tb, getOperand());
  Type type = x.getType();
  Value g = cotangents[0] ? tb.cast(cotangents[0], type) : Value();
  Value rstd = axes.ofRows(getRstd(), type);
  Value normal = tb.mul(tb.sub(x, axes.ofRows(getMean(), type)), rstd);
  if (needed[0]) {
    Value dx;
    if (g) {
      Value scaled = tb.mul(g, axes.ofColumns(getScale(), type));
      Value inner = tb.sub(tb.sub(scaled, axes.mean(scaled)),
                           tb.mul(normal, axes.mean(tb.mul(scaled, normal))));
      dx = tb.mul(inner, rstd);
    }
    if (cotangents[1] || cotangents[2]) {
      SmallVector<DimAttr> normalised;
      for (int64_t axis : axes.normalised)
        normalised.push_back(axes.dims[axis]);
      DimAttr count = product(tb.context(), normalised);
      Value n = tb.splat(tb.dim(count, getElementTypeOrSelf(type)), x);
      if (cotangents[1])
        dx = tb.add(dx, tb.div(axes.ofRows(cotangents[1], type), n));
      // d rstd / dx = -rstd^2 * normal / n
      if (cotangents[2])
        dx = tb.sub(dx ? dx : tb.zeros(type), tb.div(tb.mul(axes.ofRows(cotangents[2], type),
                                                            tb.mul(tb.mul(rstd, rstd), normal)),
                                                     n));
    }
    if (dx)
      gradients[0] = tb.cast(dx, getOperand().getType());
  }
  if (!g)
    return;
  if (needed[1])
    gradients[1] = tb.cast(tb.sum(tb.mul(g, normal), axes.rows), getScale().getType());
  if (getBias() && needed[2])
    gradients[2] = tb.cast(tb.sum(g, axes.rows), getBias().getType());
}

//===----------------------------------------------------------------------===//
// cross_entropy
//===----------------------------------------------------------------------===//

LogicalResult CrossEntropyOp::verify() {
  SmallVector<DimAttr> dims = getDims(getLogits());
  if (dims.empty())
    return attachNotes(emitOpError("expected logits with an axis of classes"),
                       {{"logits", getLogits()}});
  ArrayRef<DimAttr> rows = ArrayRef(dims).drop_back();
  if (getDims(getLabels()) != rows || getElementType(getLabels()).isInteger(1))
    return attachNotes(emitOpError("expected integer labels of shape ")
                           << dimsToString(rows) << ", got " << getLabels().getType(),
                       {{"labels", getLabels()}, {"logits", getLogits()}});
  if (failed(verifyStatistic(*this, "loss", getLoss(), rows, getLogits())))
    return failure();
  return verifyStatistic(*this, "lse", getLse(), rows, getLogits());
}

OpOperand &CrossEntropyOp::getSelector() { return getLabelsMutable(); }
std::optional<int64_t> CrossEntropyOp::getIgnored() { return getIgnoreIndex(); }

AxisMap CrossEntropyOp::getAxisMap() {
  int64_t rank = getRank(getLogits());
  AxisMap map = rowMap(rank, rank - 1, rank);
  map.operands = {loopRange(0, rank), loopRange(0, rank - 1)};
  map.results = {loopRange(0, rank - 1), loopRange(0, rank - 1)};
  return map;
}

/// Where the class is the label of its row: a comparison, so that it fuses (no gather, no one-hot
/// matrix). In i32, as wide as the logits.
static Value labelMask(TrainBuilder &tb, Value labels, ArrayRef<DimAttr> dims) {
  int64_t classAxis = dims.size() - 1;
  Type i32 = tb.b().getI32Type();
  return tb.compare("eq", tb.iota(dims, i32, classAxis),
                    tb.broadcastAlong(tb.cast(labels, i32), dims, classAxis));
}

void CrossEntropyOp::decompose(TrainBuilder &tb, SmallVectorImpl<Value> &results) {
  Value x = inComputeType(tb, getLogits());
  SmallVector<DimAttr> dims = getDims(x);
  int64_t axis = dims.size() - 1;
  Value largest = tb.reduce(ReduceKind::max, x, axis);
  Value shifted = tb.sub(x, tb.broadcastAlong(largest, dims, axis));
  Value logTotal = tb.log(tb.sum(tb.exp(shifted), axis));
  // The label's logit enters shifted: nothing cancels where all logits are large.
  Value picked =
      tb.sum(tb.select(labelMask(tb, getLabels(), dims), shifted, tb.scalarLike(shifted, 0)), axis);
  Value loss = tb.sub(logTotal, picked);
  if (std::optional<int64_t> ignored = getIgnoreIndex())
    loss = tb.select(tb.compare("eq", getLabels(), tb.scalarLike(getLabels(), double(*ignored))),
                     tb.scalarLike(loss, 0), loss);
  results.push_back(tb.cast(loss, getLoss().getType()));
  results.push_back(tb.cast(tb.add(largest, logTotal), getLse().getType()));
}

void CrossEntropyOp::buildVJP(TrainBuilder &tb, ArrayRef<Value> cotangents, ArrayRef<bool> needed,
                              MutableArrayRef<Value> gradients) {
  if (!needed[0])
    return;
  Value x = inComputeType(tb, getLogits());
  Type type = x.getType();
  SmallVector<DimAttr> dims = getDims(x);
  int64_t axis = dims.size() - 1;
  auto along = [&](Value value) { return tb.broadcastAlong(value, dims, axis); };
  auto ofRows = [&](Value value) { return along(tb.cast(value, type)); };
  Value softmax = tb.exp(tb.sub(x, ofRows(getLse())));
  Value dx;
  if (cotangents[0]) {
    // softmax - one-hot before the multiplication: exact where the softmax is near 1.
    Value one = tb.scalarLike(x, 1), zero = tb.scalarLike(x, 0);
    Value oneHot = tb.select(labelMask(tb, getLabels(), dims), one, zero);
    dx = tb.mul(tb.sub(softmax, oneHot), ofRows(cotangents[0]));
    // Element by element: an ignored row is zero even if its logits are not finite.
    if (std::optional<int64_t> ignored = getIgnoreIndex())
      dx = tb.select(
          along(tb.compare("eq", getLabels(), tb.scalarLike(getLabels(), double(*ignored)))), zero,
          dx);
  }
  if (cotangents[1])
    dx = tb.add(dx, tb.mul(softmax, ofRows(cotangents[1])));
  if (dx)
    gradients[0] = tb.cast(dx, getLogits().getType());
}

//===----------------------------------------------------------------------===//
// in_training
//===----------------------------------------------------------------------===//

AxisMap InTrainingOp::getAxisMap() {
  AxisMap map;
  int64_t rank = getRank(getResult());
  map.loops.assign(rank, LoopKind::Parallel);
  SmallVector<int> axes;
  llvm::append_range(axes, llvm::seq<int>(0, rank));
  map.operands = {axes, axes};
  map.results = {axes};
  return map;
}

void InTrainingOp::decompose(TrainBuilder &, SmallVectorImpl<Value> &results) {
  results.push_back(getTraining());
}

void InTrainingOp::buildEvalMode(TrainBuilder &, SmallVectorImpl<Value> &results) {
  results.push_back(getEvaluation());
}

void InTrainingOp::buildVJP(TrainBuilder &, ArrayRef<Value> cotangents, ArrayRef<bool>,
                            MutableArrayRef<Value> gradients) {
  gradients[0] = cotangents[0];
}
bool InTrainingOp::isDifferentiable(unsigned operand) { return operand == 0; }

LogicalResult InTrainingOp::evaluate(ArrayRef<HostTensor> operands, const SymbolValues &,
                                     MutableArrayRef<HostTensor> results) {
  results[0].data = operands[0].data;
  return success();
}

//===----------------------------------------------------------------------===//
// with_gradient
//===----------------------------------------------------------------------===//

LogicalResult WithGradientOp::verify() {
  if (getRank(getOperand()) != 0 || getOperand().getType() != getResult().getType())
    return attachNotes(emitOpError("expected a scalar and a result of its type, got ")
                           << getOperand().getType() << " and " << getResult().getType(),
                       {{"the operand", getOperand()}});
  if (!llvm::equal(getValues().getTypes(), getGradients().getTypes())) {
    InFlightDiagnostic error = emitOpError("expected one gradient of its type for each value");
    for (auto [value, gradient] : llvm::zip(getValues(), getGradients()))
      if (value.getType() != gradient.getType())
        attachNotes(std::move(error), {{"the value", value}, {"the gradient", gradient}});
    return error;
  }
  return success();
}

AxisMap WithGradientOp::getAxisMap() {
  AxisMap map;
  map.loops.push_back(LoopKind::Opaque);
  for (Value operand : getOperation()->getOperands())
    map.operands.push_back(SmallVector<int>(getRank(operand), 0));
  map.results.emplace_back();
  return map;
}

void WithGradientOp::decompose(TrainBuilder &, SmallVectorImpl<Value> &results) {
  results.push_back(getOperand());
}

bool WithGradientOp::isDifferentiable(unsigned operand) {
  return operand >= 1 && operand <= getValues().size();
}

void WithGradientOp::buildVJP(TrainBuilder &tb, ArrayRef<Value> cotangents, ArrayRef<bool> needed,
                              MutableArrayRef<Value> gradients) {
  for (auto [i, given] : llvm::enumerate(getGradients())) {
    if (!needed[1 + i])
      continue;
    // The factor may be no number of a 16-bit type.
    Type element = getElementTypeOrSelf(given.getType());
    Type wide = element.getIntOrFloatBitWidth() < 32 ? tb.b().getF32Type() : element;
    Value factor = tb.cast(cotangents[0], wide), number = tb.cast(given, wide);
    gradients[1 + i] = tb.cast(tb.mul(number, tb.splat(factor, number)), element);
  }
}

LogicalResult WithGradientOp::evaluate(ArrayRef<HostTensor> operands, const SymbolValues &,
                                       MutableArrayRef<HostTensor> results) {
  results[0].data = operands[0].data;
  return success();
}
