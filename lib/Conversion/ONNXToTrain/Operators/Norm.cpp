// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Softmax and normalisations, which stay whole: later passes know their structure.

#include "MaskAdd.h"
#include "lib/Conversion/ONNXToTrain/Handlers.h"

using namespace mlir;
using trainc::train::TrainBuilder;

namespace trainc::legalize {

/// Along one axis; before opset 13 along all axes from there on as one.
static LogicalResult softmax(NodeContext &c) {
  bool flat = c.version() < 13;
  std::optional<int64_t> axis = c.axis(c.attr("axis", int64_t(flat ? 1 : -1)), c.rank(0));
  if (!axis || !c.needFloat(0))
    return failure();
  // A mask that hides all of a row is meant to give zeros.
  bool guarded = addsMask(c.op.getInputs()[0].getDefiningOp<onnx::NodeOp>(), c.state);
  Value x = c.tensor(0);
  if (flat) {
    // Rows, and what is normalised, as a matrix.
    ArrayRef<DimAttr> dims = c.dims(0);
    x = c.tb.reshape(x, {train::product(c.context(), dims.take_front(*axis)),
                         train::product(c.context(), dims.drop_front(*axis))});
    axis = 1;
  }
  Value y;
  if (c.op.getOpType() == "LogSoftmax")
    y = train::LogSoftmaxOp::create(c.tb.b(), c.tb.loc(), x.getType(), x, *axis);
  else
    y = train::SoftmaxOp::create(c.tb.b(), c.tb.loc(), x.getType(), x, *axis, guarded);
  // The shape of the input comes back.
  return c.set(c.tb.reshape(y, c.dims(0)));
}

static LogicalResult layerNorm(NodeContext &c) {
  std::optional<int64_t> axis = c.axis(c.attr("axis", int64_t(-1)), c.rank(0));
  if (!axis || !c.needFloat(0))
    return failure();
  TrainBuilder &tb = c.tb;
  const Dims &dims = c.dims(0);
  // Everything from the axis on is normalised as one.
  Dims rows(dims.begin(), dims.begin() + *axis), normal(dims.begin() + *axis, dims.end());
  auto fit = [&](int64_t input) -> Value {
    // PyTorch's older exporter leaves the parameters of a half-precision model as they are where it
    // computes in float32.
    if (!isa<FloatType>(c.element(input))) {
      (void)c.fail("its scale or bias is not of a float type");
      return {};
    }
    // A scale of fewer axes is broadcast over the normalised ones, never beyond.
    std::optional<Dims> common = c.broadcastDims({normal, c.dims(input)});
    if (!common)
      return {};
    if (*common != normal) {
      (void)c.fail("its scale or bias does not have the shape of the normalised axes");
      return {};
    }
    return c.broadcastTo(c.tb.cast(c.tensor(input), c.element(0)), normal);
  };
  // Without a bias it stays null.
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
  // Mean and deviation keep their axes, with size 1.
  Dims kept = rows;
  kept.append(normal.size(), c.dim(1));
  for (int64_t output : {1, 2})
    if (c.used(output))
      (void)c.set(tb.reshape(op.getOperation()->getResult(output), kept), output);
  return success();
}

/// Written out: passes raise it to what kernels know.
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
  // Nothing is subtracted: the mean of the squares, not the variance.
  Value square = tb.mean(tb.mul(x, x), axes);
  Value rstd = tb.rsqrt(tb.add(square, tb.scalarLike(square, c.attr("epsilon", 1e-5))));
  Value y = tb.mul(x, tb.broadcastAlong(rstd, dims, axes));
  // Here the scale may have any shape that fits, not only that of the normalised axes.
  std::optional<Dims> common = c.broadcastDims({dims, c.dims(1)});
  if (!common || *common != dims)
    return c.fail("its scale does not have the shape of the normalised axes");
  // What the gradient of ONNX Runtime's graph reads.
  if (c.used(1)) { // of the variant of ONNX Runtime
    Dims kept = dims;
    for (int64_t i : axes)
      kept[i] = c.dim(1);
    (void)c.set(tb.reshape(rstd, kept), 1);
  }
  return c.set(tb.mul(y, c.broadcastTo(c.tensor(1), dims)));
}

static LogicalResult meanVarianceNorm(NodeContext &c) {
  // Of images, as the operator was made for.
  auto given = c.ints("axes").value_or(SmallVector<int64_t>{0, 2, 3});
  std::optional<Axes> axes = c.axes(given, c.rank(0));
  if (!axes || !c.needFloat(0))
    return failure();
  // Reductions expect them in order.
  llvm::sort(*axes);
  // The operator's own epsilon, which is added to the deviation.
  TrainBuilder &tb = c.tb;
  const Dims &dims = c.dims(0);
  Value x = c.tensor(0);
  Value centred = tb.sub(x, tb.broadcastAlong(tb.mean(x, *axes), dims, *axes));
  Value deviation = tb.sqrt(tb.mean(tb.mul(centred, centred), *axes));
  deviation = tb.add(deviation, tb.scalarLike(deviation, 1e-9));
  return c.set(tb.div(centred, tb.broadcastAlong(deviation, dims, *axes)));
}

/// x over its 1- or 2-norm; zeros stay zeros.
static LogicalResult lpNorm(NodeContext &c) {
  int64_t p = c.attr("p", int64_t(2));
  std::optional<int64_t> axis = c.axis(c.attr("axis", int64_t(-1)), c.rank(0));
  if (!axis || !c.needFloat(0))
    return failure();
  // ONNX has no others.
  if (p != 1 && p != 2)
    return c.fail("p = " + Twine(p) + " is not supported, 1 and 2 are");
  TrainBuilder &tb = c.tb;
  Value x = c.tensor(0);
  // Squares have the sign right: no abs.
  Value sum = tb.sum(p == 1 ? tb.abs(x) : tb.mul(x, x), {*axis});
  // The root sees no zeros, so that its gradient stays finite.
  Value zero = tb.compare("eq", sum, tb.scalarLike(sum, 0));
  Value norm = tb.select(zero, tb.scalarLike(sum, 1), sum);
  if (p == 2)
    norm = tb.sqrt(norm);
  return c.set(tb.div(x, tb.broadcastAlong(norm, c.dims(0), {*axis})));
}

/// x / (bias + alpha / size * sum of squares of neighbouring channels)^beta
static LogicalResult localResponseNorm(NodeContext &c) {
  int64_t size = c.attr("size", int64_t(0));
  if (!c.needFloat(0) || c.rank(0) < 2 || size < 1)
    return c.fail("it needs floats with channels on axis 1, and a size");
  if (size > 4096) // an addition for each
    return c.fail("its size " + Twine(size) + " is above 4096 channels");
  TrainBuilder &tb = c.tb;
  const Dims &dims = c.dims(0);
  Value x = c.tensor(0), sum;
  // Half of the neighbours before, the odd one after.
  Dims low(dims.size(), c.dim(0)), padded = dims;
  low[1] = c.dim((size - 1) / 2);
  padded[1] = dims[1] + c.dim(size - 1);
  Value squares = tb.pad(tb.mul(x, x), 0, low, padded);
  // Slices of one padded tensor, channel by channel.
  for (int64_t i = 0; i < size; ++i)
    sum = tb.add(sum, tb.sliceAxis(squares, 1, c.dim(i), dims[1]));
  // Divided by the size even at the edges, where there are fewer.
  sum = tb.mul(sum, tb.scalarLike(x, c.attr("alpha", 1e-4) / double(size)));
  sum = tb.add(sum, tb.scalarLike(x, c.attr("bias", 1.0)));
  return c.set(tb.div(x, tb.pow(sum, tb.scalarLike(x, c.attr("beta", 0.75)))));
}

void registerNorm(HandlerTable &table) {
  table.add("Softmax", softmax, 1, 1);
  table.add("LogSoftmax", softmax, 1, 1);
  table.add("LayerNormalization", layerNorm, 2, 17);
  table.add("RMSNormalization", rmsNorm, 2, 23);
  table.add("SimplifiedLayerNormalization", rmsNorm, 2, 1);
  table.add("MeanVarianceNormalization", meanVarianceNorm, 1, 9);
  table.add("LpNormalization", lpNorm, 1, 1);
  table.add("LRN", localResponseNorm, 1, 1);
}

} // namespace trainc::legalize
