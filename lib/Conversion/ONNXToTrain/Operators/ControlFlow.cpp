// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// If, Loop and Scan whose course is known while compiling: the branch that is taken, the body once
// an iteration. What depends on data is refused.

#include "lib/Conversion/ONNXToTrain/NodeContext.h"
#include "lib/Conversion/ONNXToTrain/Sizes/SizeHints.h"

using namespace mlir;
using trainc::train::TrainBuilder;

namespace trainc::legalize {

/// More copies of a body are no model that anybody unrolled on purpose.
/// A limit against files that are wrong.
static constexpr int64_t kMaxIterations = 4096;

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

/// A constant boolean, input `input` of the node if that is one; nullopt with a reason.
static std::optional<bool> truth(NodeContext &c, LegalValue &value, int64_t input = -1) {
  const Content *known = c.state.contentOf(value);
  auto constants = known ? known->constants() : std::nullopt;
  if (constants && constants->size() == 1)
    return (*constants)[0] != 0;
  (void)c.fail("its condition is not constant" + (input < 0 ? "" : c.inputHint(input)));
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

static LogicalResult loop(NodeContext &c) {
  Region *body = subgraph(c, "body");
  if (!body)
    return failure();
  // Without a trip count: until the condition says no, or it has been too many.
  int64_t trips = kMaxIterations + 1;
  if (c.has(0)) {
    auto count = c.constants(0, "trip count");
    if (!count || count->size() != 1)
      return failure();
    trips = std::min(trips, (*count)[0]);
  }
  std::optional<bool> goes = c.has(1) ? truth(c, c.in(1), 1) : std::optional<bool>(true);
  if (!goes)
    return failure();
  Values carried;
  for (int64_t i = 2; i < c.numInputs(); ++i) {
    if (!c.has(i))
      return c.fail("its input " + Twine(i) + " is missing");
    carried.push_back(&c.in(i));
  }
  // Results of the body: the condition, what is carried, what is stacked.
  int64_t scans = int64_t(body->front().getTerminator()->getNumOperands()) - 1 - carried.size();
  if (scans < 0)
    return c.fail("its body has too few results");
  SmallVector<Values> scanned(scans);
  // Conditions are known at each iteration, so that it ends where it would at run time.
  for (int64_t trip = 0; *goes && trip < trips; ++trip) {
    if (trip == kMaxIterations)
      return c.fail("it has more than " + Twine(kMaxIterations) + " iterations");
    Values arguments = {&scalar(c, c.tb.b().getI64Type(), trip),
                        &scalar(c, c.tb.b().getI1Type(), 1)};
    arguments.append(carried);
    Values results;
    if (!walk(c, *body, arguments, results))
      return failure();
    assert(int64_t(results.size()) == 1 + int64_t(carried.size()) + scans && "counted above");
    goes = truth(c, *results[0]);
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

static LogicalResult scan(NodeContext &c) {
  Region *body = subgraph(c, "body");
  int64_t inputs = c.attr("num_scan_inputs", int64_t(0)), states = c.numInputs() - inputs;
  if (!body)
    return failure();
  // No condition here: what is carried, what is stacked.
  int64_t outputs = int64_t(body->front().getTerminator()->getNumOperands()) - states;
  if (inputs < 1 || states < 0 || outputs < 0)
    return c.fail("its numbers of inputs and results do not fit its body");
  for (int64_t i = 0; i < c.numInputs(); ++i)
    if (!c.has(i))
      return c.fail("its input " + Twine(i) + " is missing");
  // Absent lists mean 0 for all.
  auto listed = [&](StringRef name, int64_t size) {
    auto given = c.ints(name);
    return given && int64_t(given->size()) == size ? *given : SmallVector<int64_t>(size, 0);
  };
  SmallVector<int64_t> axes = listed("scan_input_axes", inputs),
                       backwards = listed("scan_input_directions", inputs),
                       outputAxes = listed("scan_output_axes", outputs),
                       outputBackwards = listed("scan_output_directions", outputs);
  std::optional<int64_t> length;
  for (int64_t i = 0; i < inputs; ++i) {
    std::optional<int64_t> axis = c.axis(axes[i], c.rank(states + i));
    if (!axis)
      return failure();
    axes[i] = *axis;
    DimAttr size = c.dims(states + i)[*axis];
    auto constant = size.getConstant();
    // The length is that of the axes, so all must agree.
    if (!constant || *constant > kMaxIterations || (length && *length != *constant))
      return c.fail("it runs over an axis of size '" + size.str() +
                    "', which has to be static, at most " + Twine(kMaxIterations) +
                    ", and the same for all its inputs" + fixHint({size}));
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
