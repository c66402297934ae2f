// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elementwise functions of one tensor: arithmetic, transcendental functions, activations, tests.

#include "lib/Conversion/ONNXToTrain/Handlers.h"

using namespace mlir;
using trainc::train::TrainBuilder;

namespace trainc::legalize {

template <typename Op> static Value make(NodeContext &c, Value x) {
  return Op::create(c.tb.b(), c.tb.loc(), x.getType(), x);
}

/// log(1 + e^x) without overflow.
static Value softplus(NodeContext &c, Value x) {
  TrainBuilder &tb = c.tb;
  // e^-|x| is at most 1.
  Value tail = tb.log(tb.add(tb.scalarLike(x, 1), tb.exp(tb.neg(tb.abs(x)))));
  return tb.add(tb.relu(x), tail);
}

/// PyTorch exports logsigmoid as Log of Sigmoid, whose gradient (1 - s) / s has no digits left
/// where s is nearly 1, and is NaN where s is 0.
static Value logarithm(NodeContext &c, Value x) {
  if (auto sigmoid = x.getDefiningOp<train::SigmoidOp>())
    return c.tb.neg(softplus(c, c.tb.neg(sigmoid.getOperand())));
  return c.tb.log(x);
}

/// As selects: the gradient ends beyond 0 and 1.
static Value clampUnit(TrainBuilder &tb, Value x) {
  Value zero = tb.scalarLike(x, 0), one = tb.scalarLike(x, 1);
  x = tb.select(tb.compare("lt", x, zero), zero, x);
  return tb.select(tb.compare("gt", x, one), one, x);
}

static Value isPositive(TrainBuilder &tb, Value x) {
  return tb.compare("gt", x, tb.scalarLike(x, 0));
}

/// x where positive, else scale (e^(x / width) - 1). The exponential sees no positive numbers, so
/// that the branch not taken stays finite.
static Value exponentialUnit(TrainBuilder &tb, Value x, double scale, double width = 1) {
  auto like = [&](double value) { return tb.scalarLike(x, value); };
  Value negative = tb.select(isPositive(tb, x), like(0), x);
  // Celu.
  if (width != 1)
    negative = tb.div(negative, like(width));
  Value tail = tb.mul(like(scale), tb.sub(tb.exp(negative), like(1)));
  return tb.select(isPositive(tb, x), x, tail);
}

static Value selu(NodeContext &c, Value x) {
  Value y = exponentialUnit(c.tb, x, c.attr("alpha", 1.67326319217681884765625));
  return c.tb.mul(y, c.tb.scalarLike(y, c.attr("gamma", 1.05070102214813232421875)));
}

static Value swish(NodeContext &c, Value x) {
  double alpha = c.attr("alpha", 1.0);
  // alpha = 1 is SiLU, which passes know.
  return c.tb.mul(x, c.tb.sigmoid(alpha == 1 ? x : c.tb.mul(x, c.tb.scalarLike(x, alpha))));
}

static Value hardSigmoid(NodeContext &c, Value x) {
  TrainBuilder &tb = c.tb;
  return clampUnit(tb, tb.add(tb.mul(x, tb.scalarLike(x, c.attr("alpha", 0.2))),
                              tb.scalarLike(x, c.attr("beta", 0.5))));
}

static Value hardSwish(NodeContext &c, Value x) {
  TrainBuilder &tb = c.tb;
  Value scaled = tb.mul(x, tb.scalarLike(x, 1.0 / 6));
  return tb.mul(x, clampUnit(tb, tb.add(scaled, tb.scalarLike(x, 0.5))));
}

/// x + bias below -lambd, x - bias above lambd, 0 between.
static Value shrink(NodeContext &c, Value x) {
  TrainBuilder &tb = c.tb;
  Value lambd = tb.scalarLike(x, c.attr("lambd", 0.5)),
        bias = tb.scalarLike(x, c.attr("bias", 0.0));
  // Strictly beyond, on either side.
  Value inner = tb.select(tb.compare("gt", x, lambd), tb.sub(x, bias), tb.scalarLike(x, 0));
  return tb.select(tb.compare("lt", x, tb.neg(lambd)), tb.add(x, bias), inner);
}

namespace {

/// One line an operator: name, opset, formula.
struct Function {
  StringLiteral name;
  int64_t since;
  Value (*build)(NodeContext &c, Value x);
};

} // namespace

/// Of floats. Those with attributes read them from the node.
static const Function functions[] = {
    {"Neg", 6, [](NodeContext &c, Value x) { return c.tb.neg(x); }},
    {"Abs", 6, [](NodeContext &c, Value x) { return c.tb.abs(x); }},
    {"Sign", 9, [](NodeContext &c, Value x) { return c.tb.sign(x); }},
    {"Reciprocal", 6, [](NodeContext &c, Value x) { return c.tb.reciprocal(x); }},
    {"Floor", 6, [](NodeContext &c, Value x) { return c.tb.floor(x); }},
    {"Ceil", 6, make<train::CeilOp>},
    {"Round", 11, make<train::RoundOp>},
    {"Exp", 6, [](NodeContext &c, Value x) { return c.tb.exp(x); }},
    {"Log", 6, logarithm},
    {"Sqrt", 6, [](NodeContext &c, Value x) { return c.tb.sqrt(x); }},
    {"Erf", 9, [](NodeContext &c, Value x) { return c.tb.erf(x); }},
    {"Sin", 7, [](NodeContext &c, Value x) { return c.tb.sin(x); }},
    {"Cos", 7, [](NodeContext &c, Value x) { return c.tb.cos(x); }},
    {"Tan", 7, make<train::TanOp>},
    {"Asin", 7, make<train::AsinOp>},
    {"Acos", 7, make<train::AcosOp>},
    {"Atan", 7, make<train::AtanOp>},
    {"Sinh", 9, make<train::SinhOp>},
    {"Cosh", 9, make<train::CoshOp>},
    {"Tanh", 6, [](NodeContext &c, Value x) { return c.tb.tanh(x); }},
    {"Asinh", 9, make<train::AsinhOp>},
    {"Acosh", 9, make<train::AcoshOp>},
    {"Atanh", 9, make<train::AtanhOp>},
    {"Sigmoid", 6, [](NodeContext &c, Value x) { return c.tb.sigmoid(x); }},
    {"Relu", 6, [](NodeContext &c, Value x) { return c.tb.relu(x); }},
    {"Softplus", 1, softplus},
    {"Mish", 18, [](NodeContext &c, Value x) { return c.tb.mul(x, c.tb.tanh(softplus(c, x))); }},
    {"Swish", 24, swish},
    {"Softsign", 1,
     [](NodeContext &c, Value x) {
       return c.tb.div(x, c.tb.add(c.tb.scalarLike(x, 1), c.tb.abs(x)));
     }},
    {"LeakyRelu", 6,
     [](NodeContext &c, Value x) {
       Value tail = c.tb.mul(x, c.tb.scalarLike(x, c.attr("alpha", 0.01)));
       return c.tb.select(isPositive(c.tb, x), x, tail);
     }},
    {"Elu", 6,
     [](NodeContext &c, Value x) { return exponentialUnit(c.tb, x, c.attr("alpha", 1.0)); }},
    {"Celu", 12,
     [](NodeContext &c, Value x) {
       double alpha = c.attr("alpha", 1.0);
       return exponentialUnit(c.tb, x, alpha, alpha);
     }},
    {"Selu", 6, selu},
    {"HardSigmoid", 6, hardSigmoid},
    {"HardSwish", 14, hardSwish},
    {"ThresholdedRelu", 10,
     [](NodeContext &c, Value x) {
       Value above = c.tb.compare("gt", x, c.tb.scalarLike(x, c.attr("alpha", 1.0)));
       return c.tb.select(above, x, c.tb.scalarLike(x, 0));
     }},
    {"Shrink", 9, shrink},
};

static Value ofIntegers(NodeContext &c, StringRef name, Value x) {
  TrainBuilder &tb = c.tb;
  Value zero = tb.scalarLike(x, 0);
  if (name == "Neg")
    return tb.sub(zero, x);
  // The least number of a type stays what it is.
  if (name == "Abs")
    return tb.max(x, tb.sub(zero, x));
  if (name == "Relu")
    return tb.max(x, zero);
  // 1, 0 or -1 without branches.
  if (name == "Sign")
    return tb.sub(tb.cast(tb.compare("gt", x, zero), x.getType()),
                  tb.cast(tb.compare("lt", x, zero), x.getType()));
  if (name == "Shrink") // its result has the input's type: computed in reals and truncated
    return tb.cast(shrink(c, tb.cast(x, tb.b().getF64Type())), x.getType());
  return {};
}

static LogicalResult unary(NodeContext &c) {
  StringRef name = c.op.getOpType();
  // Known numbers and sizes.
  if (c.evaluate(c.element(0)))
    return success();
  Value x = c.tensor(0);
  if (!isa<FloatType>(c.element(0))) {
    // Booleans have none of these.
    Value y = c.element(0).isInteger(1) ? Value() : ofIntegers(c, name, x);
    return y ? c.set(y) : c.fail("it is not supported on integers");
  }
  const Function *found =
      llvm::find_if(functions, [&](const Function &function) { return function.name == name; });
  assert(found != std::end(functions) && "registered from the table");
  return c.set(found->build(c, x));
}

static LogicalResult gelu(NodeContext &c) {
  if (!c.needFloat(0))
    return failure();
  StringRef form = c.attr("approximate", "none");
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
  // Either sign may be left out.
  if (!c.attr("detect_negative", int64_t(1)))
    y = c.tb.logicalAnd(y, c.tb.compare("gt", x, zero));
  if (!c.attr("detect_positive", int64_t(1)))
    y = c.tb.logicalAnd(y, c.tb.compare("lt", x, zero));
  return c.set(y);
}

static LogicalResult logicalNot(NodeContext &c) {
  if (c.evaluate(c.element(0)))
    return success();
  return c.set(c.tb.logicalNot(c.tensor(0)));
}

static LogicalResult bitwiseNot(NodeContext &c) {
  if (!c.needInteger(0))
    return failure();
  Value x = c.tensor(0);
  // -1 - x is ~x in two's complement; the result is wrapped for unsigned types.
  return c.set(c.tb.sub(c.tb.scalarLike(x, -1), x));
}

void registerUnary(HandlerTable &table) {
  for (const Function &function : functions)
    table.addExact(function.name, unary, 1, function.since);
  table.addExact("Not", logicalNot, 1, 1);
  table.addExact("BitwiseNot", bitwiseNot, 1, 18);
  table.add("Gelu", gelu, 1, 20);
  table.add("com.microsoft::Gelu", gelu, 1, 1);
  table.add("IsNaN", isNan, 1, 9);
  table.add("IsInf", isInf, 1, 10);
  using Table = HandlerTable;
  table.describe({"Neg", "Abs", "Relu", "Shrink"}, Table::kNumbers);
  table.describe({"Sign"}, Table::kNumbers, false);
  table.describe({"Floor", "Ceil", "Round", "IsNaN", "IsInf"}, Table::kReals, false);
  table.describe({"Not"}, Table::kBooleans, false);
  table.describe({"BitwiseNot"}, Table::kIntegers, false);
}

} // namespace trainc::legalize
