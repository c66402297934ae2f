// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Access to a node's inputs, attributes and results, and ONNX's broadcasting.

#include "lib/Conversion/ONNXToTrain/Handlers.h"

#include "ExportHazards.h"

using namespace mlir;

namespace trainc::legalize {

/// One reason a node: the last one stays.
LogicalResult NodeContext::fail(const Twine &why) {
  reason = why.str();
  return failure();
}

/// Optional inputs in the middle are of type none.
bool NodeContext::has(int64_t input) {
  return input < numInputs() && !isa<NoneType>(op.getInputs()[input].getType());
}

/// Asked before anything is built: a handler that fails leaves at most dead ops.
bool NodeContext::needFloat(int64_t input) {
  if (isa<FloatType>(element(input)))
    return true;
  (void)fail("its input " + Twine(input) + " is not a float tensor");
  return false;
}

/// Not booleans, which are i1.
bool NodeContext::needInteger(int64_t input) {
  if (isa<IntegerType>(element(input)) && !element(input).isInteger(1))
    return true;
  (void)fail("its input " + Twine(input) + " is not an integer tensor");
  return false;
}

/// For sizes that a node makes: inputs were checked when they came.
bool NodeContext::needSizes(ArrayRef<DimAttr> dims) {
  for (DimAttr size : dims) {
    // A product of sizes is far from overflow below this.
    constexpr int64_t most = int64_t(1) << 40;
    std::optional<int64_t> constant = size.getConstant();
    if (constant && (*constant < 0 || *constant > most)) {
      // A constant is as it is.
      (void)fail("the size " + Twine(*constant) + " is out of range");
      return false;
    }
    // Factors of symbols count as constants do.
    for (int64_t factor : size.getCoefficients())
      if (factor < -most || factor > most) {
        (void)fail("the size '" + size.str() + "' is out of range");
        return false;
      }
    // Where a size would be negative the graph has no meaning: such inputs are refused.
    // Becomes a check on the sizes of a batch.
    if (!constant && !state.bounds.atMost(dim(0), size))
      (void)state.bounds.demandAtMost(dim(0) - size, 0);
  }
  return true;
}

/// All elements as sizes, known or symbolic.
std::optional<Dims> NodeContext::sizes(int64_t input, StringRef what) {
  const Content *known = content(input);
  std::optional<Dims> result = known ? known->dims() : std::nullopt;
  if (!result)
    (void)fail("its " + what + " depends on data; it has to be known while compiling" +
               inputHint(input));
  return result;
}

/// All elements as numbers.
std::optional<SmallVector<int64_t>> NodeContext::constants(int64_t input, StringRef what) {
  const Content *known = content(input);
  auto result = known ? known->constants() : std::nullopt;
  if (!result)
    (void)fail("its " + what + " is not constant" + inputHint(input));
  return result;
}

/// Newer opsets made inputs of attributes.
std::optional<Dims> NodeContext::sizeList(int64_t input, StringRef name) {
  if (has(input))
    return sizes(input, name);
  auto values = ints(name);
  if (!values) {
    (void)fail("its " + name + " are missing");
    return std::nullopt;
  }
  Dims result;
  for (int64_t value : *values)
    result.push_back(dim(value));
  return result;
}

std::optional<SmallVector<int64_t>> NodeContext::list(int64_t input, StringRef name) {
  if (has(input))
    return constants(input, name);
  auto values = ints(name);
  if (!values)
    (void)fail("its " + name + " are missing");
  return values;
}

std::optional<double> NodeContext::realConstant(int64_t input, StringRef what) {
  const Content *known = content(input);
  // Of any rank, with one element.
  if (known && known->values.size() == 1) {
    if (known->isReal())
      return known->values[0].real;
    if (auto constant = known->values[0].dim.getConstant())
      return double(*constant);
  }
  (void)fail("its " + what + " is not a constant scalar" + inputHint(input));
  return std::nullopt;
}

/// Only if everything is known; the op's name says what is computed.
bool NodeContext::evaluate(Type resultElement) {
  SmallVector<const Content *> operands;
  for (int64_t i = 0; i < numInputs(); ++i) {
    const Content *known = content(i);
    if (!known)
      return false;
    operands.push_back(known);
  }
  std::optional<Content> result =
      legalize::evaluate(op.getOpType(), operands, resultElement, state.bounds);
  if (result)
    (void)set(std::move(*result));
  return result.has_value();
}

Attribute NodeContext::rawAttr(StringRef name) { return op.getNodeAttributes().get(name); }

/// A wrong type counts as absent, and makes the node fail when its handler is done.
template <typename AttrT> static AttrT typedAttr(NodeContext &c, StringRef name, StringRef kind) {
  Attribute raw = c.rawAttr(name);
  auto value = dyn_cast_or_null<AttrT>(raw);
  if (raw && !value)
    c.wrongAttribute = ("its attribute '" + name + "' is not " + kind).str();
  return value;
}

int64_t NodeContext::attr(StringRef name, int64_t otherwise) {
  auto value = typedAttr<IntegerAttr>(*this, name, "an integer");
  return value ? value.getInt() : otherwise;
}

double NodeContext::attr(StringRef name, double otherwise) {
  auto value = typedAttr<FloatAttr>(*this, name, "a float");
  return value ? value.getValueAsDouble() : otherwise;
}

StringRef NodeContext::attr(StringRef name, StringRef otherwise) {
  auto value = typedAttr<StringAttr>(*this, name, "a string");
  return value ? value.getValue() : otherwise;
}

/// Absent is different from empty.
std::optional<SmallVector<int64_t>> NodeContext::ints(StringRef name) {
  auto value = typedAttr<DenseI64ArrayAttr>(*this, name, "a list of integers");
  if (!value)
    return std::nullopt;
  return SmallVector<int64_t>(value.asArrayRef());
}

Type NodeContext::elementType(int64_t dataType) {
  // ONNX's TensorProto.DataType.
  Builder b(context());
  switch (dataType) {
  case 1:
    return b.getF32Type();
  // Twice as wide, so that arithmetic does not overflow before it is wrapped.
  case 2: // unsigned types: the signed ones that stand for them
    return b.getI16Type();
  case 4:
    return b.getI32Type();
  case 12:
    return b.getI64Type();
  case 3:
    return b.getI8Type();
  case 5:
    return b.getI16Type();
  case 6:
    return b.getI32Type();
  case 7:
    return b.getI64Type();
  case 9:
    return b.getI1Type();
  case 10:
    return b.getF16Type();
  case 11:
    return b.getF64Type();
  case 16:
    return b.getBF16Type();
  default:
    // Strings, complex numbers, 8-bit floats, 64-bit unsigned ones.
    return {};
  }
}

unsigned NodeContext::unsignedBits(int64_t dataType) {
  return dataType == 2 ? 8 : dataType == 4 ? 16 : dataType == 12 ? 32 : 0;
}

void NodeContext::wrap(LegalValue &result, unsigned bits) {
  // Every part of a sequence.
  for (LegalValue *part : result.sequence)
    wrap(*part, bits);
  // Wrapped already, by the node that it is an alias of.
  if (result.isSequence || result.unsignedBits == bits)
    return;
  result.unsignedBits = bits;
  assert(bits > 0 && bits <= 32 && "wider ones have no carrier");
  int64_t largest = (int64_t(1) << bits) - 1;
  // A constant may be small enough to be wrapped now.
  if (result.constant && !result.content && !result.tensor)
    (void)state.contentOf(result);
  // Numbers modulo 2 ^ bits.
  if (result.content && result.content->constants()) {
    for (Scalar &value : result.content->values)
      value.dim = dim(*value.dim.getConstant() & largest);
    result.constant = {};
    result.tensor = {};
    return;
  }
  Value x = state.tensorOf(result);
  // What was known of it is the carrier's, not modulo.
  result.content.reset();
  result.constant = {};
  // In the carrier: its upper bits are cleared.
  result.tensor = tb.logicalAnd(x, tb.scalarLike(x, double(largest)));
}

/// Negative ones count from the end.
std::optional<int64_t> NodeContext::axis(int64_t value, int64_t rank) {
  if (value < -rank || value >= rank) {
    (void)fail("its axis " + Twine(value) + " is outside of a tensor of rank " + Twine(rank));
    return std::nullopt;
  }
  return value < 0 ? value + rank : value;
}

/// No axis twice.
std::optional<Axes> NodeContext::axes(ArrayRef<int64_t> values, int64_t rank) {
  Axes result;
  for (int64_t value : values) {
    std::optional<int64_t> one = axis(value, rank);
    if (!one)
      return std::nullopt;
    if (llvm::is_contained(result, *one)) {
      (void)fail("it names the axis " + Twine(value) + " twice");
      return std::nullopt;
    }
    result.push_back(*one);
  }
  return result;
}

/// Outputs that nobody reads need not be made.
bool NodeContext::used(int64_t output) {
  return output < numOutputs() && !op.getOutputs()[output].use_empty();
}

/// A handler may set results that a node does not have.
LogicalResult NodeContext::set(Value tensor, int64_t output) {
  if (output >= numOutputs())
    return success();
  if (!tensor || !isa<RankedTensorType>(tensor.getType()) || !train::hasNamedDims(tensor.getType()))
    return fail("its handler has given a result that is no tensor with constant or named sizes");
  LegalValue &value = state.valueOf(op.getOutputs()[output]);
  value.dims = train::getDims(tensor);
  value.element = train::getElementType(tensor);
  value.tensor = tensor;
  return success();
}

/// Known values: a tensor is made of them when one is asked for.
LogicalResult NodeContext::set(Content content, int64_t output) {
  if (output >= numOutputs())
    return success();
  LegalValue &value = state.valueOf(op.getOutputs()[output]);
  value.dims.clear();
  for (int64_t size : content.shape)
    value.dims.push_back(dim(size));
  value.element = content.element;
  value.content = std::move(content);
  return success();
}

LogicalResult NodeContext::alias(LegalValue &other, int64_t output) {
  if (output >= numOutputs())
    return success();
  // Emitted first, so that both names share one tensor.
  // Both names lead to one value from here on.
  if (!other.isSequence && !state.contentOf(other))
    state.tensorOf(other);
  // All but the place in the file, which messages name.
  LegalValue &value = state.valueOf(op.getOutputs()[output]);
  Location loc = value.loc;
  value = other;
  value.loc = loc;
  return success();
}

/// From the last axis on, sizes 1 grow. Fails unless sizes are known to be equal.
std::optional<Dims> NodeContext::broadcastDims(ArrayRef<Dims> shapes) {
  Dims result;
  for (const Dims &shape : shapes) {
    if (shape.size() > result.size())
      result.insert(result.begin(), shape.size() - result.size(), dim(1));
    for (size_t i = 0; i < shape.size(); ++i) {
      // Counted from the end.
      DimAttr &have = result[result.size() - 1 - i];
      DimAttr own = shape[shape.size() - 1 - i];
      // Fits as it is.
      if (have == own || own.isConstant(1))
        continue;
      if (have.isConstant(1)) {
        have = own;
        continue;
      }
      // min(seq, 512) against seq: equal once seq is bounded.
      DimAttr smaller = state.bounds.min(have, own);
      // Equal is a difference of exactly 0.
      if (smaller == have || smaller == own) {
        Interval gap = state.bounds.interval(have - own);
        if (gap.low && gap.high && *gap.low == 0 && *gap.high == 0)
          continue;
      }
      (void)failUnequal(*this, have, own,
                        "sizes '" + have.str() + "' and '" + own.str() + "' have to be equal");
      return std::nullopt;
    }
  }
  return result;
}

/// `dims` are a result of broadcastDims that x took part in.
Value NodeContext::broadcastTo(Value x, ArrayRef<DimAttr> dims) {
  Dims own = train::getDims(x);
  if (own == Dims(dims))
    return x;
  // A constant is made as large as needed: nothing is read.
  if (auto full = x.getDefiningOp<train::FullOp>())
    return train::FullOp::create(
        tb.b(), tb.loc(), train::getTensorType(dims, train::getElementType(x)), full.getValue());
  // Axes of size 1 that grow are dropped first: broadcast only adds axes.
  Dims kept;
  SmallVector<int64_t> axes;
  assert(own.size() <= dims.size() && "broadcasting adds axes");
  int64_t offset = dims.size() - own.size();
  // Not equal means that the axis is 1 here and grows.
  for (auto [i, size] : llvm::enumerate(own))
    if (size == dims[i + offset]) {
      kept.push_back(size);
      axes.push_back(i + offset);
    }
  if (kept.size() != own.size())
    x = tb.reshape(x, kept);
  // Only names of sizes differed.
  if (kept.size() == dims.size())
    return x;
  return tb.broadcast(x, dims, axes);
}

} // namespace trainc::legalize
