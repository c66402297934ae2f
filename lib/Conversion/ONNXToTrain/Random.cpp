// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Dropout. Its random numbers are keyed on the node's name, so that no pass can change a mask.

#include "NodeContext.h"

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

static LogicalResult dropout(NodeContext &c) {
  if (!c.needFloat(0))
    return failure();
  TrainBuilder &tb = c.tb;
  double ratio = 0.5;
  if (c.has(1)) {
    auto given = c.realConstant(1, "ratio");
    if (!given)
      return failure();
    ratio = *given;
  }
  if (!(ratio >= 0 && ratio <= 1))
    return c.fail("its ratio is not in [0, 1]");
  bool asGraph = false;
  if (c.has(2)) {
    auto training = c.constants(2, "training_mode");
    if (!training || training->size() != 1)
      return failure();
    asGraph = (*training)[0] != 0;
  }
  StringRef name = c.op.getOpType();
  if (auto loc = dyn_cast<NameLoc>(c.op.getLoc()))
    name = loc.getName();
  DropoutMode mode = c.state.options->dropout;
  bool active = mode == DropoutMode::On || (mode == DropoutMode::AsGraph && asGraph);
  if (ratio > 0) {
    c.state.anyActiveDropout |= asGraph;
    if (!asGraph && mode == DropoutMode::AsGraph)
      c.state.inactiveDropouts.push_back(name.str());
  }
  auto mask = [&](Value kept) {
    if (c.used(1))
      (void)c.set(kept, 1);
  };
  Type boolean = tb.b().getI1Type();
  if (!active || ratio == 0) {
    mask(tb.full(c.dims(0), boolean, 1));
    return c.alias(c.in(0));
  }
  if (ratio == 1) {
    mask(tb.full(c.dims(0), boolean, 0));
    return c.set(tb.full(c.dims(0), c.element(0), 0));
  }
  auto key = train::RngKeyOp::create(
      tb.b(), tb.loc(), train::getTensorType({}, tb.b().getI64Type()), c.state.rngArgument(0),
      c.state.rngArgument(1), c.state.rngArgument(2), c.state.rngArgument(3),
      tb.b().getI64IntegerAttr(int64_t(hashName(name))));
  FloatAttr rate = tb.b().getF64FloatAttr(ratio);
  Value x = c.tensor(0);
  if (c.used(1)) {
    // The same key and coordinates on ones: what is kept is not zero.
    Value ones = tb.dropout(tb.scalarLike(x, 1), key, rate);
    mask(tb.compare("ne", ones, tb.scalarLike(x, 0)));
  }
  return c.set(tb.dropout(x, key, rate));
}

void registerRandom(HandlerTable &table) { table.add("Dropout", dropout); }

} // namespace trainc::legalize
