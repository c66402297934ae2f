// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// If, Loop and Scan whose course is known while compiling: the branch that is taken, the body once
// an iteration, or as the body of a loop where there are many, or as many as a size says. What
// depends on data is refused.

#include "dialects/Train/Loops/Loops.h"
#include "lib/Conversion/ONNXToTrain/Handlers.h"
#include "lib/Conversion/ONNXToTrain/Indexing/Selection.h"
#include "lib/Conversion/ONNXToTrain/Sizes/SizeHints.h"

using namespace mlir;
using trainc::train::TrainBuilder;

namespace trainc::legalize {

/// More copies of a body are no model that anybody unrolled on purpose.
/// A limit against files that are wrong.
static constexpr int64_t kMaxIterations = 4096;

/// Up to so many iterations are written out: bodies may then compute with the number of each.
static constexpr int64_t kUnrolled = 64;

using Values = SmallVector<LegalValue *>;

static Region *subgraph(NodeContext &c, StringRef name) {
  ArrayAttr names = c.op.getSubgraphNamesAttr();
  /// By its attribute's name.
  for (auto [i, attr] : llvm::enumerate(names ? names.getValue() : ArrayRef<Attribute>()))
    if (cast<StringAttr>(attr).getValue() == name)
      return &c.op.getSubgraphs()[i];
  (void)c.fail("it has no subgraph '" + name + "'");
  return nullptr;
}

/// Legalizes the body in place: each call makes its nodes once more.
static bool walk(NodeContext &c, Region &region, ArrayRef<LegalValue *> arguments,
                 Values &results) {
  if (region.front().getNumArguments() != arguments.size()) {
    (void)c.fail("its subgraph has " + Twine(region.front().getNumArguments()) + " inputs, not " +
                 Twine(arguments.size()));
    return false;
  }
  // The subgraph has said why: the node does not say so, too.
  c.subgraphFailed = !c.state.legalizeSubgraph(region, arguments, results);
  return !c.subgraphFailed;
}

/// What a loop whose end depends on data can be instead.
static constexpr StringLiteral kFixedLoop =
    "; a loop has as many iterations as a constant or the size of an axis says: let it make the "
    "most that there may be, and keep with Where what those behind the last wanted one must not "
    "change";

/// A constant boolean, input `input` of the node if that is one; nullopt with a reason, and a way
/// out.
static std::optional<bool> truth(NodeContext &c, LegalValue &value, int64_t input = -1,
                                 StringRef way = "") {
  const Content *known = c.state.contentOf(value);
  auto constants = known ? known->constants() : std::nullopt;
  if (constants && constants->size() == 1)
    return (*constants)[0] != 0;
  if (constants) {
    (void)c.fail("its condition has " + Twine(constants->size()) + " elements: give it one");
    return std::nullopt;
  }
  (void)c.fail("its condition is not constant" + (input < 0 ? "" : c.inputHint(input)) + way);
  return std::nullopt;
}

static LogicalResult conditional(NodeContext &c) {
  std::optional<bool> condition = truth(c, c.in(0), 0);
  Region *region = condition ? subgraph(c, *condition ? "then_branch" : "else_branch") : nullptr;
  // The other branch is never looked at.
  Values results;
  if (!region || !walk(c, *region, {}, results))
    return failure();
  for (auto [i, value] : llvm::enumerate(results))
    (void)c.alias(*value, i);
  return success();
}

/// A known scalar for a body.
static LegalValue &scalar(NodeContext &c, Type element, int64_t value) {
  LegalValue &result = c.state.newValue(c.op.getLoc());
  result.element = element;
  result.content = makeScalar(element, {c.dim(value), 0});
  return result;
}

/// One result of every iteration, stacked along a new axis.
static LogicalResult stack(NodeContext &c, ArrayRef<LegalValue *> parts, int64_t axis,
                           bool backwards, int64_t output) {
  if (parts.empty())
    return c.fail("it has results of every iteration, but no iteration");
  SmallVector<Value> slices;
  for (LegalValue *part : parts) {
    if (part->isSequence || part->dims != parts[0]->dims)
      return c.fail("its iterations have results of different shapes");
    // Negative axes count from the result's rank.
    std::optional<int64_t> at = c.axis(axis, part->dims.size() + 1);
    if (!at)
      return failure();
    Dims dims = part->dims;
    dims.insert(dims.begin() + *at, c.dim(1));
    slices.push_back(c.tb.reshape(c.state.tensorOf(*part), dims));
    axis = *at;
  }
  // An axis in reverse holds the last iteration first.
  if (backwards)
    std::reverse(slices.begin(), slices.end());
  return c.set(c.tb.concat(slices, axis), output);
}

/// A few iterations are written out.
static bool isLoop(DimAttr steps) {
  return steps.getConstant().value_or(kUnrolled + 1) > kUnrolled;
}

static LegalValue &valueOf(NodeContext &c, Value tensor) {
  LegalValue &value = c.state.newValue(c.op.getLoc());
  value.tensor = tensor;
  value.dims = train::getDims(tensor);
  value.element = train::getElementType(tensor);
  return value;
}

/// The tensor that an iteration has added to the sequence that is carried with this number, from 0;
/// null with a reason.
static Value addedTo(NodeContext &c, LegalValue &sequence, size_t number) {
  if (sequence.grows == number + 1 && sequence.sequence.size() == 1)
    return c.state.tensorOf(*sequence.sequence[0]);
  (void)c.fail(
      "a sequence that its iterations carry has to get one tensor more in each of them, at "
      "its end: let them carry tensors, and stack what each makes as a result of the body");
  return {};
}

/// What an iteration leaves for the next one; null with a reason.
static Value carriedOn(NodeContext &c, LegalValue &next, Value before) {
  Value value = next.isSequence ? Value() : c.state.tensorOf(next);
  if (value && value.getType() == before.getType())
    return value;
  auto text = [](Value tensor) {
    std::string element;
    llvm::raw_string_ostream(element) << train::getElementType(tensor);
    return element + " " + train::dimsToString(train::getDims(tensor));
  };
  (void)c.fail("its iterations carry values of different types or shapes: one is " + text(before) +
               " before and " + (value ? text(value) : "a sequence") +
               " behind an iteration; what grows can be a result of the body, which is stacked, or "
               "a sequence that it adds to");
  return {};
}

/// A loop of the body. It gets `arguments`, and gives `conditions` conditions, then what is carried
/// and stacked. `sequences`: the numbers of what is carried that are sequences: what each iteration
/// adds to them is stacked, in front of all else. Null with a reason.
static train::LoopOp repeat(NodeContext &c, Region &body, const train::LoopInputs &inputs,
                            size_t conditions, ArrayRef<size_t> sequences,
                            llvm::function_ref<Values(train::LoopStep &)> arguments) {
  bool done = false;
  auto drawn = [&] {
    unsigned sum = 0;
    for (auto &name : c.state.draws)
      sum += name.second;
    return sum;
  };
  const unsigned draws = drawn();
  train::LoopOp made = train::buildLoop(c.tb, inputs, [&](train::LoopStep &step) {
    Values results;
    done = walk(c, body, arguments(step), results);
    for (size_t i = 0; done && i < conditions; ++i)
      done = truth(c, *results[i]).value_or(false);
    for (size_t i = conditions; done && i < results.size(); ++i) {
      const size_t number = i - conditions;
      Value value;
      if (llvm::is_contained(sequences, number))
        step.stacked.push_back(value = addedTo(c, *results[i], number));
      else if (size_t at = step.next.size(); at < step.carried.size())
        step.next.push_back(value = carriedOn(c, *results[i], step.carried[at]));
      else if (results[i]->isSequence)
        (void)c.fail("a result of its body that is stacked is a sequence: let it be a tensor");
      else
        step.stacked.push_back(value = c.state.tensorOf(*results[i]));
      done = bool(value);
    }
    // What was begun is thrown away.
    if (!done)
      step.next = step.carried, step.stacked.clear();
  });
  if (done && draws != drawn()) {
    (void)c.fail("its body draws random numbers, which would be the same in each iteration");
    done = false;
  }
  if (done)
    return made;
  made.erase();
  return {};
}

/// The tensors of a sequence along a new first axis, and behind them what a loop has `stacked`,
/// which is of the same shape; null with a reason.
static Value joinBehind(NodeContext &c, LegalValue &before, Value stacked) {
  SmallVector<Value> parts;
  if (before.stacked)
    parts.push_back(before.stacked);
  for (LegalValue *part : before.sequence) {
    Dims dims = part->dims;
    dims.insert(dims.begin(), c.dim(1));
    parts.push_back(c.tb.reshape(c.state.tensorOf(*part), dims));
  }
  for (Value part : parts)
    if (train::getSliceType(part.getType()) != train::getSliceType(stacked.getType())) {
      (void)c.fail("the sequence that its iterations add to has tensors of another type or shape "
                   "before the first one: join these to what the loop adds");
      return {};
    }
  parts.push_back(stacked);
  return parts.size() == 1 ? stacked : c.tb.concat(parts, 0);
}

/// Loop with as many iterations as a size says, whose condition stays true.
static LogicalResult loopOver(NodeContext &c, Region &body, DimAttr trips) {
  train::LoopInputs inputs;
  inputs.steps = trips;
  inputs.scanned = {c.tb.iota({trips}, c.tb.b().getI64Type(), 0)};
  const size_t carried = c.numInputs() - 2;
  SmallVector<size_t> sequences;
  for (size_t i = 0; i < carried; ++i) {
    if (!c.has(2 + i))
      return c.fail("its input " + Twine(2 + i) + " is missing");
    LegalValue &initial = c.in(2 + i);
    // A loop carries tensors of one size: of a list it stacks what each iteration adds.
    if (!initial.isSequence) {
      inputs.initial.push_back(c.tensor(2 + i));
    } else if (initial.grows) {
      return c.fail("its iterations add to a sequence that a loop around it adds to as well: give "
                    "each loop a sequence of its own");
    } else {
      sequences.push_back(i);
    }
  }
  train::LoopOp made = repeat(c, body, inputs, 1, sequences, [&](train::LoopStep &step) {
    Values arguments = {&valueOf(c, step.slices[0]), &scalar(c, c.tb.b().getI1Type(), 1)};
    size_t next = 0;
    for (size_t i = 0; i < carried; ++i) {
      if (llvm::is_contained(sequences, i)) {
        arguments.push_back(&c.state.newValue(c.op.getLoc()));
        arguments.back()->isSequence = true;
        arguments.back()->grows = i + 1;
      } else {
        arguments.push_back(&valueOf(c, step.carried[next++]));
      }
    }
    return arguments;
  });
  if (!made)
    return failure();
  auto tensors = made.getCarried().begin(), stacked = made.getStacked().begin();
  for (size_t i = 0; i < carried; ++i) {
    if (!llvm::is_contained(sequences, i)) {
      (void)c.set(*tensors++, i);
      continue;
    }
    LegalValue result(c.op.getLoc());
    result.isSequence = true;
    result.stacked = joinBehind(c, c.in(2 + i), *stacked++);
    if (!result.stacked)
      return failure();
    (void)c.alias(result, i);
  }
  for (int64_t i = carried; stacked != made.getStacked().end(); ++i)
    (void)c.set(*stacked++, i);
  return success();
}

static LogicalResult loop(NodeContext &c) {
  Region *body = subgraph(c, "body");
  if (!body)
    return failure();
  // The condition, what is carried, what is stacked: as many results as the node has, but for the
  // condition. Trailing ones may be left out.
  const int64_t made = int64_t(body->front().getTerminator()->getNumOperands()) - 1;
  if (made < c.numInputs() - 2 || made < c.numOutputs())
    return c.fail("its body has " + Twine(made + 1) + " results, which have to be a condition, " +
                  Twine(std::max<int64_t>(c.numInputs() - 2, 0)) +
                  " values that are carried on, and what is stacked for each of its other outputs");
  std::optional<bool> goes =
      c.has(1) ? truth(c, c.in(1), 1, kFixedLoop) : std::optional<bool>(true);
  if (!goes)
    return failure();
  // Loops without a condition of their own run as often as the trip count says.
  const Content *known = c.has(0) ? c.content(0) : nullptr;
  if (std::optional<Dims> count = known ? known->dims() : std::nullopt;
      *goes && count && count->size() == 1 && isLoop(count->front())) {
    for (const Selection &selection : c.state.selections)
      if (mentions(count->front(), selection.size))
        return c.fail("its trip count is the number of rows that " + selection.node + " selects" +
                      kFixedLoop);
    return loopOver(c, *body, count->front());
  }
  // Without a trip count: until the condition says no, or it has been too many.
  int64_t trips = kMaxIterations + 1;
  if (c.has(0) && *goes) {
    auto count = known ? known->constants() : std::nullopt;
    if (count && count->size() != 1)
      return c.fail("its trip count has " + Twine(count->size()) + " elements: give it one");
    if (!count)
      return c.fail("its trip count is not constant" + c.inputHint(0) + kFixedLoop);
    trips = std::min(trips, (*count)[0]);
  }
  Values carried;
  for (int64_t i = 2; i < c.numInputs(); ++i) {
    if (!c.has(i))
      return c.fail("its input " + Twine(i) + " is missing");
    carried.push_back(&c.in(i));
  }
  const int64_t scans = made - int64_t(carried.size());
  SmallVector<Values> scanned(scans);
  // Conditions are known at each iteration, so that it ends where it would at run time.
  for (int64_t trip = 0; *goes && trip < trips; ++trip) {
    if (trip == kMaxIterations)
      return c.fail("it has more than " + Twine(kMaxIterations) +
                    " iterations: give it a trip count, and no condition of its own");
    Values arguments = {&scalar(c, c.tb.b().getI64Type(), trip),
                        &scalar(c, c.tb.b().getI1Type(), 1)};
    arguments.append(carried);
    Values results;
    if (!walk(c, *body, arguments, results))
      return failure();
    assert(int64_t(results.size()) == 1 + int64_t(carried.size()) + scans && "counted above");
    goes = truth(c, *results[0], -1, kFixedLoop);
    if (!goes)
      return failure();
    // What the next iteration reads is what this one has left.
    carried.assign(results.begin() + 1, results.begin() + 1 + carried.size());
    for (int64_t i = 0; i < scans; ++i)
      scanned[i].push_back(results[1 + carried.size() + i]);
  }
  for (auto [i, value] : llvm::enumerate(carried))
    (void)c.alias(*value, i);
  for (int64_t i = 0; i < scans; ++i)
    if (failed(stack(c, scanned[i], 0, false, carried.size() + i)))
      return failure();
  return success();
}

/// Scan over axes of any size, all in one direction.
static LogicalResult scanOver(NodeContext &c, Region &body, DimAttr length, bool reverse,
                              ArrayRef<int64_t> axes, ArrayRef<int64_t> outputAxes) {
  const int64_t states = c.numInputs() - int64_t(axes.size());
  train::LoopInputs inputs;
  inputs.steps = length;
  inputs.reverse = reverse;
  for (int64_t i = 0; i < states; ++i)
    inputs.initial.push_back(c.tensor(i));
  // The axis of steps leads.
  for (auto [i, axis] : llvm::enumerate(axes)) {
    auto order = llvm::to_vector(llvm::seq<int64_t>(0, c.rank(states + i)));
    std::rotate(order.begin(), order.begin() + axis, order.begin() + axis + 1);
    inputs.scanned.push_back(axis ? c.tb.transpose(c.tensor(states + i), order)
                                  : c.tensor(states + i));
  }
  train::LoopOp made = repeat(c, body, inputs, 0, {}, [&](train::LoopStep &step) {
    Values arguments;
    for (Value value : llvm::concat<Value>(step.carried, step.slices))
      arguments.push_back(&valueOf(c, value));
    return arguments;
  });
  if (!made)
    return failure();
  for (auto [i, value] : llvm::enumerate(made.getCarried()))
    (void)c.set(value, i);
  for (auto [i, value] : llvm::enumerate(made.getStacked())) {
    std::optional<int64_t> axis = c.axis(outputAxes[i], train::getRank(value));
    if (!axis)
      return failure();
    auto order = llvm::to_vector(llvm::seq<int64_t>(0, train::getRank(value)));
    std::rotate(order.begin(), order.begin() + 1, order.begin() + *axis + 1);
    (void)c.set(*axis ? c.tb.transpose(value, order) : Value(value), states + i);
  }
  return success();
}

static LogicalResult scan(NodeContext &c) {
  Region *body = subgraph(c, "body");
  int64_t inputs = c.attr("num_scan_inputs", int64_t(0)), states = c.numInputs() - inputs;
  if (!body)
    return failure();
  // No condition here: what is carried, what is stacked.
  int64_t outputs = int64_t(body->front().getTerminator()->getNumOperands()) - states;
  if (inputs < 1 || states < 0 || outputs < 0 || c.numOutputs() > states + outputs)
    return c.fail("its numbers of inputs and results do not fit its body, which makes " +
                  Twine(body->front().getTerminator()->getNumOperands()) + ": with " +
                  Twine(inputs) + " scanned ones of its " + Twine(c.numInputs()) +
                  " inputs the others are carried on");
  for (int64_t i = 0; i < c.numInputs(); ++i)
    if (!c.has(i))
      return c.fail("its input " + Twine(i) + " is missing");
  // Absent lists mean 0 for all.
  std::string wrong;
  auto listed = [&](StringRef name, int64_t size) {
    auto given = c.ints(name).value_or(SmallVector<int64_t>(size, 0));
    if (int64_t(given.size()) != size)
      wrong =
          ("its " + name + " has " + Twine(given.size()) + " elements: give it one for each of " +
           Twine(size) + (name.contains("input") ? " scanned inputs" : " scanned results"))
              .str();
    return given;
  };
  SmallVector<int64_t> axes = listed("scan_input_axes", inputs),
                       backwards = listed("scan_input_directions", inputs),
                       outputAxes = listed("scan_output_axes", outputs),
                       outputBackwards = listed("scan_output_directions", outputs);
  if (!wrong.empty())
    return c.fail(wrong);
  std::optional<int64_t> length;
  auto directions = llvm::to_vector(llvm::concat<int64_t>(backwards, outputBackwards));
  bool isOneLoop = llvm::all_equal(directions);
  for (int64_t i = 0; i < inputs; ++i) {
    std::optional<int64_t> axis = c.axis(axes[i], c.rank(states + i));
    if (!axis)
      return failure();
    axes[i] = *axis;
    DimAttr size = c.dims(states + i)[*axis], first = c.dims(states)[axes[0]];
    if (size != first)
      return c.fail("its scanned inputs have '" + first.str() + "' and '" + size.str() +
                    "' steps, which have to be the same number" + fixHint({first, size}));
    isOneLoop = isOneLoop && isLoop(size);
  }
  if (isOneLoop)
    return scanOver(c, *body, c.dims(states)[axes[0]], backwards[0] != 0, axes, outputAxes);
  for (int64_t i = 0; i < inputs; ++i) {
    DimAttr size = c.dims(states + i)[axes[i]];
    auto constant = size.getConstant();
    if (!constant || *constant > kMaxIterations)
      return c.fail("it runs over an axis of size '" + size.str() +
                    "' in both directions, which has to be static, at most " +
                    Twine(kMaxIterations) + fixHint({size}));
    length = constant;
  }
  Values carried;
  for (int64_t i = 0; i < states; ++i)
    carried.push_back(&c.in(i));
  SmallVector<Values> scanned(outputs);
  assert(length && "a scan has at least one input");
  for (int64_t trip = 0; trip < *length; ++trip) {
    Values arguments = carried;
    for (int64_t i = 0; i < inputs; ++i) {
      Dims dims = c.dims(states + i);
      // Inputs in reverse are read from their end.
      int64_t at = backwards[i] ? *length - 1 - trip : trip;
      Value part = c.tb.sliceAxis(c.tensor(states + i), axes[i], c.dim(at), c.dim(1));
      dims.erase(dims.begin() + axes[i]);
      LegalValue &argument = c.state.newValue(c.op.getLoc());
      argument.tensor = c.tb.reshape(part, dims);
      argument.dims = dims;
      argument.element = c.element(states + i);
      arguments.push_back(&argument);
    }
    Values results;
    if (!walk(c, *body, arguments, results))
      return failure();
    assert(int64_t(results.size()) == states + outputs && "counted above");
    carried.assign(results.begin(), results.begin() + states);
    for (int64_t i = 0; i < outputs; ++i)
      scanned[i].push_back(results[states + i]);
  }
  for (auto [i, value] : llvm::enumerate(carried))
    (void)c.alias(*value, i);
  for (int64_t i = 0; i < outputs; ++i)
    if (failed(stack(c, scanned[i], outputAxes[i], outputBackwards[i], states + i)))
      return failure();
  return success();
}

void registerControlFlow(HandlerTable &table) {
  table.add("If", conditional, 1, 1);
  table.add("Loop", loop, 0, 1);
  table.add("Scan", scan, 1, 9);
  // Of the operator's own operands; bodies are described by their nodes.
  table.describe({"If"}, HandlerTable::kBooleans);
  table.describe({"Loop"}, HandlerTable::kIntegers);
  table.describe({"Scan"}, HandlerTable::kAll);
}

} // namespace trainc::legalize
