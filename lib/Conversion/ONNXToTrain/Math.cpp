// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elementwise operators: arithmetic, comparisons, logic, activations, Cast and Where. Known small
// operands are evaluated; everything else is broadcast explicitly and becomes pointwise ops.

#include "NodeContext.h"
#include "Positions.h"

#include "llvm/ADT/StringSwitch.h"
#include <cmath>

using namespace mlir;
using trainc::train::TrainBuilder;

namespace trainc::legalize {

/// Evaluates the node on known operands; false if they are not all known.
static bool tryEvaluate(NodeContext &c, Type resultElement) {
  SmallVector<const Content *> operands;
  for (int64_t i = 0; i < c.numInputs(); ++i) {
    const Content *known = c.content(i);
    if (!known)
      return false;
    operands.push_back(known);
  }
  std::optional<Content> result =
      evaluate(c.op.getOpType(), operands, resultElement, c.state.bounds);
  if (result)
    (void)c.set(std::move(*result));
  return result.has_value();
}

/// All inputs, broadcast to their common shape.
static std::optional<SmallVector<Value>> broadcastInputs(NodeContext &c) {
  SmallVector<Dims> shapes;
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
  auto full = x ? x.getDefiningOp<train::FullOp>() : train::FullOp();
  if (!full)
    return std::nullopt;
  if (auto real = dyn_cast<FloatAttr>(full.getValue()))
    return real.getValueAsDouble();
  auto number = cast<IntegerAttr>(full.getValue());
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
  if (isa<IntegerType>(c.element(0)) && c.in(0).tensor && isAll(c, 1, 0) &&
      positionAxis(c.in(0).tensor)) {
    if (name == "GreaterOrEqual")
      return true;
    if (name == "Less")
      return false;
  }
  return std::nullopt;
}

/// f(transpose(x), number) is transpose(f(x, number)): the transpose stays next to the product that
/// reads it for free.
static Value throughTranspose(TrainBuilder &tb, StringRef name, Value x, Value y) {
  auto transpose = x.getDefiningOp<train::TransposeOp>();
  std::optional<double> number = fillOf(y);
  if (!transpose || !number || (name != "Mul" && name != "Div"))
    return {};
  Value inner = transpose.getOperand(), factor = tb.scalarLike(inner, *number);
  inner = name == "Mul" ? tb.mul(inner, factor) : tb.div(inner, factor);
  return tb.transpose(inner, transpose.getPermutation());
}

//===- Unary --------------------------------------------------------------===//

static Value integerUnary(TrainBuilder &tb, StringRef name, Value x) {
  Value zero = tb.scalarLike(x, 0);
  if (name == "Neg")
    return tb.sub(zero, x);
  if (name == "Abs")
    return tb.max(x, tb.sub(zero, x));
  if (name == "Relu")
    return tb.max(x, zero);
  if (name == "Sign")
    return tb.sub(tb.cast(tb.compare("gt", x, zero), x.getType()),
                  tb.cast(tb.compare("lt", x, zero), x.getType()));
  return {};
}

/// log(1 + e^x) without overflow.
static Value softplus(TrainBuilder &tb, Value x) {
  Value tail = tb.log(tb.add(tb.scalarLike(x, 1), tb.exp(tb.neg(tb.abs(x)))));
  return tb.add(tb.relu(x), tail);
}

static Value clampUnit(TrainBuilder &tb, Value x) {
  Value zero = tb.scalarLike(x, 0), one = tb.scalarLike(x, 1);
  x = tb.select(tb.compare("lt", x, zero), zero, x);
  return tb.select(tb.compare("gt", x, one), one, x);
}

static Value floatUnary(NodeContext &c, StringRef name, Value x) {
  TrainBuilder &tb = c.tb;
  auto like = [&](double value) { return tb.scalarLike(x, value); };
  auto positive = [&] { return tb.compare("gt", x, like(0)); };
  if (name == "Neg")
    return tb.neg(x);
  if (name == "Abs")
    return tb.abs(x);
  if (name == "Sign")
    return tb.sign(x);
  if (name == "Exp")
    return tb.exp(x);
  if (name == "Log")
    return tb.log(x);
  if (name == "Sqrt")
    return tb.sqrt(x);
  if (name == "Reciprocal")
    return tb.reciprocal(x);
  if (name == "Tanh")
    return tb.tanh(x);
  if (name == "Erf")
    return tb.erf(x);
  if (name == "Sigmoid")
    return tb.sigmoid(x);
  if (name == "Relu")
    return tb.relu(x);
  if (name == "Floor")
    return tb.floor(x);
  if (name == "Ceil")
    return train::CeilOp::create(tb.b(), tb.loc(), x.getType(), x);
  if (name == "Round")
    return train::RoundOp::create(tb.b(), tb.loc(), x.getType(), x);
  if (name == "Sin")
    return tb.sin(x);
  if (name == "Cos")
    return tb.cos(x);
  if (name == "Softplus")
    return softplus(tb, x);
  if (name == "Mish")
    return tb.mul(x, tb.tanh(softplus(tb, x)));
  if (name == "Swish") {
    double alpha = c.attr("alpha", 1.0);
    return tb.mul(x, tb.sigmoid(alpha == 1 ? x : tb.mul(x, like(alpha))));
  }
  if (name == "Softsign")
    return tb.div(x, tb.add(like(1), tb.abs(x)));
  if (name == "LeakyRelu")
    return tb.select(positive(), x, tb.mul(x, like(c.attr("alpha", 0.01))));
  if (name == "Elu" || name == "Selu") {
    bool selu = name == "Selu";
    double alpha = c.attr("alpha", selu ? 1.67326319217681884765625 : 1.0);
    double gamma = selu ? c.attr("gamma", 1.05070102214813232421875) : 1.0;
    // The exponential sees no positive numbers, so that the branch not taken stays finite.
    Value negative = tb.select(positive(), like(0), x);
    Value y = tb.select(positive(), x, tb.mul(like(alpha), tb.sub(tb.exp(negative), like(1))));
    return gamma == 1 ? y : tb.mul(y, like(gamma));
  }
  if (name == "HardSigmoid")
    return clampUnit(tb, tb.add(tb.mul(x, like(c.attr("alpha", 0.2))), like(c.attr("beta", 0.5))));
  if (name == "HardSwish")
    return tb.mul(x, clampUnit(tb, tb.add(tb.mul(x, like(1.0 / 6)), like(0.5))));
  if (name == "ThresholdedRelu")
    return tb.select(tb.compare("gt", x, like(c.attr("alpha", 1.0))), x, like(0));
  return {};
}

static LogicalResult unary(NodeContext &c) {
  StringRef name = c.op.getOpType();
  if (tryEvaluate(c, c.element(0)))
    return success();
  Value x = c.tensor(0);
  Value y = isa<FloatType>(c.element(0)) ? floatUnary(c, name, x) : integerUnary(c.tb, name, x);
  return y ? c.set(y) : c.fail("it is not supported on integers");
}

static LogicalResult gelu(NodeContext &c) {
  if (!c.needFloat(0))
    return failure();
  StringRef form = c.attr("approximate", "none");
  if (form != "none" && form != "tanh")
    return c.fail("approximate = '" + form + "' is unknown");
  Value x = c.tensor(0);
  return c.set(train::GeluOp::create(c.tb.b(), c.tb.loc(), x.getType(), x, form == "tanh"));
}

static LogicalResult isNan(NodeContext &c) {
  return c.needFloat(0) ? c.set(c.tb.isNan(c.tensor(0))) : failure();
}

static LogicalResult isInf(NodeContext &c) {
  if (!c.needFloat(0))
    return failure();
  Value x = c.tensor(0), y = c.tb.isInf(x), zero = c.tb.scalarLike(x, 0);
  if (!c.attr("detect_negative", int64_t(1)))
    y = c.tb.logicalAnd(y, c.tb.compare("gt", x, zero));
  if (!c.attr("detect_positive", int64_t(1)))
    y = c.tb.logicalAnd(y, c.tb.compare("lt", x, zero));
  return c.set(y);
}

static LogicalResult logicalNot(NodeContext &c) {
  if (!c.element(0).isInteger(1))
    return c.fail("its input is not boolean");
  if (tryEvaluate(c, c.element(0)))
    return success();
  return c.set(c.tb.logicalNot(c.tensor(0)));
}

//===- Binary and variadic ------------------------------------------------===//

/// x ^ y as PyTorch computes it: small constant exponents are products.
static Value power(NodeContext &c, Value x, Value y) {
  TrainBuilder &tb = c.tb;
  const Content *exponent = c.content(1);
  if (exponent && exponent->values.size() == 1 && isa<FloatType>(c.element(0))) {
    const Scalar &scalar = exponent->values[0];
    std::optional<int64_t> number = exponent->isReal() ? std::nullopt : scalar.dim.getConstant();
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
  return tb.pow(x, tb.cast(y, x.getType()));
}

static LogicalResult binary(NodeContext &c) {
  StringRef name = c.op.getOpType();
  bool comparison = llvm::StringSwitch<bool>(name)
                        .Cases({"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"}, true)
                        .Default(false);
  Type resultElement = comparison ? Type(c.tb.b().getI1Type()) : c.element(0);
  if (name != "Pow")
    for (int64_t i = 1; i < c.numInputs(); ++i)
      if (c.element(i) != c.element(0))
        return c.fail("its inputs have different element types");
  bool boolean = c.element(0).isInteger(1);
  bool logical = name == "And" || name == "Or" || name == "Xor";
  if (logical != boolean && (logical || (!comparison && name != "Max" && name != "Min")))
    return c.fail(logical ? "its inputs are not boolean" : "it is not supported on booleans");
  if (name != "Pow" || c.element(0) == c.element(1))
    if (tryEvaluate(c, resultElement))
      return success();
  if (c.numInputs() == 2)
    for (int64_t input : {1, 0})
      if (isNeutral(c, name, input)) {
        std::optional<Dims> common = c.broadcastDims({c.dims(0), c.dims(1)});
        if (!common)
          return failure();
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
  if (name == "Mod" && c.attr("fmod", int64_t(0)))
    return c.fail("fmod = 1 is not supported");
  if (Value result = throughTranspose(tb, name, x, (*inputs)[1]))
    return c.set(result);
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
      x = train::ModOp::create(tb.b(), tb.loc(), x.getType(), x, y);
    else if (name == "And" || (name == "Min" && boolean))
      x = tb.logicalAnd(x, y);
    else if (name == "Or" || (name == "Max" && boolean))
      x = tb.logicalOr(x, y);
    else if (name == "Xor")
      x = train::XorOp::create(tb.b(), tb.loc(), x.getType(), x, y);
    else if (name == "Max")
      x = tb.max(x, y);
    else if (name == "Min")
      x = tb.min(x, y);
    else if (name == "PRelu")
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
  for (int64_t input : {1, 2}) {
    if (!c.has(input))
      continue;
    if (c.element(input) != c.element(0) || c.element(0).isInteger(1))
      return c.fail("its bounds have another element type");
    std::optional<Dims> common = c.broadcastDims({c.dims(0), c.dims(input)});
    if (!common || *common != c.dims(0))
      return c.fail("its bounds do not fit its input");
    Value bound = c.broadcastTo(c.tensor(input), *common);
    x = tb.select(tb.compare(input == 1 ? "lt" : "gt", x, bound), bound, x);
  }
  return c.set(x);
}

//===- Cast, Where --------------------------------------------------------===//

static LogicalResult castTo(NodeContext &c, Type element) {
  if (!element || (!isa<FloatType>(element) && !element.isSignlessInteger()))
    return c.fail("the element type that it casts to is not supported");
  if (c.element(0) == element)
    return c.alias(c.in(0));
  if (const Content *known = c.content(0))
    if (std::optional<Content> result = castContent(*known, element))
      return c.set(std::move(*result));
  return c.set(c.tb.cast(c.tensor(0), element));
}

static LogicalResult cast(NodeContext &c) {
  // TensorProto.DataType; unsigned types are not part of the train dialect.
  Builder &b = c.tb.b();
  switch (c.attr("to", int64_t(0))) {
  case 1:
    return castTo(c, b.getF32Type());
  case 3:
    return castTo(c, b.getI8Type());
  case 5:
    return castTo(c, b.getI16Type());
  case 6:
    return castTo(c, b.getI32Type());
  case 7:
    return castTo(c, b.getI64Type());
  case 9:
    return castTo(c, b.getI1Type());
  case 10:
    return castTo(c, b.getF16Type());
  case 11:
    return castTo(c, b.getF64Type());
  case 16:
    return castTo(c, b.getBF16Type());
  default:
    return castTo(c, {});
  }
}

static LogicalResult castLike(NodeContext &c) { return castTo(c, c.element(1)); }

static LogicalResult where(NodeContext &c) {
  if (c.element(1) != c.element(2) || !c.element(0).isInteger(1))
    return c.fail("it needs a boolean condition and two inputs of one element type");
  if (tryEvaluate(c, c.element(1)))
    return success();
  TrainBuilder &tb = c.tb;
  // Exporters guard softmax against rows of -inf by Where(IsNaN(softmax), 0, softmax). One guarded
  // softmax has a backward without 0 * NaN.
  Value y = c.tensor(2);
  auto test = c.tensor(0).getDefiningOp<train::IsNanOp>();
  auto softmax = y.getDefiningOp<train::SoftmaxOp>();
  if (test && softmax && test.getOperand() == y && isAll(c, 1, 0) && c.rank(1) <= c.rank(2))
    return c.set(train::SoftmaxOp::create(tb.b(), softmax.getLoc(), y.getType(),
                                          softmax.getOperand(), softmax.getAxisAttr(),
                                          tb.b().getUnitAttr()));
  std::optional<SmallVector<Value>> inputs = broadcastInputs(c);
  if (!inputs)
    return failure();
  return c.set(tb.select((*inputs)[0], (*inputs)[1], (*inputs)[2]));
}

void registerMath(HandlerTable &table) {
  for (StringRef name : {"Neg",        "Abs",
                         "Sign",       "Exp",
                         "Log",        "Sqrt",
                         "Reciprocal", "Tanh",
                         "Erf",        "Sigmoid",
                         "Relu",       "Floor",
                         "Ceil",       "Round",
                         "Sin",        "Cos",
                         "Softplus",   "Mish",
                         "Swish",      "Softsign",
                         "LeakyRelu",  "Elu",
                         "Selu",       "HardSigmoid",
                         "HardSwish",  "ThresholdedRelu"})
    table.addExact(name, unary, 1);
  for (StringRef name : {"Add", "Sub", "Mul", "Div", "Pow", "Mod", "And", "Or", "Xor", "Equal",
                         "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "PRelu"})
    table.addExact(name, binary, 2);
  for (StringRef name : {"Max", "Min", "Sum", "Mean"})
    table.addVariadic(name, binary);
  table.addExact("Not", logicalNot, 1);
  table.add("Gelu", gelu);
  table.add("com.microsoft::Gelu", gelu);
  table.add("IsNaN", isNan);
  table.add("IsInf", isInf);
  table.add("Clip", clip);
  table.add("Cast", cast);
  table.add("CastLike", castLike, 2);
  table.addExact("Where", where, 3);
}

} // namespace trainc::legalize
