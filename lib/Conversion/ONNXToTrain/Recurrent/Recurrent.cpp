// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// LSTM, GRU and RNN, one step after the other: the matmuls with the input are one for all steps,
// what depends on the state is the body of a loop. Operators for training, whose gates are results,
// are written out for each step: a length that only the run knows to its bound; steps past it keep
// the state.

#include "lib/Conversion/ONNXToTrain/Recurrent/Recurrent.h"
#include "dialects/Train/Loops/Loops.h"
#include "lib/Conversion/ONNXToTrain/Sizes/SizeHints.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using trainc::train::TrainBuilder;

namespace trainc::legalize {

/// Parts of one split or concat; more are done in several levels, so that none reads many buffers.
static constexpr int64_t kFan = 16;

void cutSteps(TrainBuilder &tb, Value x, int64_t steps, SmallVectorImpl<Value> &parts) {
  if (steps == 1) {
    Dims dims = train::getDims(x);
    parts.push_back(tb.reshape(x, ArrayRef<DimAttr>(dims).drop_front()));
    return;
  }
  // The largest power of the fan below the number of steps: parts are cut again.
  int64_t size = 1;
  while (size * kFan < steps)
    size *= kFan;
  Dims sizes;
  for (int64_t begin = 0; begin < steps; begin += size)
    sizes.push_back(tb.dimAttr(std::min(size, steps - begin)));
  for (Value part : tb.split(x, 0, sizes))
    cutSteps(tb, part, *train::getDim(part, 0).getConstant(), parts);
}

Value joinSteps(TrainBuilder &tb, ArrayRef<Value> steps) {
  SmallVector<Value> parts;
  // Each step becomes an axis of one.
  for (Value step : steps) {
    Dims dims = train::getDims(step);
    dims.insert(dims.begin(), tb.dimAttr(1));
    parts.push_back(tb.reshape(step, dims));
  }
  // Level by level, so that the order stays.
  while (parts.size() > 1) {
    SmallVector<Value> joined;
    for (size_t begin = 0; begin < parts.size(); begin += kFan) {
      auto some = ArrayRef<Value>(parts).slice(begin, std::min<size_t>(kFan, parts.size() - begin));
      joined.push_back(some.size() == 1 ? some[0] : tb.concat(some, 0));
    }
    parts = std::move(joined);
  }
  return parts[0];
}

/// As many steps as any length within the bounds has.
std::optional<int64_t> unrolledSteps(NodeContext &c, DimAttr length) {
  /// Longer sequences would make programs of hundreds of thousands of ops.
  constexpr int64_t most = 1024;
  Interval range = c.state.bounds.interval(length);
  if (!range.high)
    (void)c.fail("it is unrolled, and its length '" + length.str() + "' has no bound" +
                 boundHint({length}));
  else if (*range.high < 1 || *range.high > most)
    (void)c.fail("it is unrolled, and has " + Twine(*range.high) + " steps; at most " +
                 Twine(most) + " are supported" + boundHint({length}));
  else
    return *range.high;
  return std::nullopt;
}

/// Null where every length has the step.
Value isWithin(TrainBuilder &tb, int64_t step, DimAttr length, ArrayRef<DimAttr> dims) {
  if (length.getConstant())
    return {};
  Type integer = tb.b().getI64Type();
  Value inside = tb.compare("gt", tb.dim(length, integer), tb.scalar(integer, double(step)));
  return tb.broadcast(inside, dims, {});
}

/// ONNX Runtime's training kernels ignore some attributes: what they would ignore is refused.
LogicalResult checkTraining(NodeContext &c, int64_t lengths) {
  StringRef way = "; give trainc the forward model, whose layers it differentiates itself";
  if (c.attr("direction", "forward") != "forward")
    return c.fail("only direction = 'forward' is supported, as in ONNX Runtime" + way);
  if (c.attr("clip", 0.0) != 0 || c.attr("input_forget", int64_t(0)) != 0)
    return c.fail("its attributes clip and input_forget are not supported, as in ONNX Runtime" +
                  way);
  if (auto names = dyn_cast_or_null<ArrayAttr>(c.rawAttr("activations")))
    for (auto [i, name] : llvm::enumerate(names.getAsRange<StringAttr>()))
      if (!name.getValue().equals_insensitive(i == 0 ? "sigmoid" : "tanh"))
        return c.fail("its activations are not Sigmoid and Tanh, of which its gradient is" + way);
  // Padding by lengths is what their gradients do not have.
  if (c.has(lengths))
    return c.fail("its sequence_lens are not supported, as in ONNX Runtime" + way);
  return success();
}

/// "f32"
static std::string nameOf(Type element) {
  std::string name;
  llvm::raw_string_ostream(name) << element;
  return name;
}

namespace {

/// Of one tensor, elementwise.
using Activation = Value (*)(TrainBuilder &, Value);

class Recurrence {
public:
  Recurrence(NodeContext &c, int64_t gates)
      : c(c), tb(c.tb), gates(gates), isTraining(!c.op.getDomain().empty()) {}
  virtual ~Recurrence() = default;

  LogicalResult run() {
    if (failed(readShapes()) || (isTraining && failed(checkTraining(c, 4))))
      return failure();
    // Gates that are left for a gradient node are those of its own steps, which are unrolled.
    if (isTraining) {
      std::optional<int64_t> unrolled = unrolledSteps(c, length);
      if (!unrolled)
        return failure();
      // What follows is made once a step.
      steps = *unrolled;
    }
    SmallVector<Value> outputs;
    SmallVector<SmallVector<Value>> last(states());
    StringRef direction = c.attr("direction", "forward");
    for (int64_t d = 0; d < directions; ++d) {
      // The second direction of a bidirectional layer runs backwards.
      reverse = direction == "reverse" || d == 1;
      if (failed(readWeights(d)))
        return failure();
      outputs.push_back(isTraining ? unroll(d, last) : loop(d, last));
    }
    return setResults(outputs, last);
  }

protected:
  /// One step: `x` [batch, gates * hidden] is the input's part with its bias. Where the operator is
  /// one for training, `kept` gets what its results behind the states have of this step.
  virtual void step(Value x, SmallVectorImpl<Value> &state) = 0;
  /// Number of states; the first is the output.
  virtual int64_t states() { return 1; }
  /// Names of the activations where the node names none.
  virtual SmallVector<StringRef> defaultActivations() = 0;
  /// Gates whose recurrent bias stays apart, from the first of them on.
  virtual int64_t firstApart() { return gates; }
  /// Reads what else a direction has.
  virtual LogicalResult readMore(int64_t) { return success(); }

  /// Input `input` of one direction, without that axis; null where it is absent.
  Value ofDirection(int64_t input, int64_t d) {
    if (!c.has(input))
      return {};
    // Weights and states have an axis of directions in front.
    Dims dims = c.dims(input);
    Value x = tb.sliceAxis(c.tensor(input), 0, tb.dimAttr(d), tb.dimAttr(1));
    return tb.reshape(x, ArrayRef<DimAttr>(dims).drop_front());
  }
  LogicalResult needDims(int64_t input, ArrayRef<DimAttr> dims) {
    if (!c.has(input) || (c.dims(input) == Dims(dims) && c.element(input) == element))
      return success();
    if (c.dims(input) == Dims(dims))
      return c.fail("its input " + Twine(input) + " is " + nameOf(c.element(input)) +
                    ", and its input 0 " + nameOf(element) + ": give it a Cast");
    return c.fail("its input " + Twine(input) + " has shape " + train::dimsToString(c.dims(input)) +
                  ", expected " + train::dimsToString(dims) + " of its element type");
  }
  /// Gates lie one after the other along the last axis.
  SmallVector<Value> cutGates(Value x, int64_t count) {
    SmallVector<Value> parts;
    if (count == 1)
      return {x};
    for (Value part : tb.split(x, train::getRank(x) - 1, Dims(count, hidden)))
      parts.push_back(part);
    return parts;
  }
  Value activate(int64_t number, Value x) {
    // Before the activation, as ONNX has it.
    if (clip > 0) {
      x = tb.min(x, tb.scalarLike(x, clip));
      x = tb.max(x, tb.scalarLike(x, -clip));
    }
    return activations[number](tb, x);
  }
  Value rows(Value bias, Value like) { return tb.broadcast(bias, train::getDims(like), {1}); }
  Value complement(Value x) { return tb.sub(tb.scalarLike(x, 1), x); }
  DimAttr times(DimAttr size, int64_t factor) { return size * tb.dimAttr(factor); }

  NodeContext &c;
  TrainBuilder &tb;
  int64_t gates, directions = 1;
  /// LSTMTraining and GRUTraining, which leave more results, for their gradients.
  bool isTraining;
  SmallVector<Value> kept;
  DimAttr length, batch, hidden;
  Type element;
  double clip = 0;
  /// Of this direction: [gates * hidden, hidden], and the recurrent bias that is kept apart.
  Value recurrent, apart;
  SmallVector<Activation> activations;

private:
  LogicalResult readShapes() {
    assert(gates > 0 && "each cell has gates");
    if (!c.needFloat(0))
      return failure();
    if (c.rank(0) != 3 || c.rank(1) != 3 || c.rank(2) != 3)
      return c.fail("its input is " + train::dimsToString(c.dims(0)) + ", its weights " +
                    train::dimsToString(c.dims(1)) + " and " + train::dimsToString(c.dims(2)) +
                    ": it needs three axes of each");
    element = c.element(0);
    batchFirst = c.attr("layout", int64_t(0)) != 0;
    StringRef direction = c.attr("direction", "forward");
    directions = direction == "bidirectional" ? 2 : 1;
    length = c.dims(0)[batchFirst ? 1 : 0];
    batch = c.dims(0)[batchFirst ? 0 : 1];
    hidden = c.dims(2)[2];
    clip = c.attr("clip", 0.0);
    // Absent: the weights say it.
    DimAttr declared = c.dim(c.attr("hidden_size", hidden.getConstant().value_or(0)));
    if (declared != hidden)
      return c.fail("its hidden_size is " + Twine(declared.str()) + ", and its recurrent weights " +
                    train::dimsToString(c.dims(2)) + " are of " + hidden.str());
    // Input and recurrent biases lie one behind the other.
    DimAttr count = c.dim(directions), all = times(hidden, gates);
    if (failed(needDims(1, {count, all, c.dims(0)[2]})) ||
        failed(needDims(2, {count, all, hidden})) || failed(needDims(3, {count, times(all, 2)})))
      return failure();
    // With layout 1 the batch is in front of the directions, too.
    Dims state = batchFirst ? Dims{batch, count, hidden} : Dims{count, batch, hidden};
    for (int64_t i = 0; i < states(); ++i)
      if (failed(needDims(5 + i, state)))
        return failure();
    if (c.has(4) && (c.dims(4) != Dims{batch} || !c.needInteger(4)))
      return c.fail("its sequence_lens " + train::dimsToString(c.dims(4)) + " of " +
                    nameOf(c.element(4)) + " are not one integer a sequence: give it int32 [" +
                    batch.str() + "]");
    return c.has(4) ? needLengths() : success();
  }

  /// Lengths that are known have no more steps than there are; others are checked when they come.
  LogicalResult needLengths() {
    const Content *content = c.content(4);
    auto lengths = content ? content->constants() : std::nullopt;
    if (!lengths)
      return success();
    std::optional<int64_t> steps = length.getConstant();
    for (auto [row, value] : llvm::enumerate(*lengths))
      if (value < 0 || (steps && value > *steps))
        return c.fail("its sequence_lens have " + Twine(value) + " in row " + Twine(row) +
                      ": give it lengths from 0 to its " + length.str() + " steps");
    return success();
  }

  LogicalResult readWeights(int64_t d) {
    recurrent = ofDirection(2, d);
    weight = ofDirection(1, d);
    bias = apart = {};
    // The biases of input and state are one sum, except where a gate treats the state's apart.
    if (Value both = ofDirection(3, d)) {
      DimAttr all = times(hidden, gates);
      Value ours = tb.sliceAxis(both, 0, c.dim(0), all), theirs = tb.sliceAxis(both, 0, all, all);
      int64_t first = firstApart();
      if (first < gates) {
        DimAttr begin = times(hidden, first), rest = times(hidden, gates - first);
        apart = tb.sliceAxis(theirs, 0, begin, rest);
        // Zeros in place of what is kept apart.
        theirs = tb.pad(theirs, 0, {c.dim(0)}, {begin});
        theirs = tb.pad(theirs, 0, {c.dim(0)}, {all});
      }
      bias = tb.add(ours, theirs);
    }
    activations.clear();
    SmallVector<StringRef> names = defaultActivations();
    if (auto given = dyn_cast_or_null<ArrayAttr>(c.rawAttr("activations"))) {
      size_t count = names.size();
      // A list names those of all directions.
      if (given.size() != count * size_t(directions))
        return c.fail("it has " + Twine(given.size()) + " activations: it needs " + Twine(count) +
                      " a direction, of which it has " + Twine(directions));
      for (size_t i = 0; i < count; ++i)
        names[i] = cast<StringAttr>(given[size_t(d) * count + i]).getValue();
    }
    for (StringRef name : names) {
      Activation function =
          llvm::StringSwitch<Activation>(name)
              .CaseLower("sigmoid", [](TrainBuilder &b, Value x) { return b.sigmoid(x); })
              .CaseLower("tanh", [](TrainBuilder &b, Value x) { return b.tanh(x); })
              .CaseLower("relu", [](TrainBuilder &b, Value x) { return b.relu(x); })
              .Default(nullptr);
      // ONNX knows more, with parameters of their own.
      if (!function)
        return c.fail("activation '" + name + "' is not supported, only Sigmoid, Tanh and Relu");
      activations.push_back(function);
    }
    return readMore(d);
  }

  /// What the gates of all steps get of the input, [length, batch, gates * hidden].
  Value inputGates() {
    Value x = c.tensor(0);
    // Steps lead, so that those of a batch are one slice.
    if (batchFirst)
      x = tb.transpose(x, {1, 0, 2});
    DimAttr width = times(hidden, gates);
    // One matmul for all steps.
    x = tb.matmul(tb.reshape(x, {length * batch, c.dims(0)[2]}), weight, false, true);
    if (bias)
      x = tb.add(x, rows(bias, x));
    return tb.reshape(x, {length, batch, width});
  }

  /// Output of one direction, [length, batch, hidden]; its last states go to `last`.
  Value loop(int64_t d, SmallVector<SmallVector<Value>> &last) {
    train::LoopInputs inputs{{}, {inputGates()}, {}, length, reverse};
    for (int64_t i = 0; i < states(); ++i)
      inputs.initial.push_back(initialState(5 + i, d));
    // Numbers of the steps, for the ends of sequences.
    Value lengths;
    if (c.has(4)) {
      lengths = train::WithinOp::create(tb.b(), tb.loc(), c.tensor(4), length, /*fromEnd=*/false);
      inputs.scanned.push_back(tb.iota({length}, c.element(4), 0));
    }
    train::LoopOp all = train::buildLoop(tb, inputs, [&](train::LoopStep &one) {
      one.next = one.carried;
      step(one.slices[0], one.next);
      one.stacked = {one.next[0]};
      if (!lengths)
        return;
      Value number = tb.broadcast(one.slices[1], {batch}, {});
      Value inside = tb.broadcast(tb.compare("gt", lengths, number), {batch, hidden}, {0});
      one.stacked[0] = tb.select(inside, one.next[0], tb.scalarLike(one.next[0], 0));
      for (auto [now, before] : llvm::zip_equal(one.next, one.carried))
        now = tb.select(inside, now, before);
    });
    for (auto [list, value] : llvm::zip_equal(last, all.getCarried()))
      list.push_back(value);
    return all.getStacked()[0];
  }

  /// The same as `loop`, each step with the results that are left for the gradient.
  Value unroll(int64_t d, SmallVector<SmallVector<Value>> &last) {
    Value x = inputGates();
    DimAttr width = times(hidden, gates);
    // Zeros up to the bound; those steps change nothing.
    if (!length.getConstant())
      x = tb.pad(x, 0, Dims(3, c.dim(0)), {c.dim(steps), batch, width});
    SmallVector<Value> inputs, state, outputs(steps);
    cutSteps(tb, x, steps, inputs);
    for (int64_t i = 0; i < states(); ++i)
      state.push_back(initialState(5 + i, d));
    for (int64_t i = 0; i < steps; ++i) {
      // The state goes through the steps in the direction's order; results stay in that of time.
      int64_t t = reverse ? steps - 1 - i : i;
      SmallVector<Value> old = state;
      kept.clear();
      step(inputs[t], state);
      keptSteps.resize(kept.size(), SmallVector<Value>(steps));
      for (auto [list, value] : llvm::zip_equal(keptSteps, kept))
        list[t] = value;
      outputs[t] = state[0];
      // Behind the sequences' end the state stays for the last result.
      if (Value inside = isWithin(tb, t, length, {batch, hidden}))
        for (auto [now, before] : llvm::zip_equal(state, old))
          now = tb.select(inside, now, before);
    }
    for (auto [list, value] : llvm::zip_equal(last, state))
      list.push_back(value);
    return joinLength(outputs);
  }

  /// [length, ...] of values of each step.
  Value joinLength(ArrayRef<Value> values) {
    Value all = joinSteps(tb, values);
    // What was padded is cut off.
    return length.getConstant() ? all : tb.sliceAxis(all, 0, c.dim(0), length);
  }

  Value initialState(int64_t input, int64_t d) {
    Dims dims = {batch, hidden};
    if (!c.has(input))
      return tb.full(dims, element, 0);
    if (!batchFirst)
      return ofDirection(input, d);
    return tb.reshape(tb.sliceAxis(c.tensor(input), 1, c.dim(d), c.dim(1)), dims);
  }

  /// Values of the directions along a new axis.
  Value join(ArrayRef<Value> values, int64_t axis) {
    SmallVector<Value> parts;
    for (Value value : values) {
      Dims dims = train::getDims(value);
      dims.insert(dims.begin() + axis, c.dim(1));
      parts.push_back(tb.reshape(value, dims));
    }
    // One direction needs no copy.
    return parts.size() == 1 ? parts[0] : tb.concat(parts, axis);
  }

  LogicalResult setResults(ArrayRef<Value> outputs, ArrayRef<SmallVector<Value>> last) {
    Value y = join(outputs, 1); // [length, directions, batch, hidden]
    if (batchFirst)
      y = tb.transpose(y, {2, 0, 1, 3});
    (void)c.set(y, 0);
    for (auto [i, values] : llvm::enumerate(last))
      (void)c.set(join(values, batchFirst ? 1 : 0), 1 + i);
    // Behind the states, in the order in which the cell kept them.
    for (auto [i, values] : llvm::enumerate(keptSteps))
      (void)c.set(join(joinLength(values), 1), 1 + states() + i);
    return success();
  }

  bool batchFirst = false, reverse = false;
  int64_t steps = 0;
  Value weight, bias;
  SmallVector<SmallVector<Value>> keptSteps;
};

class Rnn : public Recurrence {
public:
  explicit Rnn(NodeContext &c) : Recurrence(c, 1) {}
  SmallVector<StringRef> defaultActivations() override { return {"Tanh"}; }
  void step(Value x, SmallVectorImpl<Value> &state) override {
    state[0] = activate(0, tb.add(x, tb.matmul(state[0], recurrent, false, true)));
  }
};

/// Gates: update, reset, hidden.
class Gru : public Recurrence {
public:
  explicit Gru(NodeContext &c)
      : Recurrence(c, 3), linearFirst(c.attr("linear_before_reset", int64_t(0)) != 0) {}
  SmallVector<StringRef> defaultActivations() override { return {"Sigmoid", "Tanh"}; }
  int64_t firstApart() override { return linearFirst ? 2 : 3; }

  void step(Value x, SmallVectorImpl<Value> &state) override {
    assert(state.size() == 1 && "the output");
    Value h = state[0], reset, fresh;
    SmallVector<Value> in = cutGates(x, 3);
    // The reset gate is applied behind the matmul: all three matmuls are one.
    if (linearFirst) {
      SmallVector<Value> own = cutGates(tb.matmul(h, recurrent, false, true), 3);
      if (apart)
        own[2] = tb.add(own[2], rows(apart, own[2]));
      update = activate(0, tb.add(in[0], own[0]));
      reset = activate(0, tb.add(in[1], own[1]));
      fresh = activate(1, tb.add(in[2], tb.mul(reset, own[2])));
    } else {
      // Before the matmul of the last gate, which has to wait for it.
      DimAttr both = times(hidden, 2);
      Value first = tb.sliceAxis(recurrent, 0, c.dim(0), both);
      Value second = tb.sliceAxis(recurrent, 0, both, hidden);
      SmallVector<Value> own = cutGates(tb.matmul(h, first, false, true), 2);
      update = activate(0, tb.add(in[0], own[0]));
      reset = activate(0, tb.add(in[1], own[1]));
      Value gated = tb.matmul(tb.mul(reset, h), second, false, true);
      fresh = activate(1, tb.add(in[2], gated));
    }
    // Between the fresh and the old state.
    state[0] = tb.add(tb.mul(complement(update), fresh), tb.mul(update, h));
    if (isTraining)
      kept = {tb.concat({update, reset, fresh}, 1)};
  }

private:
  bool linearFirst;
  Value update;
};

/// Gates: input, output, forget, cell.
class Lstm : public Recurrence {
public:
  explicit Lstm(NodeContext &c)
      : Recurrence(c, 4), coupled(c.attr("input_forget", int64_t(0)) != 0) {}
  int64_t states() override { return 2; }
  SmallVector<StringRef> defaultActivations() override { return {"Sigmoid", "Tanh", "Tanh"}; }

  /// Peepholes have three gates: the fresh one sees no cell.
  LogicalResult readMore(int64_t d) override {
    if (failed(needDims(7, {c.dim(directions), times(hidden, 3)})))
      return failure();
    if (isTraining && c.has(7))
      return c.fail(
          "its peepholes are not supported: of what they add to the gradient of the cells, "
          "ONNX Runtime leaves a part out; give trainc the forward model");
    peepholes.clear();
    if (Value all = ofDirection(7, d))
      peepholes = cutGates(all, 3);
    return success();
  }

  void step(Value x, SmallVectorImpl<Value> &state) override {
    Value cell = state[1];
    assert(state.size() == 2 && "output and cell");
    SmallVector<Value> gate = cutGates(tb.add(x, tb.matmul(state[0], recurrent, false, true)), 4);
    auto peep = [&](Value value, int64_t number, Value at) {
      return peepholes.empty() ? value : tb.add(value, tb.mul(rows(peepholes[number], at), at));
    };
    Value input = activate(0, peep(gate[0], 0, cell));
    // One gate for both, if the attribute says so.
    Value forget = coupled ? complement(input) : activate(0, peep(gate[2], 2, cell));
    Value fresh = activate(1, gate[3]);
    state[1] = tb.add(tb.mul(forget, cell), tb.mul(input, fresh));
    // The output's gate sees the new cell, the others the old one.
    Value output = activate(0, peep(gate[1], 1, state[1]));
    state[0] = tb.mul(output, activations[2](tb, state[1]));
    // As LSTMGrad reads them: cells, then gates in the order of the weights.
    if (isTraining)
      kept = {state[1], tb.concat({input, output, forget, fresh}, 1)};
  }

private:
  bool coupled;
  SmallVector<Value> peepholes;
};
} // namespace

template <typename Cell> static LogicalResult recurrent(NodeContext &c) { return Cell(c).run(); }

void registerRecurrent(HandlerTable &table) {
  table.add("RNN", recurrent<Rnn>, 3, 7);
  table.add("GRU", recurrent<Gru>, 3, 7);
  table.add("LSTM", recurrent<Lstm>, 3, 7);
  table.add("com.microsoft::GRUTraining", recurrent<Gru>, 3, 1);
  table.add("com.microsoft::LSTMTraining", recurrent<Lstm>, 3, 1);
}

} // namespace trainc::legalize
