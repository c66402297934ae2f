// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random numbers: dropout, and what parameters begin with. They are keyed on the node's name, so
// that no pass can change them.

#include "Dropout.h"
#include "dialects/Train/Philox.h"
#include "llvm/Support/MathExtras.h"
#include <cmath>

using namespace mlir;
using trainc::train::TrainBuilder;

namespace trainc::legalize {

/// The name that random numbers are keyed on.
static StringRef nodeName(NodeContext &c) {
  if (auto loc = dyn_cast<NameLoc>(c.op.getLoc()))
    return loc.getName();
  return c.op.getOpType();
}

std::optional<DropoutForm> dropoutForm(NodeContext &c, int64_t ratio, int64_t training) {
  DropoutForm form;
  form.ratio = c.attr("ratio", 0.5); // an attribute before opset 12
  if (c.has(ratio)) {
    auto given = c.realConstant(ratio, "ratio");
    if (!given)
      return std::nullopt;
    form.ratio = *given;
  }
  if (!(form.ratio >= 0 && form.ratio <= 1)) {
    (void)c.fail("its ratio is not in [0, 1]");
    return std::nullopt;
  }
  if (c.has(training)) {
    auto value = c.constants(training, "training_mode");
    if (!value || value->size() != 1)
      return std::nullopt;
    form.active = (*value)[0] != 0;
  }
  DropoutMode mode = c.state.options->dropout;
  if (mode != DropoutMode::AsGraph)
    form.active = mode == DropoutMode::On;
  return form;
}

Value applyDropout(NodeContext &c, Value x, const DropoutForm &form, int64_t maskOutput) {
  TrainBuilder &tb = c.tb;
  Type boolean = tb.b().getI1Type();
  auto mask = [&](Value kept) {
    if (c.used(maskOutput))
      (void)c.set(kept, maskOutput);
  };
  Dims dims = train::getDims(x);
  if (!form.active || form.ratio == 0) {
    mask(tb.full(dims, boolean, 1));
    return x;
  }
  if (form.ratio == 1) {
    mask(tb.full(dims, boolean, 0));
    return tb.scalarLike(x, 0);
  }
  Value key = tb.rngKey(c.state.rngArgument(0), c.state.rngArgument(1), c.state.rngArgument(2),
                        c.state.rngArgument(3), train::philox::hashName(nodeName(c)));
  FloatAttr rate = tb.b().getF64FloatAttr(form.ratio);
  if (c.used(maskOutput)) {
    // The same key and coordinates on ones: what is kept is not zero.
    Value ones = tb.dropout(tb.scalarLike(x, 1), key, rate);
    mask(tb.compare("ne", ones, tb.scalarLike(x, 0)));
  }
  return tb.dropout(x, key, rate);
}

/// Whether somebody other than the gradient, which knows whether dropout is active, reads the mask.
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
  if (form->ratio > 0 && mode == DropoutMode::AsGraph && !form->active)
    c.state.inactiveDropouts.push_back(nodeName(c).str());
  if (!form->active || form->ratio == 0) {
    (void)applyDropout(c, c.tensor(0), *form, 1);
    return c.alias(c.in(0));
  }
  return c.set(applyDropout(c, c.tensor(0), *form, 1));
}

//===- Initial values -----------------------------------------------------===//

/// Numbers of one node: independent standard normal ones (by Box and Muller), or uniform in [0, 1).
static std::vector<double> drawNumbers(int64_t count, bool normal, uint64_t node, uint64_t seed) {
  std::vector<double> numbers(llvm::alignTo(count, 4));
  for (int64_t i = 0; i < count; i += 4) {
    train::philox::Counter words = train::philox::philox4x32(
        {uint32_t(i / 4), uint32_t(uint64_t(i / 4) >> 32), uint32_t(node), uint32_t(node >> 32)},
        {uint32_t(seed), uint32_t(seed >> 32)});
    for (int64_t k = 0; k < 4; ++k)
      numbers[i + k] = words[k] * 0x1p-32;
    for (int64_t k = 0; normal && k < 4; k += 2) {
      double radius = std::sqrt(-2 * std::log(numbers[i + k] + 0x1p-32));
      double angle = 2 * M_PI * numbers[i + k + 1];
      numbers[i + k] = radius * std::cos(angle);
      numbers[i + k + 1] = radius * std::sin(angle);
    }
  }
  numbers.resize(count);
  return numbers;
}

/// RandomNormal, RandomUniform, and their forms with the shape of an input, in a graph that runs
/// once.
static LogicalResult randomNumbers(NodeContext &c) {
  StringRef name = c.op.getOpType();
  if (!c.state.options->initialization)
    return c.fail("random numbers that differ from step to step are those of Dropout only; what "
                  "parameters begin with belongs in the initialization of training_info, or comes "
                  "from trainc-run --init; export a model with stochastic depth with "
                  "drop_path_rate=0");
  bool normal = name.contains("Normal"), like = name.ends_with("Like");
  if (like && c.numInputs() != 1)
    return c.fail("it needs one input, whose shape its result has");
  int64_t given = c.attr("dtype", int64_t(like ? 0 : 1));
  Type element = given ? c.elementType(given) : c.element(0);
  if (!isa_and_nonnull<FloatType>(element))
    return c.fail("its dtype is no float");
  SmallVector<int64_t> shape;
  int64_t count = 1;
  if (like) {
    for (DimAttr dim : c.dims(0))
      shape.push_back(dim.getConstant().value_or(-1));
  } else {
    shape = c.ints("shape").value_or(SmallVector<int64_t>());
  }
  for (int64_t size : shape)
    if (size < 0 || llvm::MulOverflow(count, size, count) || count > int64_t(1) << 40)
      return c.fail("its shape is not one of known sizes that fit in memory");
  // The attribute is a float; equal numbers are equal seeds.
  double seed = c.attr("seed", 0.0), low = c.attr("low", 0.0);
  double scale = normal ? c.attr("scale", 1.0) : c.attr("high", 1.0) - low;
  double offset = normal ? c.attr("mean", 0.0) : low;
  uint64_t key = train::philox::hashName(c.rawAttr("seed") ? StringRef() : nodeName(c));
  std::vector<APFloat> values;
  auto semantics = &cast<FloatType>(element).getFloatSemantics();
  for (double number : drawNumbers(count, normal, key, llvm::bit_cast<uint64_t>(seed))) {
    bool lossy = false;
    values.emplace_back(offset + scale * number);
    values.back().convert(*semantics, APFloat::rmNearestTiesToEven, &lossy);
  }
  return c.set(
      c.tb.constant(DenseElementsAttr::get(RankedTensorType::get(shape, element), values)));
}

void registerRandom(HandlerTable &table) {
  table.add("Dropout", dropout, 1, 7);
  table.entries["Dropout"].settings = {1, 2};
  for (StringRef name :
       {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike"}) {
    table.add(name, randomNumbers, 0, 1);
    table.describe({name}, 0, false);
  }
}

} // namespace trainc::legalize
