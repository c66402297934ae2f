// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The gradients of ONNX Runtime's recurrent layers for training, which leave their gates: one step
// after the other, from the last to the first. The matmuls that give the gradients of weights and
// input are one for all steps.

#include "lib/Conversion/ONNXToTrain/Recurrent/Recurrent.h"

using namespace mlir;
using trainc::train::TrainBuilder;

namespace trainc::legalize {
namespace {

/// Where a node has its inputs; the first three are the input, its weight and the state's.
/// Numbers of inputs: the order differs between the two operators.
struct GradInputs {
  int64_t lengths, state, outputs, gates, outputGradient, stateGradient;
};

class RecurrenceGrad {
public:
  RecurrenceGrad(NodeContext &c, int64_t gates, GradInputs at)
      : c(c), tb(c.tb), gates(gates), at(at) {}
  virtual ~RecurrenceGrad() = default;

  LogicalResult run() {
    if (failed(checkTraining(c, at.lengths)) || failed(readShapes()) || failed(readMore()))
      return failure();
    // Bounds as in the forward pass: gates were left for as many steps.
    std::optional<int64_t> unrolled = unrolledSteps(c, length);
    if (!unrolled)
      return failure();
    steps = *unrolled;
    weight = ofDirection(2);
    before = previous(at.state, at.outputs);
    prepare();
    SmallVector<Value> states = cut(before), gateSteps = cut(ofSteps(at.gates)), dy(steps);
    // The loss need not read every step's output.
    if (c.has(at.outputGradient))
      dy = cut(ofSteps(at.outputGradient));
    SmallVector<Value> fromInput(steps), fromState(steps);
    Value dh = stateOrZero(at.stateGradient);
    // Backwards in time: the state's gradient comes from the step behind.
    for (int64_t t = steps - 1; t >= 0; --t) {
      SmallVector<Value> gate;
      assert(gateSteps.size() == size_t(steps) && "a step's gates each");
      for (Value part : tb.split(gateSteps[t], 1, Dims(gates, hidden)))
        gate.push_back(part);
      StepGradient step = back(t, tb.add(dh, dy[t]), states[t], gate);
      fromInput[t] = step.fromInput;
      fromState[t] = step.fromState;
      // A step behind the end hands its gradient on.
      dh = ifWithin(t, step.state, dh);
    }
    Value inputs = join(fromInput);
    // Mostly the same: then one matmul does for both.
    setResults(inputs, fromState == fromInput ? inputs : join(fromState), dh);
    return success();
  }

protected:
  /// The gradients of what the input and the state give to each gate, [batch, gates * hidden], and
  /// of the state before the step.
  struct StepGradient {
    Value fromInput, fromState, state;
  };
  /// `dh` is the gradient of the state after step t, whose gates these are.
  virtual StepGradient back(int64_t t, Value dh, Value state, ArrayRef<Value> gate) = 0;
  /// Checks what else the node has.
  virtual LogicalResult readMore() { return success(); }
  /// Computes what is one for all steps.
  virtual void prepare() {}
  /// The gradient of the state's weight; `rows` are of what the state gives to the gates, of all
  /// steps.
  virtual Value weightGradient(Value rows) { return product(rows, toRows(before)); }
  virtual void setMore() {}

  /// An input [1, ...] without the axis of directions.
  Value ofDirection(int64_t input) {
    Dims dims = c.dims(input);
    return tb.reshape(c.tensor(input), ArrayRef<DimAttr>(dims).drop_front());
  }
  /// An input [length, 1, batch, width] without that axis.
  Value ofSteps(int64_t input) {
    DimAttr width = c.dims(input)[3];
    // One direction, as checked.
    return tb.reshape(c.tensor(input), {length, batch, width});
  }
  /// An input [1, batch, hidden] without that axis; zeros where it is absent.
  Value stateOrZero(int64_t input) {
    return c.has(input) ? ofDirection(input) : tb.full({batch, hidden}, c.element(0), 0);
  }
  /// What was before each step, [length, batch, hidden]: input `first`, and `after` but its last.
  Value previous(int64_t first, int64_t after) {
    Value start = tb.reshape(stateOrZero(first), {c.dim(1), batch, hidden});
    // The state before the first step is the initial one.
    if (length.isConstant(1))
      return start;
    return tb.concat({start, tb.sliceAxis(ofSteps(after), 0, c.dim(0), length - c.dim(1))}, 0);
  }
  /// The steps of [length, batch, width]; behind a length that only the run knows they are zero,
  /// and so are then the gradients of their gates.
  SmallVector<Value> cut(Value x) {
    // A derivative of a sigmoid or tanh at 0 of its result times 0 is 0.
    if (!length.getConstant())
      x = tb.pad(x, 0, Dims(3, c.dim(0)), {c.dim(steps), batch, train::getDims(x).back()});
    SmallVector<Value> parts;
    cutSteps(tb, x, steps, parts);
    return parts;
  }
  /// `now` where step t is one of the sequence, else what it was.
  Value ifWithin(int64_t t, Value now, Value old) {
    Value inside = isWithin(tb, t, length, {batch, hidden});
    return inside ? tb.select(inside, now, old) : now;
  }
  /// [length * batch, width] of [length, batch, width].
  Value toRows(Value x) { return tb.reshape(x, {length * batch, train::getDims(x).back()}); }
  /// The sum over all rows of x times y.
  Value product(Value x, Value y) { return tb.matmul(x, y, /*transposeLhs=*/true); }
  Value complement(Value x) { return tb.sub(tb.scalarLike(x, 1), x); }
  /// Gradients of the argument of a sigmoid and a tanh, from its result.
  Value throughSigmoid(Value dy, Value y) { return tb.mul(dy, tb.mul(y, complement(y))); }
  Value throughTanh(Value dy, Value y) { return tb.mul(dy, complement(tb.mul(y, y))); }
  DimAttr times(int64_t factor) { return hidden * tb.dimAttr(factor); }
  /// A gradient of all directions, of which there is one.
  void set(Value gradient, int64_t output) {
    Dims dims = train::getDims(gradient);
    dims.insert(dims.begin(), c.dim(1));
    (void)c.set(tb.reshape(gradient, dims), output);
  }
  LogicalResult needDims(int64_t input, ArrayRef<DimAttr> dims) {
    if (!c.has(input) || (c.dims(input) == Dims(dims) && c.element(input) == c.element(0)))
      return success();
    return c.fail("its input " + Twine(input) + " has shape " + train::dimsToString(c.dims(input)) +
                  ", expected " + train::dimsToString(dims) + " of its element type");
  }
  /// An input that has what the layer left of each step, `factor * hidden` numbers.
  LogicalResult needSteps(int64_t input, int64_t factor) {
    if (!c.has(input))
      return c.fail("its input " + Twine(input) + ", which the layer leaves for it, is missing");
    return needDims(input, {length, c.dim(1), batch, times(factor)});
  }

  NodeContext &c;
  TrainBuilder &tb;
  int64_t gates, steps = 0;
  GradInputs at;
  DimAttr length, batch, hidden;
  Value weight; // of the state, [gates * hidden, hidden]
  Value before; // the states before each step

private:
  LogicalResult readShapes() {
    if (!c.needFloat(0))
      return failure();
    if (c.rank(0) != 3 || c.rank(2) != 3)
      return c.fail("its input is " + train::dimsToString(c.dims(0)) + " and its weights " +
                    train::dimsToString(c.dims(2)) + ": it needs three axes of each");
    length = c.dims(0)[0];
    batch = c.dims(0)[1];
    hidden = c.dims(2)[2];
    DimAttr one = c.dim(1);
    Dims state = {one, batch, hidden};
    // The first that does not fit gives the reason.
    return success(succeeded(needDims(1, {one, times(gates), c.dims(0)[2]})) &&
                   succeeded(needDims(2, {one, times(gates), hidden})) &&
                   succeeded(needDims(at.state, state)) && succeeded(needSteps(at.outputs, 1)) &&
                   succeeded(needSteps(at.gates, gates)) &&
                   succeeded(needDims(at.outputGradient, {length, one, batch, hidden})) &&
                   succeeded(needDims(at.stateGradient, state)));
  }

  Value join(ArrayRef<Value> values) {
    // Rows of the steps that there are.
    Value all = joinSteps(tb, values);
    return toRows(length.getConstant() ? all : tb.sliceAxis(all, 0, c.dim(0), length));
  }

  /// From rows of what input and state give to the gates, of all steps.
  void setResults(Value inputs, Value states, Value dh) {
    if (c.used(0))
      (void)c.set(tb.reshape(tb.matmul(inputs, ofDirection(1)), c.dims(0)), 0);
    if (c.used(1))
      set(product(inputs, toRows(c.tensor(0))), 1);
    if (c.used(2))
      set(weightGradient(states), 2);
    // Biases of input and state, as the layer has them.
    if (c.used(3))
      set(tb.concat({tb.sum(inputs, {0}), tb.sum(states, {0})}, 0), 3);
    // What is left in the end belongs to the initial state.
    set(dh, 4);
    setMore();
  }
};

/// Of LSTMTraining, without its bias. Gates: input, output, forget, cell.
class LstmGrad : public RecurrenceGrad {
public:
  explicit LstmGrad(NodeContext &c)
      : RecurrenceGrad(c, 4,
                       {.lengths = 3,
                        .state = 4,
                        .outputs = 6,
                        .gates = 8,
                        .outputGradient = 9,
                        .stateGradient = 10}) {}

  LogicalResult readMore() override {
    // The gradient of the last cell may be given, too.
    Dims state = {c.dim(1), batch, hidden};
    return success(succeeded(needDims(kCell, state)) && succeeded(needSteps(kCells, 1)) &&
                   succeeded(needDims(kCellGradient, state)));
  }
  void prepare() override {
    cells = cut(ofSteps(kCells));
    cellsBefore = cut(previous(kCell, kCells));
    dc = stateOrZero(kCellGradient);
  }
  StepGradient back(int64_t t, Value dh, Value, ArrayRef<Value> gate) override {
    Value input = gate[0], output = gate[1], forget = gate[2], fresh = gate[3];
    // The cell as the output sees it.
    Value shown = tb.tanh(cells[t]);
    Value cell = tb.add(dc, throughTanh(tb.mul(dh, output), shown));
    // In the order of the weights' gates.
    Value all = tb.concat({throughSigmoid(tb.mul(cell, fresh), input),
                           throughSigmoid(tb.mul(dh, shown), output),
                           throughSigmoid(tb.mul(cell, cellsBefore[t]), forget),
                           throughTanh(tb.mul(cell, input), fresh)},
                          1);
    // The cell's own way back.
    dc = ifWithin(t, tb.mul(cell, forget), dc);
    return {all, all, tb.matmul(all, weight)};
  }
  void setMore() override { set(dc, 5); }

private:
  static constexpr int64_t kCell = 5, kCells = 7, kCellGradient = 11;
  SmallVector<Value> cells, cellsBefore;
  Value dc;
};

/// Of GRUTraining. Gates: update, reset, hidden.
class GruGrad : public RecurrenceGrad {
public:
  explicit GruGrad(NodeContext &c)
      : RecurrenceGrad(c, 3,
                       {.lengths = 4,
                        .state = 5,
                        .outputs = 6,
                        .gates = 7,
                        .outputGradient = 8,
                        .stateGradient = 9}),
        linearFirst(c.attr("linear_before_reset", int64_t(0)) != 0) {}

  LogicalResult readMore() override { return needDims(kBias, {c.dim(1), times(6)}); }
  void prepare() override {
    // Rows of the last gate.
    second = tb.sliceAxis(weight, 0, times(2), hidden);
    if (!linearFirst)
      return;
    // What the reset gate was applied to, for all steps at once.
    Value own = tb.matmul(toRows(before), second, false, /*transposeRhs=*/true);
    if (c.has(kBias)) {
      Value bias = tb.sliceAxis(ofDirection(kBias), 0, times(5), hidden);
      own = tb.add(own, tb.broadcast(bias, train::getDims(own), {1}));
    }
    linear = cut(tb.reshape(own, {length, batch, hidden}));
  }
  StepGradient back(int64_t t, Value dh, Value state, ArrayRef<Value> gate) override {
    Value update = gate[0], reset = gate[1], fresh = gate[2];
    // update * state + (1 - update) * fresh, by each of the three.
    Value toUpdate = throughSigmoid(tb.mul(dh, tb.sub(state, fresh)), update);
    Value toFresh = throughTanh(tb.mul(dh, complement(update)), fresh);
    Value kept = tb.mul(dh, update);
    if (linearFirst) {
      Value toReset = throughSigmoid(tb.mul(toFresh, linear[t]), reset);
      // The state's part of the fresh gate went through the reset gate.
      Value all = tb.concat({toUpdate, toReset, tb.mul(toFresh, reset)}, 1);
      return {tb.concat({toUpdate, toReset, toFresh}, 1), all,
              tb.add(kept, tb.matmul(all, weight))};
    }
    // The matmul's input was the gated state.
    Value gated = tb.matmul(toFresh, second);
    Value toReset = throughSigmoid(tb.mul(gated, state), reset);
    Value both = tb.concat({toUpdate, toReset}, 1);
    Value all = tb.concat({toUpdate, toReset, toFresh}, 1);
    Value first = tb.matmul(both, tb.sliceAxis(weight, 0, c.dim(0), times(2)));
    return {all, all, tb.add(kept, tb.add(first, tb.mul(gated, reset)))};
  }
  Value weightGradient(Value rows) override {
    if (linearFirst)
      return RecurrenceGrad::weightGradient(rows);
    // The last gate has seen the state times the reset gate.
    Value states = toRows(before);
    Value reset = tb.sliceAxis(toRows(ofSteps(at.gates)), 1, hidden, hidden);
    Value first = tb.sliceAxis(rows, 1, c.dim(0), times(2));
    Value last = tb.sliceAxis(rows, 1, times(2), hidden);
    return tb.concat({product(first, states), product(last, tb.mul(reset, states))}, 0);
  }

private:
  static constexpr int64_t kBias = 3;
  bool linearFirst;
  Value second; // the weight of the last gate
  SmallVector<Value> linear;
};
} // namespace

template <typename Cell> static LogicalResult recurrentGrad(NodeContext &c) {
  return Cell(c).run();
}

void registerRecurrentGrad(HandlerTable &table) {
  table.add("com.microsoft::LSTMGrad", recurrentGrad<LstmGrad>, 3, 1);
  table.add("com.microsoft::GRUGrad", recurrentGrad<GruGrad>, 3, 1);
}

} // namespace trainc::legalize
