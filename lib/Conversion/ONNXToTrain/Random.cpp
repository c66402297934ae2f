// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Dropout. Its random numbers are keyed on the node's name, so that no pass can change a mask.

#include "Dropout.h"

using namespace mlir;
using trainc::train::TrainBuilder;

namespace trainc::legalize {

/// FNV-1a 64, as everywhere in the package.
static uint64_t hashName(StringRef name) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (unsigned char byte : name)
    hash = (hash ^ byte) * 0x100000001b3ull;
  return hash;
}

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
  auto key = train::RngKeyOp::create(
      tb.b(), tb.loc(), train::getTensorType({}, tb.b().getI64Type()), c.state.rngArgument(0),
      c.state.rngArgument(1), c.state.rngArgument(2), c.state.rngArgument(3),
      tb.b().getI64IntegerAttr(int64_t(hashName(nodeName(c)))));
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

void registerRandom(HandlerTable &table) {
  table.add("Dropout", dropout, 1, 7);
  table.entries["Dropout"].settings = {1, 2};
}

} // namespace trainc::legalize
