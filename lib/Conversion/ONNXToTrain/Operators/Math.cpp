// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elementwise operators of several operands: arithmetic, comparisons, logic, Clip, Cast and Where.
// Known small operands are evaluated; everything else is broadcast explicitly and becomes pointwise
// ops.

#include "MaskAdd.h"
#include "lib/Conversion/ONNXToTrain/Handlers.h"
#include "lib/Conversion/ONNXToTrain/Positions.h"

#include "llvm/ADT/StringSwitch.h"
#include <cmath>

using namespace mlir;
using trainc::train::TrainBuilder;

namespace trainc::legalize {

/// All inputs, broadcast to their common shape.
static std::optional<SmallVector<Value>> broadcastInputs(NodeContext &c) {
  SmallVector<Dims> shapes;
  // Sizes differ by names, too: a reason is given then.
  for (int64_t i = 0; i < c.numInputs(); ++i)
    shapes.push_back(c.dims(i));
  std::optional<Dims> common = c.broadcastDims(shapes);
  if (!common)
    return std::nullopt;
  SmallVector<Value> values;
  for (int64_t i = 0; i < c.numInputs(); ++i)
    values.push_back(c.broadcastTo(c.tensor(i), *common));
  return values;
}

/// The number that fills a tensor, if one does.
static std::optional<double> fillOf(Value x) {
  // Only tensors that are no content: those were asked before.
  auto full = x ? x.getDefiningOp<train::FullOp>() : train::FullOp();
  if (!full)
    return std::nullopt;
  if (auto real = dyn_cast<FloatAttr>(full.getValue()))
    return real.getValueAsDouble();
  auto number = cast<IntegerAttr>(full.getValue());
  // Booleans are 0 and 1.
  return number.getType().isInteger(1) ? double(number.getValue().getZExtValue())
                                       : double(number.getInt());
}

/// True if every element of the input is known to be `number`.
static bool isAll(NodeContext &c, int64_t input, double number) {
  if (const Content *known = c.content(input))
    return llvm::all_of(known->values, [&](const Scalar &value) {
      return known->isReal() ? value.real == number : value.dim.isConstant(int64_t(number));
    });
  return fillOf(c.in(input).tensor) == number;
}

/// The other input is the result: x + 0, x * 1, x and true. False if shapes or types forbid it.
static bool isNeutral(NodeContext &c, StringRef name, int64_t input) {
  // x + 0 of reals is left alone: it makes 0 of -0.
  bool integer = isa<IntegerType>(c.element(input));
  bool right = input == 1;
  bool neutral = (name == "Add" && integer && isAll(c, input, 0)) ||
                 (name == "Sub" && right && isAll(c, input, 0)) ||
                 (name == "Mul" && isAll(c, input, 1)) ||
                 (name == "Div" && right && isAll(c, input, 1)) ||
                 (name == "And" && isAll(c, input, 1)) || (name == "Or" && isAll(c, input, 0));
  return neutral;
}

/// Positions are never negative: masks compare them with 0.
static std::optional<bool> comparePositions(NodeContext &c, StringRef name) {
  // An iota, or something that only rearranges one.
  if (isa<IntegerType>(c.element(0)) && c.in(0).tensor && isAll(c, 1, 0) &&
      positionAxis(c.in(0).tensor)) {
    if (name == "GreaterOrEqual")
      return true;
    if (name == "Less")
      return false;
  }
  return std::nullopt;
}

/// f(transpose(x), number) is transpose(f(x, number)): the transpose stays next to the matmul that
/// reads it for free.
static Value throughTranspose(TrainBuilder &tb, StringRef name, Value x, Value y) {
  // The other way round changes nothing.
  auto transpose = x.getDefiningOp<train::TransposeOp>();
  std::optional<double> number = fillOf(y);
  // Products and quotients by one number have no order.
  if (!transpose || !number || (name != "Mul" && name != "Div"))
    return {};
  Value inner = transpose.getOperand(), factor = tb.scalarLike(inner, *number);
  inner = name == "Mul" ? tb.mul(inner, factor) : tb.div(inner, factor);
  return tb.transpose(inner, transpose.getPermutation());
}

//===- Binary and variadic ------------------------------------------------===//

/// x ^ y as PyTorch computes it: small constant exponents are products.
static Value power(NodeContext &c, Value x, Value y) {
  TrainBuilder &tb = c.tb;
  const Content *exponent = c.content(1);
  // An exponent that is one number; of tensors each element would need another form.
  if (exponent && exponent->values.size() == 1 && isa<FloatType>(c.element(0))) {
    const Scalar &scalar = exponent->values[0];
    std::optional<int64_t> number = exponent->isReal() ? std::nullopt : scalar.dim.getConstant();
    // NaN is none of those below.
    double value = number ? double(*number) : exponent->isReal() ? scalar.real : NAN;
    if (value == 1)
      return x;
    if (value == 2)
      return tb.mul(x, x);
    if (value == 3)
      return tb.mul(tb.mul(x, x), x);
    if (value == 0.5)
      return tb.sqrt(x);
    if (value == -1)
      return tb.reciprocal(x);
    if (value == -0.5)
      return tb.reciprocal(tb.sqrt(x));
    if (value == -2)
      return tb.reciprocal(tb.mul(x, x));
  }
  // An integer to a real power is computed in reals; a real to an integer power too.
  Type real = train::getElementType(y);
  if (isa<IntegerType>(c.element(0)) && isa<FloatType>(real))
    return tb.cast(tb.pow(tb.cast(x, real), y), x.getType());
  return tb.pow(x, tb.cast(y, x.getType()));
}

/// x mod y with the sign of y, or as C's fmod with that of x.
static Value modulo(NodeContext &c, Value x, Value y) {
  assert(x.getType() == y.getType() && "broadcast");
  TrainBuilder &tb = c.tb;
  auto floorMod = [&](Value a, Value b) -> Value {
    return train::ModOp::create(tb.b(), tb.loc(), a.getType(), a, b);
  };
  // The dialect's own.
  if (!c.attr("fmod", int64_t(0)))
    return floorMod(x, y);
  if (isa<IntegerType>(c.element(0))) // division truncates
    return tb.sub(x, tb.mul(tb.div(x, y), y));
  // By sizes, then the sign of x.
  Value rest = floorMod(tb.abs(x), tb.abs(y));
  return tb.select(tb.compare("lt", x, tb.scalarLike(x, 0)), tb.neg(rest), rest);
}

/// Scores that a boolean mask hides: minus infinity, and the softmax behind is a guarded one.
static LogicalResult hide(NodeContext &c) {
  constexpr StringRef text =
      "a boolean mask is added to numbers that a softmax reads, which ONNX does not have: it is "
      "read as -inf where it is false, as PyTorch's exporter means it at opset 23 for attention "
      "with dropout";
  // Once for a whole model.
  if (llvm::none_of(c.state.warnings, [&](const auto &known) { return known.second == text; }))
    c.state.warnings.emplace_back(c.op.getLoc(), text.str());
  std::optional<SmallVector<Value>> inputs = broadcastInputs(c);
  if (!inputs)
    return failure();
  Value scores = (*inputs)[0];
  // A softmax behind it is made guarded by its own handler.
  return c.set(c.tb.select((*inputs)[1], scores, c.tb.scalarLike(scores, -INFINITY)));
}

static LogicalResult binary(NodeContext &c) {
  StringRef name = c.op.getOpType();
  bool comparison = llvm::StringSwitch<bool>(name)
                        .Cases({"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"}, true)
                        .Default(false);
  Type resultElement = comparison ? Type(c.tb.b().getI1Type()) : c.element(0);
  // Before types are compared: they differ here.
  if (addsMask(c.op, c.state))
    return hide(c);
  // An exponent may be of another type than the base.
  if (name != "Pow")
    for (int64_t i = 1; i < c.numInputs(); ++i)
      if (c.element(i) != c.element(0))
        return c.fail("its inputs have different element types");
  bool boolean = c.element(0).isInteger(1);
  bool logical = name == "And" || name == "Or" || name == "Xor";
  if (name.starts_with("Bitwise") && !c.needInteger(0))
    return failure();
  // Booleans have logic and, as ONNX has it, extremes and comparisons; nothing else.
  if (logical != boolean && (logical || (!comparison && name != "Max" && name != "Min")))
    return c.fail(logical ? "its inputs are not boolean" : "it is not supported on booleans");
  // Constants and sizes are computed now.
  if (name != "Pow" || c.element(0) == c.element(1))
    if (c.evaluate(resultElement))
      return success();
  // Either operand may be the neutral one; the result has the shape of both.
  if (c.numInputs() == 2)
    for (int64_t input : {1, 0})
      if (isNeutral(c, name, input)) {
        std::optional<Dims> common = c.broadcastDims({c.dims(0), c.dims(1)});
        if (!common)
          return failure();
        // Nothing grows, so that both names mean one tensor.
        if (*common == c.dims(1 - input))
          return c.alias(c.in(1 - input));
        return c.set(c.broadcastTo(c.tensor(1 - input), *common));
      }
  if (std::optional<bool> truth = comparison ? comparePositions(c, name) : std::nullopt) {
    std::optional<Dims> common = c.broadcastDims({c.dims(0), c.dims(1)});
    if (!common)
      return failure();
    return c.set(c.tb.full(*common, resultElement, *truth));
  }
  std::optional<SmallVector<Value>> inputs = broadcastInputs(c);
  if (!inputs)
    return failure();
  TrainBuilder &tb = c.tb;
  Value x = (*inputs)[0];
  // One operand of a variadic operator.
  if (inputs->size() == 1)
    return c.set(x);
  if (comparison) {
    StringRef predicate = llvm::StringSwitch<StringRef>(name)
                              .Case("Equal", "eq")
                              .Case("Less", "lt")
                              .Case("LessOrEqual", "le")
                              .Case("Greater", "gt")
                              .Default("ge");
    return c.set(tb.compare(predicate, x, (*inputs)[1]));
  }
  // Only where shapes are equal already, which broadcasting has made sure of.
  if (Value result = throughTranspose(tb, name, x, (*inputs)[1]))
    return c.set(result);
  // From the left, as ONNX Runtime does.
  for (Value y : ArrayRef<Value>(*inputs).drop_front()) {
    if (name == "Add" || name == "Sum" || name == "Mean")
      x = tb.add(x, y);
    else if (name == "Sub")
      x = tb.sub(x, y);
    else if (name == "Mul")
      x = tb.mul(x, y);
    else if (name == "Div")
      x = tb.div(x, y);
    else if (name == "Pow")
      x = power(c, x, y);
    else if (name == "Mod")
      x = modulo(c, x, y);
    else if (name == "And" || name == "BitwiseAnd" || (name == "Min" && boolean))
      x = tb.logicalAnd(x, y);
    else if (name == "Or" || name == "BitwiseOr" || (name == "Max" && boolean))
      x = tb.logicalOr(x, y);
    else if (name == "Xor" || name == "BitwiseXor")
      x = train::XorOp::create(tb.b(), tb.loc(), x.getType(), x, y);
    else if (name == "Max")
      x = tb.max(x, y);
    else if (name == "Min")
      x = tb.min(x, y);
    else if (name == "PRelu")
      // The slope is an operand.
      x = tb.select(tb.compare("gt", x, tb.scalarLike(x, 0)), x, tb.mul(x, y));
  }
  if (name == "Mean")
    x = tb.div(x, tb.scalarLike(x, double(inputs->size())));
  return c.set(x);
}

/// Clip passes the gradient where x is inside, ends included, as torch.clamp does.
static LogicalResult clip(NodeContext &c) {
  TrainBuilder &tb = c.tb;
  Value x = c.tensor(0);
  // Lower bound first: where they cross, the upper one wins, as in ONNX.
  if (c.op.getVersion() < 11) // bounds are attributes
    for (StringRef name : {"min", "max"})
      if (auto bound = dyn_cast_or_null<FloatAttr>(c.rawAttr(name))) {
        Value limit = tb.scalarLike(x, bound.getValueAsDouble());
        x = tb.select(tb.compare(name == "min" ? "lt" : "gt", x, limit), limit, x);
      }
  for (int64_t input : {1, 2}) {
    if (!c.has(input))
      continue;
    if (c.element(input) != c.element(0) || c.element(0).isInteger(1))
      return c.fail("its bounds have another element type");
    std::optional<Dims> common = c.broadcastDims({c.dims(0), c.dims(input)});
    // A bound does not make its input larger.
    if (!common || *common != c.dims(0))
      return c.fail("its bounds do not fit its input");
    Value bound = c.broadcastTo(c.tensor(input), *common);
    x = tb.select(tb.compare(input == 1 ? "lt" : "gt", x, bound), bound, x);
  }
  return c.set(x);
}

//===- Cast, Where --------------------------------------------------------===//

static LogicalResult castTo(NodeContext &c, Type element, unsigned unsignedBits) {
  // Types that are only stored have no arithmetic.
  for (Type type : {c.element(0), element})
    if (!type || !isComputed(type))
      return c.fail("it casts from or to an element type that is not supported (complex numbers "
                    "are what PyTorch's older exporter writes for attention in bfloat16: use the "
                    "dynamo one)");
  // The same type needs no op.
  if (c.element(0) == element && c.in(0).unsignedBits == unsignedBits)
    return c.alias(c.in(0));
  std::optional<Content> known;
  // Sizes stay known through casts.
  if (const Content *operand = c.content(0))
    known = castContent(*operand, element);
  Value x;
  if (known) {
    (void)c.set(std::move(*known));
  } else {
    x = c.tensor(0);
    // Reals beyond the signed type that stands for an unsigned one.
    // Into 64 bits first, then modulo.
    if (unsignedBits && isa<FloatType>(c.element(0)))
      x = c.tb.cast(x, c.tb.b().getI64Type());
    (void)c.set(c.tb.cast(x, element));
  }
  // The carrier holds more numbers than the unsigned type: the rest is cut off.
  if (unsignedBits)
    c.wrap(c.state.valueOf(c.op.getOutputs()[0]), unsignedBits);
  return success();
}

static LogicalResult cast(NodeContext &c) {
  int64_t to = c.attr("to", int64_t(0));
  return castTo(c, c.elementType(to), NodeContext::unsignedBits(to));
}

static LogicalResult castLike(NodeContext &c) {
  return castTo(c, c.element(1), c.in(1).unsignedBits);
}

/// x * 2 ^ y or x / 2 ^ y, of unsigned integers.
static LogicalResult bitShift(NodeContext &c) {
  StringRef direction = c.attr("direction", "");
  if (!c.in(0).unsignedBits || c.element(1) != c.element(0))
    return c.fail("it is supported only on unsigned integers");
  std::optional<SmallVector<Value>> inputs = broadcastInputs(c);
  if (!inputs)
    return failure();
  TrainBuilder &tb = c.tb;
  Type wide = tb.b().getI64Type();
  // In 64 bits, where the product's low bits are right.
  Value x = tb.cast((*inputs)[0], wide), y = tb.cast((*inputs)[1], wide);
  // Beyond the width of x every bit is gone.
  y = tb.min(y, tb.scalarLike(y, 62));
  Value power = tb.pow(tb.scalarLike(y, 2), y);
  return c.set(tb.cast(direction == "LEFT" ? tb.mul(x, power) : tb.div(x, power), c.element(0)));
}

/// Whether what has the dims `from` is broadcast to `to` without making that larger.
static bool broadcastsInto(ArrayRef<train::DimAttr> from, ArrayRef<train::DimAttr> to) {
  return from.size() <= to.size() &&
         llvm::all_of(llvm::zip_equal(from, to.take_back(from.size())), [](const auto &pair) {
           const auto &[one, other] = pair;
           return one == other || one.isConstant(1);
         });
}

static LogicalResult where(NodeContext &c) {
  // Both branches in one type.
  if (c.element(1) != c.element(2) || !c.element(0).isInteger(1))
    return c.fail("it needs a boolean condition and two inputs of one element type");
  if (c.evaluate(c.element(1)))
    return success();
  // Behind the evaluation, as that may take one branch though the other is unknown.
  TrainBuilder &tb = c.tb;
  // Exporters guard softmax against rows of -inf by Where(IsNaN(softmax), 0, softmax). One guarded
  // softmax has a backward without 0 * NaN.
  Value y = c.tensor(2);
  auto test = c.tensor(0).getDefiningOp<train::IsNanOp>();
  auto softmax = y.getDefiningOp<train::SoftmaxOp>();
  if (test && softmax && test.getOperand() == y && isAll(c, 1, 0) &&
      broadcastsInto(train::getDims(c.tensor(1)), train::getDims(y)))
    return c.set(train::SoftmaxOp::create(tb.b(), softmax.getLoc(), y.getType(),
                                          softmax.getOperand(), softmax.getAxisAttr(),
                                          tb.b().getUnitAttr()));
  std::optional<SmallVector<Value>> inputs = broadcastInputs(c);
  if (!inputs)
    return failure();
  return c.set(tb.select((*inputs)[0], (*inputs)[1], (*inputs)[2]));
}

void registerMath(HandlerTable &table) {
  for (StringRef name :
       {"Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Less", "Greater", "PRelu"})
    table.addExact(name, binary, 2, 7);
  for (StringRef name : {"LessOrEqual", "GreaterOrEqual"})
    table.addExact(name, binary, 2, 12);
  table.addExact("Mod", binary, 2, 10);
  for (StringRef name : {"BitwiseAnd", "BitwiseOr", "BitwiseXor"})
    table.addExact(name, binary, 2, 18);
  for (StringRef name : {"Max", "Min", "Sum", "Mean"})
    table.addVariadic(name, binary, 6);
  table.add("Clip", clip, 1, 6);
  table.entries["Clip"].settings = {1, 2};
  table.add("Cast", cast, 1, 6);
  table.add("CastLike", castLike, 2, 15);
  table.entries["Cast"].typedAs = table.entries["CastLike"].typedAs = -1;
  table.addExact("BitShift", bitShift, 2, 11);
  table.addExact("Where", where, 3, 9);
  table.entries["Where"].typedAs = 1;
  using Table = HandlerTable;
  table.describe({"Add", "Sub", "Mul", "Div", "Pow", "Mod", "Clip", "Sum", "Mean", "PRelu"},
                 Table::kNumbers);
  table.describe({"Max", "Min", "Cast", "CastLike"}, Table::kAll);
  table.describe({"Less", "LessOrEqual", "Greater", "GreaterOrEqual"}, Table::kNumbers, false);
  table.describe({"Equal"}, Table::kAll, false);
  table.describe({"And", "Or", "Xor"}, Table::kBooleans, false);
  table.describe({"Where"}, Table::kBooleans);
  table.describe({"BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift"}, Table::kIntegers, false);
}

} // namespace trainc::legalize
