// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attention as one op and its gradient: verifiers, axis maps, layouts, cost. Library calls compute
// both, so there are no parts to decompose into.

#include "dialects/Train/Diagnostics/Notes.h"
#include "dialects/Train/TrainBuilder.h"

using namespace mlir;
using namespace trainc::train;

namespace {
/// Sizes of an attention. Attention and its gradient have their first operands in common.
struct Sizes {
  DimAttr batch, heads, keyHeads, rows, columns, depth, width;
};
} // namespace

static FailureOr<Sizes> verifySizes(Operation *op, Value q, Value k, Value v) {
  SmallVector<DimAttr> query = getDims(q), key = getDims(k), value = getDims(v);
  if (query.size() != 4 || key.size() != 4 || value.size() != 4)
    return attachNotes(op->emitOpError("expected q, k and v of rank 4, got ")
                           << query.size() << ", " << key.size() << " and " << value.size(),
                       {{"q", q}, {"k", k}, {"v", v}});
  if (key != SmallVector<DimAttr>{query[0], key[1], key[2], query[3]})
    return attachNotes(op->emitOpError("expected k of shape ")
                           << dimsToString({query[0], key[1], key[2], query[3]}) << ", got "
                           << dimsToString(key),
                       {{"k", k}, {"q", q}});
  if (value != SmallVector<DimAttr>{query[0], key[1], key[2], value[3]})
    return attachNotes(op->emitOpError("expected v of shape ")
                           << dimsToString({query[0], key[1], key[2], value[3]}) << ", got "
                           << dimsToString(value),
                       {{"v", v}, {"k", k}});
  if (!divideExactly(query[1], key[1]))
    return attachNotes(op->emitOpError("expected a number of heads that the key heads divide, got ")
                           << query[1].str() << " and " << key[1].str(),
                       {{"q", q}, {"k", k}});
  if (getElementType(k) != getElementType(q) || getElementType(v) != getElementType(q))
    return attachNotes(op->emitOpError("expected q, k and v of one element type"),
                       {{"q", q}, {"k", k}, {"v", v}});
  return Sizes{query[0], query[1], key[1], query[2], key[2], query[3], value[3]};
}

static LogicalResult verifyShape(Operation *op, StringRef name, Value value,
                                 ArrayRef<DimAttr> dims) {
  if (getDims(value) != dims)
    return attachNotes(op->emitOpError("expected ") << name << " of shape " << dimsToString(dims)
                                                    << ", got " << dimsToString(getDims(value)),
                       {{name, value.getDefiningOp() == op ? Value() : value}});
  return success();
}

static LogicalResult verifyStatistics(Operation *op, Value stats, Value q, const Sizes &sizes) {
  Type element =
      getElementType(q).isF64() ? getElementType(q) : Type(Float32Type::get(op->getContext()));
  if (getElementType(stats) != element)
    return op->emitOpError("expected stats of element type ")
           << element << ", got " << getElementType(stats);
  return verifyShape(op, "stats", stats, {sizes.batch, sizes.heads, sizes.rows});
}

/// What comes with offsets of segments.
template <typename OpTy> static LogicalResult verifySegments(OpTy op, const Sizes &sizes) {
  Value offsets = op.getOffsets(), positions = op.getPositions();
  if (bool(offsets) != bool(op.getLongestAttr()))
    return op->emitOpError("expected `longest` if and only if there are offsets of segments");
  if (!offsets) {
    if (positions)
      return op->emitOpError("expected positions only with offsets of segments");
    return success();
  }
  if (getRank(offsets) != 1 || !getElementType(offsets).isInteger(32))
    return attachNotes(op->emitOpError("expected offsets of i32 and rank 1, got ")
                           << offsets.getType(),
                       {{"offsets", offsets}});
  const SmallVector<DimAttr> pair = {DimAttr::constant(op.getContext(), 2), sizes.rows};
  if (positions && (!getElementType(positions).isInteger(32) || getDims(positions) != pair))
    return attachNotes(op->emitOpError("expected positions of i32 and shape ")
                           << dimsToString(pair) << ", got " << positions.getType(),
                       {{"positions", positions}, {"q", op.getQ()}});
  if (!sizes.batch.isConstant(1))
    return attachNotes(op->emitOpError("expected a batch of 1 with segments, got ")
                           << sizes.batch.str(),
                       {{"q", op.getQ()}});
  if (sizes.rows != sizes.columns)
    return attachNotes(op->emitOpError("expected as many rows as columns with segments, got ")
                           << sizes.rows.str() << " and " << sizes.columns.str(),
                       {{"q", op.getQ()}, {"k", op.getK()}});
  if (op.getBias())
    return attachNotes(op->emitOpError("expected no bias with segments"), {{"bias", op.getBias()}});
  return success();
}

/// How far a row sees.
template <typename OpTy> static LogicalResult verifyWindow(OpTy op, const Sizes &sizes) {
  std::optional<int64_t> before = op.getBefore(), after = op.getAfter();
  if (before.value_or(0) < 0 || after.value_or(0) < 0)
    return op->emitOpError("expected a window of no less than 0 columns before and after, got ")
           << before.value_or(0) << " and " << after.value_or(0);
  if (after && op.getCausal())
    return op->emitOpError("expected no window after a row with a causal mask, got ") << *after;
  if ((before || after) && sizes.rows != sizes.columns)
    return attachNotes(op->emitOpError("expected as many rows as columns with a window, got ")
                           << sizes.rows.str() << " and " << sizes.columns.str(),
                       {{"q", op.getQ()}, {"k", op.getK()}});
  return success();
}

/// Bias, seed, ratio, window and segments, which attention and its gradient have in common.
template <typename OpTy> static LogicalResult verifyExtras(OpTy op, const Sizes &sizes) {
  Value bias = op.getBias(), seed = op.getSeed();
  double ratio = op.getDropout().convertToDouble();
  if (bias) {
    SmallVector<DimAttr> dims = getDims(bias);
    DimAttr full[] = {sizes.batch, sizes.heads, sizes.rows, sizes.columns};
    bool fits = dims.size() == 4 && dims[3] == full[3];
    for (int axis = 0; fits && axis < 3; ++axis)
      fits = dims[axis] == full[axis] || dims[axis].isConstant(1);
    if (!fits)
      return attachNotes(op->emitOpError("expected a bias of shape ")
                             << dimsToString(full) << ", any of the first three being 1, got "
                             << dimsToString(dims),
                         {{"bias", bias}});
  }
  if (!(ratio >= 0 && ratio < 1))
    return op->emitOpError("expected a dropout in [0, 1), got ") << ratio;
  if ((ratio > 0) != bool(seed))
    return attachNotes(op->emitOpError("expected a seed if and only if there is dropout"),
                       {{"seed", seed}});
  if (seed && seed.getType() != RankedTensorType::get({2}, IntegerType::get(op->getContext(), 64)))
    return attachNotes(op->emitOpError("expected the seed to be tensor<2xi64>, got ")
                           << seed.getType(),
                       {{"seed", seed}});
  if (failed(verifyWindow(op, sizes)))
    return failure();
  return verifySegments(op, sizes);
}

/// The shape of a bias that has a gradient.
template <typename OpTy> static SmallVector<DimAttr> differentiableBias(OpTy op) {
  return {DimAttr::constant(op.getContext(), 1), getDim(op.getQ(), 1), getDim(op.getQ(), 2),
          getDim(op.getK(), 2)};
}

LogicalResult AttentionOp::verify() {
  FailureOr<Sizes> sizes = verifySizes(*this, getQ(), getK(), getV());
  if (failed(sizes))
    return failure();
  Type expected = getTensorType({sizes->batch, sizes->heads, sizes->rows, sizes->width},
                                getElementType(getQ()));
  if (getResult().getType() != expected)
    return emitOpError("expected a result of type ")
           << expected << ", got " << getResult().getType();
  if (failed(verifyStatistics(*this, getStats(), getQ(), *sizes)))
    return failure();
  return verifyExtras(*this, *sizes);
}

LogicalResult AttentionGradOp::verify() {
  FailureOr<Sizes> sizes = verifySizes(*this, getQ(), getK(), getV());
  if (failed(sizes))
    return failure();
  SmallVector<DimAttr> output = {sizes->batch, sizes->heads, sizes->rows, sizes->width};
  for (auto [name, value] : {std::pair("output", getOutput()), {"cotangent", getCotangent()}})
    if (failed(verifyShape(*this, name, value, output)))
      return failure();
  SmallVector<Value> differentiated = {getQ(), getK(), getV()};
  if (getDbias()) {
    Value bias = getBias();
    const SmallVector<DimAttr> dims = differentiableBias(*this);
    if (!bias || getDims(bias) != dims)
      return attachNotes(emitOpError("expected a gradient only of a bias of shape ")
                             << dimsToString(dims),
                         {{"bias", bias}});
    differentiated.push_back(bias);
  }
  for (auto [gradient, operand] : llvm::zip_equal(getResults(), differentiated))
    if (gradient.getType() != operand.getType())
      return attachNotes(emitOpError("expected a gradient of type ")
                             << operand.getType() << ", got " << gradient.getType(),
                         {{"the operand", operand}});
  if (failed(verifyStatistics(*this, getStats(), getQ(), *sizes)))
    return failure();
  return verifyExtras(*this, *sizes);
}

//===----------------------------------------------------------------------===//
// Axis maps
//===----------------------------------------------------------------------===//

namespace {
/// Numbers of the loops. `group` stands for the key heads where neighbouring heads share one.
enum Loop : int { batchLoop, headLoop, rowLoop, columnLoop, depthLoop, widthLoop, keyHeadLoop };
} // namespace

/// Loops of the operands and results, found by what each value is. `gradient`: rows are summed over
/// as well.
template <typename OpTy> static AxisMap attentionAxisMap(OpTy op, bool gradient) {
  bool shared = getDim(op.getQ(), 1) != getDim(op.getK(), 1);
  // Coordinates enter the mask of the dropout.
  LoopKind kind = op.getSeed() ? LoopKind::Positional : LoopKind::Parallel;
  AxisMap map;
  map.loops.assign(shared ? 7 : 6, LoopKind::Opaque);
  map.loops[batchLoop] = kind;
  if (!shared)
    map.loops[headLoop] = kind;
  // A part of the rows would move the diagonal, or the segments.
  if (!gradient && !op.getCausal() && !op.getBefore() && !op.getAfter() && !op.getOffsets())
    map.loops[rowLoop] = kind;
  int keyHead = shared ? keyHeadLoop : headLoop;
  auto loopsOf = [&](Value value) -> SmallVector<int> {
    if (value == op.getBias()) {
      SmallVector<int> loops = {batchLoop, headLoop, rowLoop, columnLoop};
      for (int axis = 0; axis < 3; ++axis)
        if (getDim(value, axis).isConstant(1))
          loops[axis] = -1;
      return loops;
    }
    // Seed, offsets, positions.
    return SmallVector<int>(cast<RankedTensorType>(value.getType()).getRank(), -1);
  };
  SmallVector<int> q = {batchLoop, headLoop, rowLoop, depthLoop};
  SmallVector<int> k = {batchLoop, keyHead, columnLoop, depthLoop};
  SmallVector<int> v = {batchLoop, keyHead, columnLoop, widthLoop};
  SmallVector<int> output = {batchLoop, headLoop, rowLoop, widthLoop};
  SmallVector<int> stats = {batchLoop, headLoop, rowLoop};
  map.operands = {q, k, v};
  if (gradient)
    map.operands.append({output, stats, output});
  for (Value extra : {op.getBias(), op.getSeed(), op.getOffsets(), op.getPositions()})
    if (extra)
      map.operands.push_back(loopsOf(extra));
  if (gradient)
    map.results = {q, k, v};
  else
    map.results = {output, stats};
  return map;
}

AxisMap AttentionOp::getAxisMap() { return attentionAxisMap(*this, /*gradient=*/false); }
AxisMap AttentionGradOp::getAxisMap() {
  AxisMap map = attentionAxisMap(*this, /*gradient=*/true);
  if (getDbias()) {
    // The sum over the batch needs all of it.
    map.loops[batchLoop] = LoopKind::Opaque;
    map.results.push_back({-1, headLoop, rowLoop, columnLoop});
  }
  return map;
}

//===----------------------------------------------------------------------===//
// Gradient and evaluation mode
//===----------------------------------------------------------------------===//

bool AttentionOp::isDifferentiable(unsigned operand) {
  return operand < 3 ||
         (getOperand(operand) == getBias() && getDims(getBias()) == differentiableBias(*this));
}
bool AttentionOp::isDifferentiableResult(unsigned result) { return result == 0; }
bool AttentionOp::givesLowPrecision(unsigned result) { return result == 0; }

void AttentionOp::buildVJP(TrainBuilder &tb, ArrayRef<Value> cotangents, ArrayRef<bool> needed,
                           MutableArrayRef<Value> gradients) {
  if (!cotangents[0])
    return;
  const bool ofBias = getBias() && needed[3];
  auto gradient = AttentionGradOp::create(
      tb.b(), tb.loc(), getQ().getType(), getK().getType(), getV().getType(),
      ofBias ? getBias().getType() : Type(), getQ(), getK(), getV(), getResult(), getStats(),
      cotangents[0], getBias(), getSeed(), getOffsets(), getPositions(), getScaleAttr(),
      getDropoutAttr(), getCausalAttr(), getLongestAttr(), getBeforeAttr(), getAfterAttr());
  // The bias, if there is one, stands behind v.
  for (auto [to, from] : llvm::zip(gradients, gradient.getResults()))
    to = from;
}

void AttentionOp::buildEvalMode(TrainBuilder &tb, SmallVectorImpl<Value> &results) {
  auto op =
      AttentionOp::create(tb.b(), tb.loc(), getResultTypes(), getQ(), getK(), getV(), getBias(),
                          Value(), getOffsets(), Value(), getScaleAttr(), tb.b().getF64FloatAttr(0),
                          getCausalAttr(), getLongestAttr(), getBeforeAttr(), getAfterAttr());
  llvm::append_range(results, op->getResults());
}

//===----------------------------------------------------------------------===//
// Kernels and cost
//===----------------------------------------------------------------------===//

FusionRole AttentionOp::getFusionRole() { return FusionRole::Library; }
FusionRole AttentionGradOp::getFusionRole() { return FusionRole::Library; }

/// Columns of a matrix lie side by side; statistics, seeds, offsets and positions are row major.
static bool acceptsLayout(Value value, const StridedLayout &layout) {
  SmallVector<DimAttr> dims = getDims(value);
  if (dims.size() == 4)
    return dims.back().isConstant(1) || layout.strides.back().isConstant(1);
  return trainc::train::detail::isRowMajor(value, layout);
}
bool AttentionOp::acceptsOperandLayout(unsigned operand, const StridedLayout &layout) {
  return acceptsLayout(getOperand(operand), layout);
}
bool AttentionOp::acceptsResultLayout(unsigned result, const StridedLayout &layout) {
  return acceptsLayout(getOperation()->getResult(result), layout);
}
bool AttentionGradOp::acceptsOperandLayout(unsigned operand, const StridedLayout &layout) {
  return acceptsLayout(getOperand(operand), layout);
}
bool AttentionGradOp::acceptsResultLayout(unsigned result, const StridedLayout &layout) {
  if (getOperation()->getResult(result) == getDbias())
    return trainc::train::detail::isRowMajor(getDbias(), layout);
  return acceptsLayout(getOperation()->getResult(result), layout);
}

RecomputeClass AttentionOp::getRecomputeClass() { return RecomputeClass::Costly; }
RecomputeClass AttentionGradOp::getRecomputeClass() { return RecomputeClass::Costly; }

/// 2 a multiply and add; the half that a causal mask hides is not taken off, and every row of
/// segments sees as many columns as the longest segment has, or a window.
template <typename OpTy> static DimAttr productFlops(OpTy op, int64_t ofDepth, int64_t ofWidth) {
  SmallVector<DimAttr> query = getDims(op.getQ()), value = getDims(op.getV());
  auto number = [&](int64_t n) { return DimAttr::constant(op.getContext(), n); };
  DimAttr columns = op.getOffsets() ? op.getLongestAttr() : value[2];
  if (op.getBefore() && (op.getCausal() || op.getAfter()))
    columns = minDim(columns, number(*op.getBefore() + op.getAfter().value_or(0) + 1));
  return query[0] * query[1] * query[2] * columns *
         (number(2 * ofDepth) * query[3] + number(2 * ofWidth) * value[3]);
}
DimAttr AttentionOp::getFlops() { return productFlops(*this, 1, 1); }
// The scores again, dq and dk; the gradient of the weights and dv.
DimAttr AttentionGradOp::getFlops() { return productFlops(*this, 3, 2); }
