// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Quantization that training only simulates: values are rounded to those that the quantized model
// will have, and the gradient passes where they are within its range.

#include "NodeContext.h"

using namespace mlir;
using trainc::train::TrainBuilder;

namespace trainc::legalize {

/// FakeQuant: x in steps of a scale from a zero point, and whether it is within the range.
static LogicalResult fakeQuant(NodeContext &c) {
  if (!c.needFloat(0))
    return failure();
  for (int64_t i : {1, 2})
    if (c.element(i) != c.element(0) || !train::product(c.context(), c.dims(i)).isConstant(1))
      return c.fail(
          "its scale and zero point are not scalars of its input's type; only one of each "
          "for all channels is supported, as in ONNX Runtime");
  TrainBuilder &tb = c.tb;
  Value x = c.tensor(0);
  auto scalar = [&](int64_t input) { return tb.splat(tb.reshape(c.tensor(input), {}), x); };
  Value scale = scalar(1), zero = scalar(2);
  Value low = tb.scalarLike(x, double(c.attr("quant_min", int64_t(0))));
  Value high = tb.scalarLike(x, double(c.attr("quant_max", int64_t(255))));
  Value steps = tb.div(x, scale);
  steps = tb.add(train::RoundOp::create(tb.b(), tb.loc(), x.getType(), steps), zero);
  Value inside = tb.logicalAnd(tb.compare("ge", steps, low), tb.compare("le", steps, high));
  Value y = tb.mul(tb.sub(tb.min(tb.max(steps, low), high), zero), scale);
  (void)c.set(inside, 1);
  // Where the mask is read, the graph has the gradient itself.
  if (!c.used(1)) {
    auto detached = [&](Value v) {
      return train::DetachOp::create(tb.b(), tb.loc(), v.getType(), v).getResult();
    };
    Value through = tb.select(inside, tb.sub(x, detached(x)), tb.scalarLike(x, 0));
    y = tb.add(detached(y), through);
  }
  return c.set(y);
}

/// dY where the mask (input 1) has what was within the range.
static LogicalResult fakeQuantGrad(NodeContext &c) {
  if (!c.needFloat(0))
    return failure();
  if (!c.element(1).isInteger(1) || c.dims(1) != c.dims(0))
    return c.fail("its mask is not one boolean for each element");
  Value dy = c.tensor(0);
  return c.set(c.tb.select(c.tensor(1), dy, c.tb.scalarLike(dy, 0)));
}

void registerQuantization(HandlerTable &table) {
  table.add("com.microsoft::FakeQuant", fakeQuant, 3, 1);
  table.entries["com.microsoft::FakeQuant"].settings = {1, 2};
  table.add("com.microsoft::FakeQuantGrad", fakeQuantGrad, 2, 1);
}

} // namespace trainc::legalize
