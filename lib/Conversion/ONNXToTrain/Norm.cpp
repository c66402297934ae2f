// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Softmax and normalisations, which stay whole: later passes know their structure.

#include "NodeContext.h"

using namespace mlir;
using trainc::train::TrainBuilder;

namespace trainc::legalize {

static LogicalResult softmax(NodeContext &c) {
  std::optional<int64_t> axis = c.axis(c.attr("axis", int64_t(-1)), c.rank(0));
  if (!axis || !c.needFloat(0))
    return failure();
  Value x = c.tensor(0);
  if (c.op.getOpType() == "LogSoftmax")
    return c.set(train::LogSoftmaxOp::create(c.tb.b(), c.tb.loc(), x.getType(), x, *axis));
  return c.set(train::SoftmaxOp::create(c.tb.b(), c.tb.loc(), x.getType(), x, *axis,
                                        /*guarded=*/false));
}

static LogicalResult layerNorm(NodeContext &c) {
  std::optional<int64_t> axis = c.axis(c.attr("axis", int64_t(-1)), c.rank(0));
  if (!axis || !c.needFloat(0))
    return failure();
  TrainBuilder &tb = c.tb;
  const Dims &dims = c.dims(0);
  Dims rows(dims.begin(), dims.begin() + *axis), normal(dims.begin() + *axis, dims.end());
  auto fit = [&](int64_t input) -> Value {
    if (c.element(input) != c.element(0)) {
      (void)c.fail("its scale or bias has another element type");
      return {};
    }
    std::optional<Dims> common = c.broadcastDims({normal, c.dims(input)});
    if (!common)
      return {};
    if (*common != normal) {
      (void)c.fail("its scale or bias does not have the shape of the normalised axes");
      return {};
    }
    return c.broadcastTo(c.tensor(input), normal);
  };
  Value x = c.tensor(0), scale = fit(1), bias;
  if (!scale)
    return failure();
  if (c.has(2) && !(bias = fit(2)))
    return failure();
  Type element = c.element(0);
  auto rowsType = train::getTensorType(rows, element);
  auto op = train::LayerNormOp::create(tb.b(), tb.loc(), x.getType(), rowsType, rowsType, x, scale,
                                       bias, tb.b().getI64IntegerAttr(*axis),
                                       tb.b().getF64FloatAttr(c.attr("epsilon", 1e-5)));
  (void)c.set(op.getResult(), 0);
  Dims kept = rows;
  kept.append(normal.size(), c.dim(1));
  for (int64_t output : {1, 2})
    if (c.used(output))
      (void)c.set(tb.reshape(op.getOperation()->getResult(output), kept), output);
  return success();
}

static LogicalResult rmsNorm(NodeContext &c) {
  std::optional<int64_t> axis = c.axis(c.attr("axis", int64_t(-1)), c.rank(0));
  if (!axis || !c.needFloat(0))
    return failure();
  if (c.element(1) != c.element(0))
    return c.fail("its scale has another element type");
  TrainBuilder &tb = c.tb;
  Value x = c.tensor(0);
  const Dims &dims = c.dims(0);
  SmallVector<int64_t> axes;
  for (int64_t i = *axis; i < c.rank(0); ++i)
    axes.push_back(i);
  Value square = tb.mean(tb.mul(x, x), axes);
  Value rstd = tb.rsqrt(tb.add(square, tb.scalarLike(square, c.attr("epsilon", 1e-5))));
  Value y = tb.mul(x, tb.broadcastAlong(rstd, dims, axes));
  std::optional<Dims> common = c.broadcastDims({dims, c.dims(1)});
  if (!common || *common != dims)
    return c.fail("its scale does not have the shape of the normalised axes");
  return c.set(tb.mul(y, c.broadcastTo(c.tensor(1), dims)));
}

void registerNorm(HandlerTable &table) {
  table.add("Softmax", softmax, 1, 13);
  table.add("LogSoftmax", softmax, 1, 13);
  table.add("LayerNormalization", layerNorm, 2);
  table.add("RMSNormalization", rmsNorm, 2);
  table.add("SimplifiedLayerNormalization", rmsNorm, 2);
}

} // namespace trainc::legalize
