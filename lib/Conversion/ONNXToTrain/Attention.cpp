// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attention of opset 23, written out: scaled products, bias, softmax, product. Rows without any key
// give zeros, as in PyTorch, from which such nodes are exported.

#include "NodeContext.h"

#include <cmath>

using namespace mlir;
using trainc::train::TrainBuilder;

namespace trainc::legalize {

/// [batch, seq, heads * size] -> [batch, heads, seq, size]; rank 4 stays. Null with a reason.
static Value splitHeads(NodeContext &c, int64_t input, StringRef headsName) {
  Value x = c.tensor(input);
  if (c.rank(input) == 4)
    return x;
  int64_t heads = c.attr(headsName, int64_t(0));
  Dims dims = c.dims(input);
  DimAttr size =
      dims.size() == 3 && heads > 0 ? train::divideExactly(dims[2], c.dim(heads)) : DimAttr();
  if (!size) {
    (void)c.fail("its inputs need rank 4, or rank 3 and the numbers of heads");
    return {};
  }
  x = c.tb.reshape(x, {dims[0], dims[1], c.dim(heads), size});
  return c.tb.transpose(x, {0, 2, 1, 3});
}

/// Every head of keys or values, repeated for the query heads that share it. Null with a reason.
static Value repeatHeads(NodeContext &c, Value x, DimAttr heads) {
  Dims dims = train::getDims(x);
  if (dims[1] == heads)
    return x;
  DimAttr group = train::divideExactly(heads, dims[1]);
  if (!group) {
    (void)c.fail("its query heads are no multiple of its key heads");
    return {};
  }
  x = c.tb.broadcast(x, {dims[0], dims[1], group, dims[2], dims[3]}, {0, 1, 3, 4});
  return c.tb.reshape(x, {dims[0], heads, dims[2], dims[3]});
}

static LogicalResult attention(NodeContext &c) {
  for (int64_t input = 4; input < c.numInputs(); ++input)
    if (c.has(input))
      return c.fail("past keys and values are not supported");
  for (int64_t output = 1; output < c.numOutputs(); ++output)
    if (c.used(output))
      return c.fail("only its first output is supported");
  if (!c.needFloat(0) || c.element(1) != c.element(0) || c.element(2) != c.element(0))
    return c.fail("it needs floats of one type");
  if (c.attr("softcap", 0.0) != 0)
    return c.fail("softcap is not supported");
  TrainBuilder &tb = c.tb;
  Value q = splitHeads(c, 0, "q_num_heads");
  Value k = q ? splitHeads(c, 1, "kv_num_heads") : Value();
  Value v = k ? splitHeads(c, 2, "kv_num_heads") : Value();
  if (!v)
    return failure();
  Dims query = train::getDims(q);
  k = repeatHeads(c, k, query[1]);
  v = k ? repeatHeads(c, v, query[1]) : Value();
  if (!v)
    return failure();
  Dims key = train::getDims(k), value = train::getDims(v);
  if (key[0] != query[0] || key[3] != query[3] || value[0] != query[0] || value[2] != key[2])
    return c.fail("the sizes of its query, key and value do not fit");
  double scale = c.attr("scale", 0.0);
  if (scale == 0) {
    auto size = query[3].getConstant();
    if (!size || *size <= 0)
      return c.fail("without a scale its head size has to be static");
    scale = 1 / std::sqrt(double(*size));
  }
  double root = std::sqrt(scale);
  Value scores =
      tb.matmul(tb.mul(q, tb.scalarLike(q, root)), tb.mul(k, tb.scalarLike(k, root)), false, true);
  Dims dims = train::getDims(scores);
  Value shut = tb.scalarLike(scores, -INFINITY);
  bool guarded = false;
  if (c.has(3)) {
    std::optional<Dims> common = c.broadcastDims({dims, c.dims(3)});
    if (!common)
      return failure();
    if (*common != dims)
      return c.fail("its mask does not fit the scores");
    Value mask = c.broadcastTo(c.tensor(3), dims);
    guarded = true;
    if (c.element(3).isInteger(1))
      scores = tb.select(mask, scores, shut);
    else if (c.element(3) == c.element(0))
      scores = tb.add(scores, mask);
    else
      return c.fail("its mask is neither boolean nor of the type of its query");
  }
  if (c.attr("is_causal", int64_t(0))) {
    Value row = tb.iota(dims, tb.b().getI64Type(), 2);
    Value column = tb.iota(dims, tb.b().getI64Type(), 3);
    scores = tb.select(tb.compare("le", column, row), scores, shut);
  }
  Value weights = train::SoftmaxOp::create(tb.b(), tb.loc(), scores.getType(), scores, 3, guarded);
  Value y = tb.matmul(weights, v);
  if (c.rank(0) == 3)
    y = tb.reshape(tb.transpose(y, {0, 2, 1, 3}), {query[0], query[2], query[1] * value[3]});
  return c.set(y);
}

void registerAttention(HandlerTable &table) { table.add("Attention", attention, 3, 23); }

} // namespace trainc::legalize
