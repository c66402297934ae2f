// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Quantization: simulated, where values are rounded to those that the quantized model will have and
// the gradient passes where they are within its range; and weights of 4 bits, which are not
// trained.

#include "Compose.h"
#include "quantize/formats.h"

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

//===- Weights of 4 bits --------------------------------------------------===//

/// MatMulBnb4: A times the transpose of a weight [N, K], or with transB = 0 times the weight
/// itself, whose codes lie two a byte, the first in the high half, with one factor for each block
/// of them.
static LogicalResult matmulBnb4(NodeContext &c) {
  int64_t rows = c.attr("N", int64_t(0)), columns = c.attr("K", int64_t(0));
  int64_t block = c.attr("block_size", int64_t(0)), kind = c.attr("quant_type", int64_t(-1));
  constexpr int64_t most = 1 << 24; // of either axis
  if (rows < 1 || columns < 1 || rows > most || columns > most || block < 1 || block > most)
    return c.fail("its N, K or block_size is missing or out of range");
  if (kind != 0 && kind != 1)
    return c.fail("its quant_type is neither 0 (FP4) nor 1 (NF4)");
  int64_t count = rows * columns, bytes = (count + 1) / 2, blocks = (count + block - 1) / block;
  if (!c.needFloat(0) || !c.needInteger(1))
    return failure();
  bool transposed = c.attr("transB", int64_t(1));
  if (c.rank(0) < 1 || c.dims(0).back() != c.dim(transposed ? columns : rows) ||
      c.dims(1) != Dims{c.dim(bytes)} || c.in(1).unsignedBits != 8 ||
      c.dims(2) != Dims{c.dim(blocks)} || c.element(2) != c.element(0))
    return c.fail("its N, K and block_size say that it has rows of " +
                  Twine(transposed ? columns : rows) + ", " + Twine(bytes) +
                  " bytes of codes (uint8) and " + Twine(blocks) +
                  " factors of the rows' type: its inputs are others");
  TrainBuilder &tb = c.tb;
  Type real = tb.b().getF32Type();
  Value byte = tb.cast(c.tensor(1), real);
  Value high = tb.floor(tb.mul(byte, tb.scalarLike(byte, 0.0625)));
  Value low = tb.sub(byte, tb.mul(high, tb.scalarLike(high, 16)));
  Dims pair = {c.dim(bytes), c.dim(1)};
  Value codes = tb.concat({tb.reshape(high, pair), tb.reshape(low, pair)}, 1);
  codes = tb.sliceAxis(tb.reshape(codes, {c.dim(2 * bytes)}), 0, c.dim(0), c.dim(count));
  auto table = DenseElementsAttr::get(
      RankedTensorType::get({16}, real),
      ArrayRef<float>(
          trainrt::codeValues(kind == 0 ? trainrt::QuantFormat::FP4 : trainrt::QuantFormat::NF4)));
  Value values = tb.gather(tb.constant(table), tb.cast(codes, tb.b().getI64Type()), 0);
  Value scales = tb.broadcast(c.tensor(2), {c.dim(blocks), c.dim(block)}, {0});
  scales = tb.sliceAxis(tb.reshape(scales, {c.dim(blocks * block)}), 0, c.dim(0), c.dim(count));
  scales = train::DetachOp::create(tb.b(), tb.loc(), scales.getType(), scales);
  Value weight = tb.mul(tb.cast(values, c.element(0)), scales);
  weight = tb.reshape(weight, {c.dim(rows), c.dim(columns)});
  if (transposed)
    weight = tb.transpose(weight, {1, 0});
  FailureOr<LegalValue *> y = applyOperator(c, "MatMul", {&c.in(0), &asInput(c, weight)});
  return failed(y) ? failure() : c.alias(**y);
}

void registerQuantization(HandlerTable &table) {
  table.add("com.microsoft::FakeQuant", fakeQuant, 3, 1);
  table.entries["com.microsoft::FakeQuant"].settings = {1, 2};
  table.add("com.microsoft::FakeQuantGrad", fakeQuantGrad, 2, 1);
  table.add("com.microsoft::MatMulBnb4", matmulBnb4, 3, 1);
  table.entries["com.microsoft::MatMulBnb4"].settings = {2};
}

} // namespace trainc::legalize
