// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ONNX's own training operators (ai.onnx.preview.training): Gradient, and the optimizers Adagrad,
// Adam and Momentum, whose formulas are those of ONNX's specification.

#include "lib/AutoDiff/AutoDiff.h"
#include "lib/Conversion/ONNXToTrain/Handlers.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using trainc::train::TrainBuilder;

namespace trainc::legalize {

/// The value of `of` where `from` are `to` instead: the ops between are repeated.
static Value substitute(OpBuilder &builder, Value of, ArrayRef<Value> from, ArrayRef<Value> to) {
  IRMapping mapping;
  for (auto [old, replacement] : llvm::zip_equal(from, to))
    mapping.map(old, replacement);
  // Ops that lead to `of`, without those behind `from`.
  llvm::SetVector<Operation *> between;
  SmallVector<Value> work = {of};
  while (!work.empty()) {
    Value value = work.pop_back_val();
    Operation *op = value.getDefiningOp();
    if (op && !mapping.contains(value) && between.insert(op))
      llvm::append_range(work, op->getOperands());
  }
  SmallVector<Operation *> ops(between.begin(), between.end());
  // Found backwards: put in program order again.
  llvm::sort(ops, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  // What does not depend on `from` is not repeated.
  for (Operation *op : ops)
    if (llvm::any_of(op->getOperands(), [&](Value v) { return mapping.contains(v); }))
      builder.clone(*op, mapping);
  return mapping.lookupOrDefault(of);
}

/// As functions with a gradient of their own have, and loops.
static bool hasBodies(Block &block) {
  return llvm::any_of(block, [](Operation &op) {
    return op.getNumRegions() != 0 && isa<train::DifferentiableOpInterface>(op);
  });
}

/// dY / dX for each of the first inputs. The named tensors xs, zs and y follow the inputs; where
/// these are others than xs and zs, y is computed again from them.
static LogicalResult gradient(NodeContext &c) {
  // Lists of names; the tensors themselves are inputs.
  auto count = [&](StringRef name) -> int64_t {
    auto list = dyn_cast_or_null<ArrayAttr>(c.rawAttr(name));
    return list ? list.size() : 0;
  };
  int64_t xs = count("xs"), given = xs + count("zs");
  // Inputs, then the named tensors, then y.
  if (xs == 0 || c.numInputs() != 2 * given + 1 || c.numOutputs() > xs)
    return c.fail("it does not have one input for each name in xs and zs");
  SmallVector<Value> named, inputs;
  for (int64_t i = 0; i < given; ++i) {
    if (c.dims(i) != c.dims(given + i) || c.element(i) != c.element(given + i))
      return c.fail("its input " + Twine(i) +
                    " is not of the type and shape of the tensor that xs "
                    "or zs names");
    inputs.push_back(c.tensor(i));
    named.push_back(c.tensor(given + i));
  }
  if (!c.needFloat(2 * given))
    return failure();
  Value y = c.tensor(2 * given);
  // Usually they are the same. A function's own gradient is spent by the first derivative through
  // it: that of the graph's is taken of a copy, so that the next one finds it, too.
  if (inputs != named || hasBodies(*c.tb.b().getInsertionBlock()))
    y = substitute(c.tb.b(), y, named, inputs);
  // The derivative of the sum, where y is not a scalar.
  Value seed = c.tb.scalarLike(y, 1);
  ArrayRef<Value> wanted = ArrayRef(inputs).take_front(xs);
  FailureOr<SmallVector<Value>> gradients = buildCotangents(c.tb.b(), y, seed, wanted);
  if (failed(gradients))
    return c.fail("what it differentiates has no derivative, for the reason that is told above");
  for (int64_t i = 0; i < c.numOutputs(); ++i) {
    Value dx = (*gradients)[i];
    // What y does not depend on has a zero gradient.
    (void)c.set(dx ? dx : c.tb.zeros(inputs[i].getType()), i);
  }
  return success();
}

namespace {
/// One optimizer node: rate R, update count T, then all tensors to optimize, all gradients, all of
/// each state. Its results are in the same order, without the gradients.
class Optimizer {
public:
  Optimizer(NodeContext &c, int64_t states) : c(c), tb(c.tb), states(states) {}

  /// Whether the node's inputs and outputs fit; a reason if not.
  bool check() {
    int64_t kinds = states + 2;
    tensors = (c.numInputs() - 2) / kinds;
    // Rate and count come first.
    if (tensors < 1 || c.numInputs() != 2 + tensors * kinds ||
        c.numOutputs() != tensors * (states + 1)) {
      (void)c.fail("its inputs and outputs do not come in groups of equal length");
      return false;
    }
    if (!isScalar(0) || !isScalar(1) || !c.needFloat(0) || !c.needInteger(1))
      return c.reason.empty() ? (void(c.fail("its rate and count are not scalars")), false) : false;
    // All tensors of a group agree with their first, and all groups in type.
    for (int64_t i = 2; i < c.numInputs(); ++i)
      if (!c.needFloat(i) || c.dims(i) != c.dims(2 + (i - 2) % tensors) ||
          c.element(i) != c.element(2)) {
        (void)c.fail("its input " + Twine(i) + " is not of the type and shape of its tensor");
        return false;
      }
    return true;
  }
  /// Rates may be of another float type.
  Value rate() { return tb.cast(tb.reshape(c.tensor(0), {}), c.element(2)); }
  Value count() { return tb.reshape(c.tensor(1), {}); }
  /// The gradient with its regularization, and the state `number` of a tensor.
  Value tensor(int64_t i) { return c.tensor(2 + i); }
  Value regularized(int64_t i) {
    Value x = tensor(i), g = c.tensor(2 + tensors + i);
    double norm = c.attr("norm_coefficient", 0.0);
    // Before the optimizer sees it.
    return norm == 0 ? g : tb.add(tb.mul(x, tb.scalarLike(x, norm)), g);
  }
  Value state(int64_t number, int64_t i) { return c.tensor(2 + (2 + number) * tensors + i); }
  /// Kind 0 is the tensor itself, then its states.
  void set(int64_t kind, int64_t i, Value value) { (void)c.set(value, kind * tensors + i); }

  NodeContext &c;
  TrainBuilder &tb;
  int64_t states, tensors = 0;

private:
  bool isScalar(int64_t input) { return train::product(c.context(), c.dims(input)).isConstant(1); }
};
} // namespace

static LogicalResult adagrad(NodeContext &c) {
  Optimizer o(c, 1);
  if (!o.check())
    return failure();
  TrainBuilder &tb = c.tb;
  Value rate = o.rate();
  Value decay = tb.mul(tb.cast(o.count(), c.element(2)),
                       tb.scalar(c.element(2), c.attr("decay_factor", 0.0)));
  // The rate falls with the number of updates.
  rate = tb.div(rate, tb.add(tb.scalarLike(rate, 1), decay));
  for (int64_t i = 0; i < o.tensors; ++i) {
    Value x = o.tensor(i), g = o.regularized(i);
    Value h = tb.add(o.state(0, i), tb.mul(g, g));
    // The epsilon is outside of the root here.
    Value adaptive = tb.add(tb.sqrt(h), tb.scalarLike(h, c.attr("epsilon", 1e-6f)));
    o.set(0, i, tb.sub(x, tb.div(tb.mul(tb.splat(rate, x), g), adaptive)));
    o.set(1, i, h);
  }
  return success();
}

static LogicalResult momentum(NodeContext &c) {
  Optimizer o(c, 1);
  if (!o.check())
    return failure();
  StringRef mode = c.attr("mode", "");
  TrainBuilder &tb = c.tb;
  Value rate = o.rate(), count = o.count();
  // The first update has no history to weigh against.
  Value beta = tb.select(tb.compare("gt", count, tb.scalarLike(count, 0)),
                         tb.scalar(c.element(2), c.attr("beta", 0.0)), tb.scalar(c.element(2), 1));
  double alpha = c.attr("alpha", 0.0);
  for (int64_t i = 0; i < o.tensors; ++i) {
    Value x = o.tensor(i), g = o.regularized(i), v = o.state(0, i);
    Value scale = tb.scalarLike(v, alpha);
    v = tb.add(tb.mul(scale, v), tb.mul(tb.splat(beta, g), g));
    // Nesterov looks ahead by one step.
    Value direction = mode == "standard" ? v : tb.add(g, tb.mul(scale, v));
    o.set(0, i, tb.sub(x, tb.mul(tb.splat(rate, x), direction)));
    o.set(1, i, v);
  }
  return success();
}

static LogicalResult adam(NodeContext &c) {
  Optimizer o(c, 2);
  if (!o.check())
    return failure();
  TrainBuilder &tb = c.tb;
  Type f64 = tb.b().getF64Type();
  double alpha = c.attr("alpha", 0.9f), beta = c.attr("beta", 0.999f);
  // Powers in doubles: they are close to 1 for a long time.
  Value count = o.count(), steps = tb.cast(count, f64);
  auto left = [&](double factor) { // 1 - factor^steps
    return tb.sub(tb.scalar(f64, 1), tb.pow(tb.scalar(f64, factor), steps));
  };
  Value rate = tb.cast(o.rate(), f64);
  Value corrected = tb.div(tb.mul(rate, tb.sqrt(left(beta))), left(alpha));
  // At count 0 nothing is corrected, as in ONNX.
  rate = tb.select(tb.compare("gt", count, tb.scalarLike(count, 0)), corrected, rate);
  rate = tb.cast(rate, c.element(2));
  double after = c.attr("norm_coefficient_post", 0.0);
  for (int64_t i = 0; i < o.tensors; ++i) {
    Value x = o.tensor(i), g = o.regularized(i), v = o.state(0, i), h = o.state(1, i);
    auto blend = [&](Value old, Value now, double factor) {
      return tb.add(tb.mul(tb.scalarLike(old, factor), old),
                    tb.mul(tb.scalarLike(now, 1 - factor), now));
    };
    v = blend(v, g, alpha);
    h = blend(h, tb.mul(g, g), beta);
    Value root = tb.add(tb.sqrt(h), tb.scalarLike(h, c.attr("epsilon", 1e-6f)));
    Value updated = tb.sub(x, tb.div(tb.mul(tb.splat(rate, x), v), root));
    // Decay behind the update, apart from the gradient's.
    if (after != 0)
      updated = tb.mul(updated, tb.scalarLike(updated, 1 - after));
    o.set(0, i, updated);
    o.set(1, i, v);
    o.set(2, i, h);
  }
  return success();
}

void registerTraining(HandlerTable &table) {
  auto add = [&](StringRef name, Handler handler) {
    table.addVariadic(("ai.onnx.preview.training::" + name).str(), handler, 1);
  };
  add("Gradient", gradient);
  add("Adagrad", adagrad);
  add("Adam", adam);
  add("Momentum", momentum);
}

} // namespace trainc::legalize
