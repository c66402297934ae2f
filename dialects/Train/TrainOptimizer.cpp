// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Optimizer updates, in PyTorch's order of operations: what PyTorch computes in Python floats
// (learning rate, bias corrections) is computed in f64 scalars here, what it computes in tensors in
// the parameter's type (f32 for 16-bit ones). The scalars depend on hyper-parameters only, so CSE
// shares them between parameters.

#include "dialects/Train/Diagnostics/Notes.h"
#include "dialects/Train/Optimizer.h"

using namespace mlir;
using namespace trainc::train;

//===----------------------------------------------------------------------===//
// Verification and axis maps
//===----------------------------------------------------------------------===//

/// `shaped` have the shape of `parameter`, `scalars` have rank 0.
static LogicalResult verifyUpdate(Operation *op, Value parameter, ArrayRef<NamedValue> shaped,
                                  ArrayRef<NamedValue> scalars) {
  for (auto [name, value] : shaped)
    if (value && getDims(value) != getDims(parameter))
      return attachNotes(
          op->emitOpError("expected ")
              << name << " of the parameter's shape " << dimsToString(getDims(parameter))
              << ", got " << dimsToString(getDims(value)),
          {{name, value.getDefiningOp() == op ? Value() : value}, {"parameter", parameter}});
  for (auto [name, value] : scalars)
    if (getRank(value) != 0)
      return attachNotes(op->emitOpError("expected ")
                             << name << " to be a scalar, got " << value.getType(),
                         {{name, value}});
  return success();
}

static LogicalResult verifyBetas(Operation *op, const APFloat &beta1, const APFloat &beta2) {
  for (const APFloat *beta : {&beta1, &beta2})
    if (!(beta->convertToDouble() >= 0 && beta->convertToDouble() < 1))
      return op->emitOpError("expected betas in [0, 1), got ") << beta->convertToDouble();
  return success();
}

/// One loop an axis of the parameter; scalars have none.
static AxisMap updateAxisMap(Operation *op, LoopKind kind) {
  AxisMap map;
  int64_t rank = getRank(op->getOperand(0));
  map.loops.assign(rank, kind);
  auto loops = [&](Value value) {
    SmallVector<int> axes;
    if (getRank(value) == rank)
      llvm::append_range(axes, llvm::seq<int>(0, rank));
    return axes;
  };
  for (Value operand : op->getOperands())
    map.operands.push_back(loops(operand));
  for (Value result : op->getResults())
    map.results.push_back(loops(result));
  return map;
}

LogicalResult SgdOp::verify() {
  if (bool(getVelocity()) != bool(getNewVelocity()))
    return emitOpError("expected velocity as operand and result, or as neither");
  if (getMomentum().convertToDouble() != 0 && !getVelocity())
    return emitOpError("expected a velocity where momentum is not 0");
  return verifyUpdate(*this, getParameter(),
                      {{"gradient", getGradient()},
                       {"velocity", getVelocity()},
                       {"result", getResult()},
                       {"new velocity", getNewVelocity()}},
                      {{"lr", getLr()}, {"weight decay", getWeightDecay()}, {"step", getStep()}});
}
/// Of an optimizer with averages of the gradient and of its square.
template <typename Op> static LogicalResult verifyAverages(Op op) {
  if (failed(verifyBetas(op, op.getBeta1(), op.getBeta2())))
    return failure();
  return verifyUpdate(
      op, op.getParameter(),
      {{"gradient", op.getGradient()},
       {"exp_avg", op.getExpAvg()},
       {"exp_avg_sq", op.getExpAvgSq()},
       {"result", op.getResult()},
       {"new exp_avg", op.getNewExpAvg()},
       {"new exp_avg_sq", op.getNewExpAvgSq()}},
      {{"lr", op.getLr()}, {"weight decay", op.getWeightDecay()}, {"step", op.getStep()}});
}
LogicalResult AdamOp::verify() { return verifyAverages(*this); }
LogicalResult LambOp::verify() { return verifyAverages(*this); }

AxisMap SgdOp::getAxisMap() { return updateAxisMap(*this, LoopKind::Parallel); }
AxisMap AdamOp::getAxisMap() { return updateAxisMap(*this, LoopKind::Parallel); }
// Norms over the whole parameter.
AxisMap LambOp::getAxisMap() { return updateAxisMap(*this, LoopKind::Opaque); }

//===----------------------------------------------------------------------===//
// Formulas
//===----------------------------------------------------------------------===//

namespace {
/// Operands of one update, in the type that is computed in; scalars stay f64 until they meet a
/// tensor.
class Update {
public:
  Update(TrainBuilder &tb, Value parameter) : tb(tb) {
    Type element = getElementType(parameter);
    if (element.getIntOrFloatBitWidth() < 32)
      element = tb.b().getF32Type();
    type = withElementType(parameter.getType(), element);
  }
  Value in(Value value) { return tb.cast(value, type); }
  Value f64(Value scalar) { return tb.cast(scalar, tb.b().getF64Type()); }
  Value f64(double value) { return tb.scalar(tb.b().getF64Type(), value); }
  /// A scalar at every element.
  Value everywhere(Value scalar) {
    return tb.broadcast(tb.cast(scalar, type), getDims(type), ArrayRef<int64_t>{});
  }
  Value constant(double value) { return tb.full(getDims(type), getElementTypeOrSelf(type), value); }
  /// x + a * y
  Value addScaled(Value x, Value a, Value y) { return tb.add(x, tb.mul(a, y)); }
  /// 1 - beta^step
  Value biasCorrection(double beta, Value step) {
    return tb.sub(f64(1), tb.pow(f64(beta), f64(step)));
  }

  TrainBuilder &tb;
  Type type;
};

struct Moments {
  Value expAvg, expAvgSq;
};
} // namespace

/// m = m + (g - m) * (1 - beta1) as lerp_, v = beta2 * v + (1 - beta2) * g * g as mul_ and
/// addcmul_.
static Moments updateMoments(Update &u, Value g, Value m, Value v, double beta1, double beta2) {
  TrainBuilder &tb = u.tb;
  Value newM = u.addScaled(m, tb.sub(g, m), u.constant(1 - beta1));
  Value newV = tb.add(tb.mul(v, u.constant(beta2)), tb.mul(tb.mul(u.constant(1 - beta2), g), g));
  return {newM, newV};
}

void SgdOp::decompose(TrainBuilder &tb, SmallVectorImpl<Value> &results) {
  Update u(tb, getParameter());
  Value p = u.in(getParameter()), g = u.in(getGradient());
  g = u.addScaled(g, u.everywhere(getWeightDecay()), p);
  Value velocity = getVelocity();
  if (double momentum = getMomentum().convertToDouble()) {
    Value moved = tb.add(tb.mul(u.in(velocity), u.constant(momentum)), g);
    Value first = tb.compare("eq", getStep(), tb.scalarLike(getStep(), 1));
    velocity = tb.select(tb.broadcast(first, getDims(p), ArrayRef<int64_t>{}), g, moved);
    g = getNesterov() ? u.addScaled(g, u.constant(momentum), velocity) : velocity;
  }
  results.push_back(tb.cast(tb.sub(p, tb.mul(u.everywhere(getLr()), g)), getResult().getType()));
  if (getNewVelocity())
    results.push_back(tb.cast(velocity, getNewVelocity().getType()));
}

void AdamOp::decompose(TrainBuilder &tb, SmallVectorImpl<Value> &results) {
  Update u(tb, getParameter());
  double beta1 = getBeta1().convertToDouble(), beta2 = getBeta2().convertToDouble();
  Value p = u.in(getParameter()), g = u.in(getGradient()), lr = u.f64(getLr());
  if (getDecoupled())
    p = tb.mul(p, u.everywhere(tb.sub(u.f64(1), tb.mul(lr, u.f64(getWeightDecay())))));
  else
    g = u.addScaled(g, u.everywhere(getWeightDecay()), p);
  auto [m, v] = updateMoments(u, g, u.in(getExpAvg()), u.in(getExpAvgSq()), beta1, beta2);
  Value stepSize = tb.div(lr, u.biasCorrection(beta1, getStep()));
  Value correction = tb.sqrt(u.biasCorrection(beta2, getStep()));
  Value denominator = tb.add(tb.div(tb.sqrt(v), u.everywhere(correction)),
                             u.constant(getEpsilon().convertToDouble()));
  Value change = tb.div(tb.mul(u.everywhere(stepSize), m), denominator);
  results.push_back(tb.cast(tb.sub(p, change), getResult().getType()));
  results.push_back(tb.cast(m, getNewExpAvg().getType()));
  results.push_back(tb.cast(v, getNewExpAvgSq().getType()));
}

static SmallVector<Value> updateLamb(TrainBuilder &tb, const OptimizerOperands &in, double beta1,
                                     double beta2, double epsilon) {
  Update u(tb, in.parameter);
  Value p = u.in(in.parameter), g = u.in(in.gradient);
  auto [m, v] = updateMoments(u, g, u.in(in.state[0]), u.in(in.state[1]), beta1, beta2);
  Value mHat = tb.div(m, u.everywhere(u.biasCorrection(beta1, in.step)));
  Value vHat = tb.div(v, u.everywhere(u.biasCorrection(beta2, in.step)));
  Value direction = tb.div(mHat, tb.add(tb.sqrt(vHat), u.constant(epsilon)));
  direction = u.addScaled(direction, u.everywhere(in.weightDecay), p);
  auto norm = [&](Value x) {
    Value squares = tb.mul(x, x);
    return tb.sqrt(in.sumOverRanks ? in.sumOverRanks(tb, squares) : tb.sumAll(squares));
  };
  // The trust ratio, 1 where either norm is 0.
  Value ofP = norm(p), ofDirection = norm(direction);
  Value zero = tb.scalarLike(ofP, 0), one = tb.scalarLike(ofP, 1);
  Value defined = tb.logicalAnd(tb.compare("gt", ofP, zero), tb.compare("gt", ofDirection, zero));
  Value ratio = tb.select(defined, tb.div(ofP, tb.select(defined, ofDirection, one)), one);
  Value scale = tb.mul(u.f64(in.lr), u.f64(ratio));
  Value updated = tb.sub(p, tb.mul(u.everywhere(scale), direction));
  return {tb.cast(updated, in.parameter.getType()), tb.cast(m, in.state[0].getType()),
          tb.cast(v, in.state[1].getType())};
}

void LambOp::decompose(TrainBuilder &tb, SmallVectorImpl<Value> &results) {
  llvm::append_range(results, updateLamb(tb,
                                         {getParameter(),
                                          getGradient(),
                                          {getExpAvg(), getExpAvgSq()},
                                          getLr(),
                                          getWeightDecay(),
                                          getStep(),
                                          {}},
                                         getBeta1().convertToDouble(), getBeta2().convertToDouble(),
                                         getEpsilon().convertToDouble()));
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

static SmallVector<OptimizerState> moments(const OptimizerOptions &) {
  return {{"exp_avg"}, {"exp_avg_sq", /*nonNegative=*/true}};
}
static SmallVector<OptimizerState> velocity(const OptimizerOptions &options) {
  return options.momentum != 0 ? SmallVector<OptimizerState>{{"momentum_buffer"}}
                               : SmallVector<OptimizerState>();
}

template <bool decoupled>
static SmallVector<Value> buildAdam(TrainBuilder &tb, const OptimizerOperands &in,
                                    const OptimizerOptions &options) {
  Type types[] = {in.parameter.getType(), in.state[0].getType(), in.state[1].getType()};
  auto op = AdamOp::create(tb.b(), tb.loc(), types[0], types[1], types[2], in.parameter,
                           in.gradient, in.state[0], in.state[1], in.lr, in.weightDecay, in.step,
                           APFloat(options.beta1), APFloat(options.beta2), APFloat(options.epsilon),
                           decoupled);
  return op->getResults();
}
/// AdamW as Hugging Face's library had it, and as ONNX Runtime's artifacts have it (adam_mode 1):
/// epsilon is added before the correction, and the updated parameter decays.
static SmallVector<Value> buildAdamWHf(TrainBuilder &tb, const OptimizerOperands &in,
                                       const OptimizerOptions &options) {
  Update u(tb, in.parameter);
  Value p = u.in(in.parameter), g = u.in(in.gradient), lr = u.f64(in.lr);
  auto [m, v] =
      updateMoments(u, g, u.in(in.state[0]), u.in(in.state[1]), options.beta1, options.beta2);
  Value stepSize = lr;
  if (options.biasCorrection)
    stepSize = tb.div(tb.mul(lr, tb.sqrt(u.biasCorrection(options.beta2, in.step))),
                      u.biasCorrection(options.beta1, in.step));
  Value denominator = tb.add(tb.sqrt(v), u.constant(options.epsilon));
  p = tb.sub(p, tb.div(tb.mul(u.everywhere(stepSize), m), denominator));
  p = tb.sub(p, tb.mul(u.everywhere(tb.mul(lr, u.f64(in.weightDecay))), p));
  return {tb.cast(p, in.parameter.getType()), tb.cast(m, in.state[0].getType()),
          tb.cast(v, in.state[1].getType())};
}
static SmallVector<Value> buildLamb(TrainBuilder &tb, const OptimizerOperands &in,
                                    const OptimizerOptions &options) {
  // The op is of whole parameters.
  if (in.sumOverRanks)
    return updateLamb(tb, in, options.beta1, options.beta2, options.epsilon);
  Type types[] = {in.parameter.getType(), in.state[0].getType(), in.state[1].getType()};
  auto op =
      LambOp::create(tb.b(), tb.loc(), types[0], types[1], types[2], in.parameter, in.gradient,
                     in.state[0], in.state[1], in.lr, in.weightDecay, in.step,
                     APFloat(options.beta1), APFloat(options.beta2), APFloat(options.epsilon));
  return op->getResults();
}
static SmallVector<Value> buildSgd(TrainBuilder &tb, const OptimizerOperands &in,
                                   const OptimizerOptions &options) {
  Value velocity = in.state.empty() ? Value() : in.state[0];
  auto op =
      SgdOp::create(tb.b(), tb.loc(), in.parameter.getType(),
                    velocity ? velocity.getType() : Type(), in.parameter, in.gradient, velocity,
                    in.lr, in.weightDecay, in.step, APFloat(options.momentum), options.nesterov);
  return op->getResults();
}

ArrayRef<OptimizerSpec> trainc::train::getOptimizers() {
  static constexpr OptimizerSpec table[] = {
      {"adam", 1e-3, 0, 1e-8, moments, buildAdam<false>},
      {"adamw", 1e-3, 1e-2, 1e-8, moments, buildAdam<true>},
      {"adamw-hf", 1e-3, 0, 1e-6, moments, buildAdamWHf},
      {"lamb", 1e-3, 0, 1e-6, moments, buildLamb},
      {"sgd", 1e-3, 0, 0, velocity, buildSgd},
  };
  return table;
}

const OptimizerSpec *trainc::train::findOptimizer(StringRef name) {
  auto table = getOptimizers();
  auto it = llvm::find_if(table, [&](const OptimizerSpec &spec) { return spec.name == name; });
  return it == table.end() ? nullptr : &*it;
}
