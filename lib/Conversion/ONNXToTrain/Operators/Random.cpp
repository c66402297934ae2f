// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random numbers: dropout, draws of every step, and what parameters begin with. They are keyed on
// the node's name, so that no pass can change them.

#include "Dropout.h"
#include "dialects/Train/Philox.h"
#include "lib/Conversion/ONNXToTrain/Indexing/Order.h"
#include "llvm/Support/MathExtras.h"
#include <cmath>

using namespace mlir;
using trainc::train::TrainBuilder;

namespace trainc::legalize {

/// The name that random numbers are keyed on.
/// Exporters name nodes; without a name nodes of an operator share their numbers by order only.
static StringRef nodeName(NodeContext &c) {
  if (auto loc = dyn_cast<NameLoc>(c.op.getLoc()))
    return loc.getName();
  return c.op.getOpType();
}

/// The key of what this node draws in a step. A node that is met again, in a loop's body, draws
/// other numbers each time.
static Value drawKey(NodeContext &c, const Twine &seed = "") {
  // Unlike any name in a file, which has no such character.
  std::string name = (nodeName(c) + seed).str();
  if (unsigned times = c.state.draws[name]++)
    name += '\x01' + std::to_string(times);
  // Seed and step come as arguments; the rest is fixed here.
  return c.tb.rngKey(c.state.rngArgument(0), c.state.rngArgument(1), c.state.rngArgument(2),
                     c.state.rngArgument(3), train::philox::hashName(name));
}

std::optional<DropoutForm> dropoutForm(NodeContext &c, int64_t ratio, int64_t training) {
  DropoutForm form;
  assert(ratio > 0 && training > 0 && "input 0 is the data");
  form.ratio = c.attr("ratio", 0.5); // an attribute before opset 12
  if (c.has(ratio)) {
    auto given = c.realConstant(ratio, "ratio");
    if (!given)
      return std::nullopt;
    form.ratio = *given;
  }
  // Also for NaN.
  if (!(form.ratio >= 0 && form.ratio <= 1)) {
    (void)c.fail("its ratio is not in [0, 1]");
    return std::nullopt;
  }
  // Absent means not active.
  if (c.has(training)) {
    auto value = c.constants(training, "training_mode");
    if (!value || value->size() != 1)
      return std::nullopt;
    form.active = (*value)[0] != 0;
  }
  // The option overrides the graph.
  DropoutMode mode = c.state.options->dropout;
  if (mode != DropoutMode::AsGraph)
    form.active = mode == DropoutMode::On;
  return form;
}

Value applyDropout(NodeContext &c, Value x, const DropoutForm &form, int64_t maskOutput) {
  TrainBuilder &tb = c.tb;
  Type boolean = tb.b().getI1Type();
  auto mask = [&](Value kept) {
    // Masks cost a tensor: only where somebody reads them.
    if (c.used(maskOutput))
      (void)c.set(kept, maskOutput);
  };
  Dims dims = train::getDims(x);
  // Nothing is dropped, and nothing scaled.
  if (!form.active || form.ratio == 0) {
    mask(tb.full(dims, boolean, 1));
    return x;
  }
  // 1 / (1 - ratio) would be infinite.
  if (form.ratio == 1) {
    mask(tb.full(dims, boolean, 0));
    return tb.scalarLike(x, 0);
  }
  Value key = drawKey(c);
  FloatAttr rate = tb.b().getF64FloatAttr(form.ratio);
  if (c.used(maskOutput)) {
    // The same key and coordinates on ones: what is kept is not zero.
    Value ones = tb.dropout(tb.scalarLike(x, 1), key, rate);
    mask(tb.compare("ne", ones, tb.scalarLike(x, 0)));
  }
  return tb.dropout(x, key, rate);
}

/// Whether somebody other than the gradient, which knows whether dropout is active, reads the mask.
/// Such a reader would go on as the graph was, though dropout is not.
static bool isMaskRead(NodeContext &c) {
  return c.used(1) && llvm::any_of(c.op.getOutputs()[1].getUsers(), [](Operation *user) {
           auto node = dyn_cast<onnx::NodeOp>(user);
           return !node || !node.getOpType().ends_with("DropoutGrad");
         });
}

static LogicalResult dropout(NodeContext &c) {
  if (!c.needFloat(0))
    return failure();
  std::optional<DropoutForm> form = dropoutForm(c, 1, 2);
  if (!form)
    return failure();
  DropoutMode mode = c.state.options->dropout;
  if (form->ratio > 0 && mode != DropoutMode::AsGraph && isMaskRead(c))
    return c.fail("its mask is read by other nodes (the graph's own gradients), which --dropout "
                  "cannot change; export the model with the dropout that it should have");
  // Reported once, in the end: the model is trained without.
  if (form->ratio > 0 && mode == DropoutMode::AsGraph && !form->active)
    c.state.inactiveDropouts.push_back(nodeName(c).str());
  // The mask, if it is read, keeps everything.
  if (!form->active || form->ratio == 0) {
    (void)applyDropout(c, c.tensor(0), *form, 1);
    return c.alias(c.in(0));
  }
  return c.set(applyDropout(c, c.tensor(0), *form, 1));
}

//===- Draws --------------------------------------------------------------===//

/// The distribution that a node draws from: uniform in [offset, offset + scale), or normal.
struct Distribution {
  bool normal = false;
  double offset = 0, scale = 1;
  Type element;
  Dims dims;
  /// The attribute, as text; empty where there is none.
  std::string seed;
};

/// The attribute `seed`, as part of a key.
/// Bit by bit: equal numbers are equal seeds.
static std::string seedText(NodeContext &c) {
  if (!c.rawAttr("seed"))
    return {};
  return "\x01seed " + std::to_string(llvm::bit_cast<uint64_t>(c.attr("seed", 0.0)));
}

/// Reads a node's attributes and shape; nullopt with a reason.
static std::optional<Distribution> distributionOf(NodeContext &c) {
  StringRef name = c.op.getOpType();
  Distribution result;
  // The operator's name says which.
  result.normal = name.contains("Normal");
  bool like = name.ends_with("Like");
  if (like && c.numInputs() != 1) {
    (void)c.fail("it needs one input, whose shape its result has");
    return std::nullopt;
  }
  // Absent: f32, or the input's.
  int64_t given = c.attr("dtype", int64_t(like ? 0 : 1));
  result.element = given ? c.elementType(given) : c.element(0);
  if (!isa_and_nonnull<FloatType>(result.element)) {
    (void)c.fail(given
                     ? "its dtype is no float"
                     : "its input is no float, so that its attribute dtype has to say what it is");
    return std::nullopt;
  }
  // Sizes may be those of the batch.
  if (like) {
    result.dims = c.dims(0);
  } else {
    auto shape = c.ints("shape");
    assert(shape && "required");
    for (int64_t size : *shape)
      result.dims.push_back(c.dim(size));
  }
  if (!c.needSizes(result.dims))
    return std::nullopt;
  // The attributes of both have different names.
  result.offset = c.attr(result.normal ? "mean" : "low", 0.0);
  double end = c.attr(result.normal ? "scale" : "high", 1.0);
  result.scale = result.normal ? end : end - result.offset;
  // Infinite and NaN compare as wrong.
  if (!std::isfinite(result.offset) || !std::isfinite(result.scale) || result.scale < 0) {
    (void)c.fail(result.normal ? "its mean and scale are not finite, or its scale is negative"
                               : "its low and high are not finite, or its high is below its low");
    return std::nullopt;
  }
  result.seed = seedText(c);
  return result;
}

/// Whether draws may be made: a graph that only initializes parameters has no steps.
static bool hasSteps(NodeContext &c) {
  if (!c.state.options->initialization)
    return true;
  (void)c.fail("it is not supported in an initialization");
  return false;
}

/// Uniform numbers in [0, 1) that `element` holds exactly: multiples of 2 ^ -digits, at most 32.
/// They are f32, or f64 where that is f64.
static Value drawUniform(NodeContext &c, Value key, ArrayRef<DimAttr> dims, FloatType element) {
  TrainBuilder &tb = c.tb;
  // More digits than the type has would be rounded up to 1.
  int digits = std::min(int(APFloat::semanticsPrecision(element.getFloatSemantics())), 32);
  Value bits = tb.randomBits(key, dims);
  // The lowest bits go; as a number the mask is negative.
  if (digits < 32)
    bits = tb.logicalAnd(bits, tb.scalarLike(bits, -std::ldexp(1.0, 32 - digits)));
  Value x = tb.cast(bits, element.isF64() ? tb.b().getF64Type() : tb.b().getF32Type());
  // The word has a sign.
  return tb.add(tb.mul(x, tb.scalarLike(x, 0x1p-32)), tb.scalarLike(x, 0.5));
}

/// c[0] + c[1] x + c[2] x^2 + ...
static Value polynomial(TrainBuilder &tb, Value x, ArrayRef<double> coefficients) {
  // From the highest power down.
  Value y = tb.scalarLike(x, coefficients.back());
  for (double coefficient : llvm::reverse(coefficients.drop_back()))
    y = tb.add(tb.mul(y, x), tb.scalarLike(x, coefficient));
  return y;
}

/// Standard normal numbers, each of one word: the quantile of a probability in (0, 1/2], with a
/// sign. The quantile is algorithm AS 241 (Wichura 1988), PPND7, right to 1e-7; its farthest branch
/// begins beyond what 31 bits draw.
static Value drawNormal(NodeContext &c, Value key, ArrayRef<DimAttr> dims, Type type) {
  TrainBuilder &tb = c.tb;
  // A word has 31 bits of probability and a sign.
  Value bits = tb.randomBits(key, dims);
  Value p = tb.cast(tb.logicalAnd(bits, tb.scalarLike(bits, 0x7FFFFFFF)), type);
  auto scaled = [&](Value x, double factor, double term) {
    return tb.add(tb.mul(x, tb.scalarLike(x, factor)), tb.scalarLike(x, term));
  };
  // In the middle of its step: never 0.
  p = scaled(p, 0x1p-32, 0x1p-33);
  Value q = tb.sub(tb.scalarLike(p, 0.5), p);
  // Both branches are computed; the one that is not chosen is finite.
  Value r = tb.sub(tb.scalarLike(q, 0.180625), tb.mul(q, q));
  Value central =
      tb.div(tb.mul(q, polynomial(tb, r, {3.3871327179, 50.434271938, 159.29113202, 59.109374720})),
             polynomial(tb, r, {1, 17.895169469, 78.757757664, 67.187563600}));
  r = scaled(tb.sqrt(tb.neg(tb.log(p))), 1, -1.6);
  Value tail = tb.div(polynomial(tb, r, {1.4234372777, 2.7568153900, 1.3067284816, 0.17023821103}),
                      polynomial(tb, r, {1, 0.73700164250, 0.12021132975}));
  Value size = tb.select(tb.compare("le", q, tb.scalarLike(q, 0.425)), central, tail);
  return tb.select(tb.compare("lt", bits, tb.scalarLike(bits, 0)), tb.neg(size), size);
}

/// Numbers that differ from step to step, from node to node and from element to element.
static LogicalResult draw(NodeContext &c, const Distribution &what) {
  TrainBuilder &tb = c.tb;
  auto element = cast<FloatType>(what.element);
  // One number, whatever is drawn.
  if (what.scale == 0)
    return c.set(tb.full(what.dims, element, what.offset));
  Value key = drawKey(c, what.seed);
  Type wide = element.isF64() ? tb.b().getF64Type() : tb.b().getF32Type();
  Value x =
      what.normal ? drawNormal(c, key, what.dims, wide) : drawUniform(c, key, what.dims, element);
  x = tb.add(tb.mul(x, tb.scalarLike(x, what.scale)), tb.scalarLike(x, what.offset));
  x = tb.cast(x, element);
  if (!what.normal && (what.offset != 0 || what.scale != 1)) {
    // The sum may be rounded up to the end, which is not drawn.
    APFloat below(what.offset + what.scale);
    bool lossy;
    below.convert(element.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lossy);
    below.next(/*nextDown=*/true);
    below.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lossy);
    x = tb.min(x, tb.scalarLike(x, below.convertToDouble()));
  }
  return c.set(x);
}

/// 1 with the probability that each element of the input is.
static LogicalResult bernoulli(NodeContext &c) {
  if (!c.needFloat(0) || !hasSteps(c))
    return failure();
  int64_t dtype = c.attr("dtype", int64_t(0));
  Type element = dtype ? c.elementType(dtype) : c.element(0);
  if (!element)
    return c.fail("its dtype is not supported");
  TrainBuilder &tb = c.tb;
  // Probabilities as they come, in f32 at least.
  FloatType wide = c.element(0).isF64() ? tb.b().getF64Type() : tb.b().getF32Type();
  Value u = drawUniform(c, drawKey(c, seedText(c)), c.dims(0), wide);
  (void)c.set(tb.cast(tb.compare("lt", u, tb.cast(c.tensor(0), wide)), element));
  c.state.valueOf(c.op.getOutputs()[0]).unsignedBits = NodeContext::unsignedBits(dtype);
  return success();
}

/// Classes of rows of log-probabilities [batch, classes]: of exponential times with these rates the
/// first, in doubles, so that no two are equal among many classes.
static LogicalResult multinomial(NodeContext &c) {
  if (!c.needFloat(0) || !hasSteps(c))
    return failure();
  // As ONNX's TensorProto has them.
  int64_t samples = c.attr("sample_size", int64_t(1)), dtype = c.attr("dtype", int64_t(6));
  Type element = c.elementType(dtype);
  if (dtype != 6 && dtype != 7)
    return c.fail("its dtype is neither int32 nor int64");
  if (c.rank(0) != 2 || c.dims(0)[1].isConstant(0))
    return c.fail("its input is not [batch, classes] with at least one class");
  TrainBuilder &tb = c.tb;
  FloatType wide = tb.b().getF64Type();
  Dims dims = {c.dims(0)[0], c.dim(samples), c.dims(0)[1]};
  Value u = drawUniform(c, drawKey(c, seedText(c)), dims, wide);
  // Half a step up: the logarithm of 0 is infinite.
  Value time = tb.neg(tb.log(tb.add(u, tb.scalarLike(u, 0x1p-33))));
  Value rates = tb.broadcast(tb.cast(c.tensor(0), wide), dims, {0, 2});
  // The smallest time has the largest difference: rate by rate, in logarithms.
  Value first = extremePosition(tb, tb.sub(rates, tb.log(time)), 2, /*isMax=*/true);
  return c.set(tb.cast(first, element));
}

//===- Initial values -----------------------------------------------------===//

/// Numbers of one node: independent standard normal ones (by Box and Muller), or uniform in [0, 1).
static std::vector<double> drawNumbers(int64_t count, bool normal, uint64_t node, uint64_t seed) {
  // Philox gives four words at a time.
  std::vector<double> numbers(llvm::alignTo(count, 4));
  for (int64_t i = 0; i < count; i += 4) {
    train::philox::Counter words = train::philox::philox4x32(
        {uint32_t(i / 4), uint32_t(uint64_t(i / 4) >> 32), uint32_t(node), uint32_t(node >> 32)},
        {uint32_t(seed), uint32_t(seed >> 32)});
    // In [0, 1).
    for (int64_t k = 0; k < 4; ++k)
      numbers[i + k] = words[k] * 0x1p-32;
    for (int64_t k = 0; normal && k < 4; k += 2) {
      // Away from 0, whose logarithm is infinite.
      double radius = std::sqrt(-2 * std::log(numbers[i + k] + 0x1p-32));
      double angle = 2 * M_PI * numbers[i + k + 1];
      numbers[i + k] = radius * std::cos(angle);
      numbers[i + k + 1] = radius * std::sin(angle);
    }
  }
  numbers.resize(count);
  return numbers;
}

/// The numbers of a graph that runs once.
static LogicalResult initialNumbers(NodeContext &c, const Distribution &what) {
  // A shape of numbers: parameters have no sizes of batches.
  SmallVector<int64_t> shape;
  int64_t count = 1;
  for (DimAttr dim : what.dims) {
    shape.push_back(dim.getConstant().value_or(-1));
    if (shape.back() < 0 || llvm::MulOverflow(count, shape.back(), count) ||
        count > int64_t(1) << 40)
      return c.fail("its shape is not one of known sizes that fit in memory");
  }
  // The attribute is a float; equal numbers are equal seeds.
  uint64_t seed = llvm::bit_cast<uint64_t>(c.attr("seed", 0.0));
  // With a seed the numbers are the same for all nodes, as in ONNX; without, for each node its own.
  uint64_t node = train::philox::hashName(c.rawAttr("seed") ? StringRef() : nodeName(c));
  std::vector<APFloat> values;
  auto semantics = &cast<FloatType>(what.element).getFloatSemantics();
  for (double number : drawNumbers(count, what.normal, node, seed)) {
    bool lossy = false;
    values.emplace_back(what.offset + what.scale * number);
    values.back().convert(*semantics, APFloat::rmNearestTiesToEven, &lossy);
  }
  return c.set(
      c.tb.constant(DenseElementsAttr::get(RankedTensorType::get(shape, what.element), values)));
}

/// RandomNormal, RandomUniform, and their forms with the shape of an input.
static LogicalResult randomNumbers(NodeContext &c) {
  std::optional<Distribution> what = distributionOf(c);
  if (!what)
    return failure();
  return c.state.options->initialization ? initialNumbers(c, *what) : draw(c, *what);
}

void registerRandom(HandlerTable &table) {
  table.add("Dropout", dropout, 1, 7);
  table.entries["Dropout"].settings = {1, 2};
  for (StringRef name : {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike"})
    table.add(name, randomNumbers, 0, 1);
  table.add("Bernoulli", bernoulli, 1, 15);
  table.add("Multinomial", multinomial, 1, 7);
  using Table = HandlerTable;
  table.describe({"RandomNormal", "RandomUniform", "Bernoulli", "Multinomial"}, Table::kReals,
                 false);
  table.describe({"RandomNormalLike", "RandomUniformLike"}, Table::kAll, false);
}

} // namespace trainc::legalize
