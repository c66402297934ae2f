// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Split, and sequences with constant positions, which exporters write for torch.split and chunk. A
// sequence is a list of values while compiling; none is left in the result.

#include "lib/Conversion/ONNXToTrain/Handlers.h"
#include "lib/Conversion/ONNXToTrain/Sizes/SizeHints.h"

using namespace mlir;

namespace trainc::legalize {

/// Sizes of parts of `chunk` along an axis of static size, the last one smaller.
static Dims chunks(NodeContext &c, int64_t size, int64_t chunk) {
  Dims sizes;
  constexpr int64_t most = 4096; // parts; more is no model
  // A part has to have elements.
  if (chunk <= 0 || size / chunk > most)
    return sizes;
  for (int64_t at = 0; at < size; at += chunk)
    sizes.push_back(c.dim(std::min(chunk, size - at)));
  return sizes;
}

static LogicalResult split(NodeContext &c) {
  std::optional<int64_t> axis = c.axis(c.attr("axis", int64_t(0)), c.rank(0));
  if (!axis)
    return failure();
  DimAttr size = c.dims(0)[*axis];
  int64_t parts = c.attr("num_outputs", c.numOutputs());
  Dims sizes;
  // Sizes from an input or attribute; else equal parts, the last one smaller if needed.
  if (c.has(1) || c.ints("split")) {
    auto given = c.sizeList(1, "split");
    if (!given)
      return failure();
    sizes = *given;
  } else if (DimAttr part = parts > 0 ? train::divideExactly(size, c.dim(parts)) : DimAttr()) {
    sizes.assign(parts, part);
  } else if (auto constant = size.getConstant(); constant && parts > 0) {
    sizes = chunks(c, *constant, (*constant + parts - 1) / parts);
  }
  // Whatever they came from: they have to cover the axis.
  DimAttr sum = c.dim(0);
  for (DimAttr part : sizes)
    sum = sum + part;
  if (!c.needSizes(sizes))
    return failure();
  // Also as polynomials, for all sizes.
  if (int64_t(sizes.size()) != c.numOutputs() || sum != size)
    return c.fail("its parts do not add up to its axis of size '" + size.str() + "'");
  if (sizes.size() == 1)
    return c.alias(c.in(0));
  for (auto [i, part] : llvm::enumerate(c.tb.split(c.tensor(0), *axis, sizes)))
    if (failed(c.set(part, i)))
      return failure();
  return success();
}

static LogicalResult splitToSequence(NodeContext &c) {
  std::optional<int64_t> axis = c.axis(c.attr("axis", int64_t(0)), c.rank(0));
  if (!axis)
    return failure();
  DimAttr size = c.dims(0)[*axis];
  auto constant = size.getConstant();
  Dims sizes;
  bool drop = false;
  // Single elements, without the axis if the attribute says so.
  if (!c.has(1)) {
    if (!constant)
      return c.fail("it splits an axis of symbolic size '" + size.str() + "' into single elements" +
                    fixHint({size}));
    sizes = chunks(c, *constant, 1);
    drop = !c.attr("keepdims", int64_t(1));
  } else {
    auto given = c.sizes(1, "split");
    if (!given)
      return failure();
    // A scalar is the size of each part, a list is the sizes.
    if (c.rank(1) == 0) {
      auto chunk = (*given)[0].getConstant();
      if (!constant || !chunk || *chunk <= 0)
        return c.fail("it splits an axis of size '" + size.str() +
                      "' into an unknown number of parts" + fixHint({size}));
      sizes = chunks(c, *constant, *chunk);
    } else {
      sizes = *given;
    }
  }
  DimAttr sum = c.dim(0);
  for (DimAttr part : sizes)
    sum = sum + part;
  if (!c.needSizes(sizes))
    return failure();
  if (sizes.empty() || sum != size)
    return c.fail("its parts do not add up to its axis of size '" + size.str() + "'");
  LegalValue &result = c.state.valueOf(c.op.getOutputs()[0]);
  result.isSequence = true;
  // As tensors now: elements are values of the sequence.
  SmallVector<Value> parts;
  if (sizes.size() == 1)
    parts.push_back(c.tensor(0));
  else
    llvm::append_range(parts, c.tb.split(c.tensor(0), *axis, sizes));
  for (Value part : parts) {
    if (drop) {
      Dims dims = train::getDims(part);
      dims.erase(dims.begin() + *axis);
      part = c.tb.reshape(part, dims);
    }
    // Values of their own, not outputs of a node.
    LegalValue &element = c.state.newValue(c.op.getLoc());
    element.dims = train::getDims(part);
    element.element = train::getElementType(part);
    element.tensor = part;
    result.sequence.push_back(&element);
  }
  return success();
}

/// What reads a sequence that a loop of a size with a name adds to, from within its body.
static LogicalResult needWhole(NodeContext &c) {
  if (!c.in(0).grows)
    return success();
  return c.fail("a loop of a size that has a name adds to its sequence: within the body it can be "
                "added to at its end, and no more; read it behind the loop, or carry the tensor");
}

/// The tensor at a constant position of what a loop has stacked.
static LogicalResult stackedAt(NodeContext &c, Value stacked, int64_t position) {
  Dims dims = train::getDims(stacked);
  DimAttr at = position < 0 ? dims[0] + c.dim(position) : c.dim(position);
  // The loop makes so many iterations, or the run ends.
  (void)c.state.bounds.demandAtMost(c.dim(position < 0 ? -position : position + 1) - dims[0], 0);
  Value part = c.tb.sliceAxis(stacked, 0, at, c.dim(1));
  dims.erase(dims.begin());
  return c.set(c.tb.reshape(part, dims));
}

/// What a loop has stacked, along a new axis or joined along one of each tensor.
static LogicalResult joinStacked(NodeContext &c, Value stacked) {
  const int64_t rank = train::getRank(stacked);
  const bool stack = c.attr("new_axis", int64_t(0)) != 0;
  std::optional<int64_t> axis = c.axis(c.attr("axis", int64_t(0)), rank - !stack);
  if (!axis)
    return failure();
  auto order = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  std::rotate(order.begin(), order.begin() + 1, order.begin() + *axis + 1);
  Value moved = *axis ? c.tb.transpose(stacked, order) : stacked;
  if (stack)
    return c.set(moved);
  // Iterations are now in front of the axis, whose part each of them has made.
  Dims dims = train::getDims(moved);
  dims[*axis] = dims[*axis] * dims[*axis + 1];
  dims.erase(dims.begin() + *axis + 1);
  return c.set(c.tb.reshape(moved, dims));
}

static LogicalResult sequenceAt(NodeContext &c) {
  auto position = c.constants(1, "position");
  if (!position || position->size() != 1 || failed(needWhole(c)))
    return failure();
  LegalValue &sequence = c.in(0);
  if (sequence.stacked)
    return stackedAt(c, sequence.stacked, (*position)[0]);
  int64_t at = (*position)[0], size = sequence.sequence.size();
  // Negative positions count from the end.
  at = at < 0 ? at + size : at;
  if (!sequence.isSequence || at < 0 || at >= size)
    return c.fail("its position is outside of the sequence");
  return c.alias(*sequence.sequence[at]);
}

static LogicalResult sequenceConstruct(NodeContext &c) {
  LegalValue &result = c.state.valueOf(c.op.getOutputs()[0]);
  result.isSequence = true;
  for (int64_t i = 0; i < c.numInputs(); ++i)
    result.sequence.push_back(&c.in(i));
  return success();
}

static LogicalResult sequenceEmpty(NodeContext &c) {
  c.state.valueOf(c.op.getOutputs()[0]).isSequence = true;
  return success();
}

/// SequenceInsert and SequenceErase: the sequence with a tensor more, or less, at a position; at
/// its end where none is given.
static LogicalResult changeSequence(NodeContext &c) {
  const bool inserts = c.op.getOpType() == "SequenceInsert";
  const int64_t input = inserts ? 2 : 1;
  if (c.in(0).stacked)
    return c.fail("its sequence is what a loop of a size that has a name has made: join it with "
                  "ConcatFromSequence, and add to the tensor");
  if ((!inserts || c.has(2)) && failed(needWhole(c)))
    return failure();
  // A copy: the old sequence stays what it is.
  SmallVector<LegalValue *> elements = c.in(0).sequence;
  int64_t size = elements.size(), at = inserts ? size : size - 1;
  if (c.has(input)) {
    auto position = c.constants(input, "position");
    if (!position || position->size() != 1)
      return failure();
    at = (*position)[0] < 0 ? (*position)[0] + size : (*position)[0];
  }
  // An insertion may be at the end.
  if (at < 0 || at > (inserts ? size : size - 1))
    return c.fail("its position is outside of the sequence");
  if (inserts)
    elements.insert(elements.begin() + at, &c.in(1));
  else
    elements.erase(elements.begin() + at);
  LegalValue &result = c.state.valueOf(c.op.getOutputs()[0]);
  result.isSequence = true;
  result.grows = c.in(0).grows;
  result.sequence = std::move(elements);
  return success();
}

static LogicalResult sequenceLength(NodeContext &c) {
  if (failed(needWhole(c)))
    return failure();
  // Known: sequences exist while compiling only.
  DimAttr size =
      c.in(0).stacked ? train::getDim(c.in(0).stacked, 0) : c.dim(int64_t(c.in(0).sequence.size()));
  return c.set(makeScalar(c.tb.b().getI64Type(), {size, 0}));
}

static LogicalResult concatFromSequence(NodeContext &c) {
  LegalValue &sequence = c.in(0);
  if (failed(needWhole(c)))
    return failure();
  if (sequence.stacked)
    return joinStacked(c, sequence.stacked);
  if (sequence.sequence.empty())
    return c.fail("its sequence is empty");
  bool stack = c.attr("new_axis", int64_t(0)) != 0;
  int64_t rank = sequence.sequence[0]->dims.size();
  // A new axis may be behind the last one.
  std::optional<int64_t> axis = c.axis(c.attr("axis", int64_t(0)), rank + stack);
  if (!axis)
    return failure();
  SmallVector<Value> parts;
  for (LegalValue *element : sequence.sequence) {
    Value part = c.state.tensorOf(*element);
    Dims dims = train::getDims(part);
    // Along the joined axis sizes may differ.
    for (int64_t a = 0; a < rank; ++a)
      if (int64_t(dims.size()) != rank ||
          ((stack || a != *axis) && dims[a] != sequence.sequence[0]->dims[a]))
        return c.fail("the elements of its sequence have different shapes");
    if (stack) {
      dims.insert(dims.begin() + *axis, c.dim(1));
      part = c.tb.reshape(part, dims);
    }
    parts.push_back(part);
  }
  for (LegalValue *element : sequence.sequence)
    if (element->element != sequence.sequence[0]->element)
      return c.fail("the elements of its sequence have different element types");
  return c.set(c.tb.concat(parts, *axis));
}

/// A tensor is an optional that is there.
static LogicalResult optionalHasElement(NodeContext &c) {
  return c.set(makeScalar(c.tb.b().getI1Type(), {c.dim(c.has(0)), 0}));
}

/// There are no optionals that are not there.
static LogicalResult optionalGetElement(NodeContext &c) { return c.alias(c.in(0)); }

void registerSequence(HandlerTable &table) {
  table.add("Split", split, 1, 2);
  table.add("SplitToSequence", splitToSequence, 1, 11);
  table.addSequence("SequenceAt", sequenceAt, 2, 11);
  table.add("SequenceEmpty", sequenceEmpty, 0, 11);
  table.addSequence("SequenceInsert", changeSequence, 2, 11);
  table.addSequence("SequenceErase", changeSequence, 1, 11);
  table.addVariadic("SequenceConstruct", sequenceConstruct, 11);
  table.add("OptionalHasElement", optionalHasElement, 0, 18);
  table.add("OptionalGetElement", optionalGetElement, 1, 18);
  table.addSequence("SequenceLength", sequenceLength, 1, 11);
  table.addSequence("ConcatFromSequence", concatFromSequence, 1, 11);
  using Table = HandlerTable;
  table.describe({"Split", "SplitToSequence", "SequenceAt", "SequenceConstruct", "SequenceEmpty",
                  "SequenceInsert", "SequenceErase", "ConcatFromSequence", "OptionalGetElement"},
                 Table::kAll);
  table.describe({"SequenceLength", "OptionalHasElement"}, Table::kAll, false);
}

} // namespace trainc::legalize
