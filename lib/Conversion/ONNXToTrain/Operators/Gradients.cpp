// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The gradient operators of ONNX Runtime's training graphs. What has a formula of its own is
// written out with the values that the forward pass left; convolutions, pools and resizing are
// differentiated.

#include "Dropout.h"
#include "lib/Conversion/ONNXToTrain/Compose.h"

using namespace mlir;
using trainc::train::TrainBuilder;

namespace trainc::legalize {

/// Whether the inputs from the first on are floats of one type and shape; a reason if not.
/// Shared by operators whose gradient comes with the tensor it belongs to.
static bool areAlike(NodeContext &c, int64_t count) {
  assert(count <= c.numInputs() && "required inputs are there");
  for (int64_t i = 0; i < count; ++i) {
    if (!c.needFloat(i))
      return false;
    if (c.element(i) != c.element(0) || c.dims(i) != c.dims(0)) {
      (void)c.fail("its inputs differ in type or shape");
      return false;
    }
  }
  return true;
}

//===- Activations --------------------------------------------------------===//

/// Input 0 is always the gradient of the output; input 1 the input or output of the operator, as
/// its formula needs.
static LogicalResult reluGrad(NodeContext &c) {
  if (!areAlike(c, 2))
    return failure();
  TrainBuilder &tb = c.tb;
  Value dy = c.tensor(0), x = c.tensor(1);
  return c.set(tb.select(tb.compare("gt", x, tb.scalarLike(x, 0)), dy, tb.scalarLike(dy, 0)));
}

/// The sign of the output is that of the input, as alpha is positive.
static LogicalResult leakyReluGrad(NodeContext &c) {
  if (!areAlike(c, 2))
    return failure();
  TrainBuilder &tb = c.tb;
  Value dy = c.tensor(0), y = c.tensor(1);
  Value scaled = tb.mul(dy, tb.scalarLike(dy, c.attr("alpha", 0.01f)));
  return c.set(tb.select(tb.compare("gt", y, tb.scalarLike(y, 0)), dy, scaled));
}

/// (Bias)(Fast)GeluGrad
static LogicalResult geluGrad(NodeContext &c) {
  if (!areAlike(c, 2))
    return failure();
  TrainBuilder &tb = c.tb;
  Value x = c.tensor(1);
  // The activation's input is the sum: only x is stored by the graph.
  if (c.has(2)) {
    std::optional<Dims> dims = c.broadcastDims({c.dims(1), c.dims(2)});
    if (!dims || *dims != c.dims(1) || c.element(2) != c.element(1))
      return c.fail("its bias does not fit its input");
    x = tb.add(x, c.broadcastTo(c.tensor(2), c.dims(1)));
  }
  // Both names of the fast one have it.
  bool tanh = c.op.getOpType().contains("Fast");
  return c.set(tb.mul(c.tensor(0), tb.geluGrad(x, tanh)));
}

/// d(x * s) = s * (1 + alpha * x * (1 - s)), where s = sigmoid(alpha * x)
static LogicalResult quickGeluGrad(NodeContext &c) {
  if (!areAlike(c, 2))
    return failure();
  TrainBuilder &tb = c.tb;
  Value dy = c.tensor(0), x = c.tensor(1), one = tb.scalarLike(x, 1);
  Value scaled = tb.mul(x, tb.scalarLike(x, c.attr("alpha", 1.702f)));
  Value s = tb.sigmoid(scaled);
  return c.set(tb.mul(dy, tb.mul(s, tb.add(one, tb.mul(scaled, tb.sub(one, s))))));
}

/// Of the output y: y * (1 - y)
static LogicalResult sigmoidGrad(NodeContext &c) {
  if (!areAlike(c, 2))
    return failure();
  TrainBuilder &tb = c.tb;
  Value y = c.tensor(1);
  return c.set(tb.mul(c.tensor(0), tb.mul(y, tb.sub(tb.scalarLike(y, 1), y))));
}

/// Of the output y: 1 - y^2
static LogicalResult tanhGrad(NodeContext &c) {
  if (!areAlike(c, 2))
    return failure();
  TrainBuilder &tb = c.tb;
  Value y = c.tensor(1);
  return c.set(tb.mul(c.tensor(0), tb.sub(tb.scalarLike(y, 1), tb.mul(y, y))));
}

/// The gradient of a (log) softmax along one axis, from its output.
static Value softmaxGradAlong(TrainBuilder &tb, Value dy, Value y, int64_t axis, bool isLog) {
  // Sums over the softmax's axis, once for each row.
  Dims dims = train::getDims(dy);
  auto total = [&](Value x) { return tb.broadcastAlong(tb.sum(x, {axis}), dims, {axis}); };
  return isLog ? tb.sub(dy, tb.mul(tb.exp(y), total(dy)))
               : tb.mul(y, tb.sub(dy, total(tb.mul(dy, y))));
}

/// The same along the axes from `axis` on as one.
static Value flatSoftmaxGrad(NodeContext &c, Value dy, Value y, int64_t axis, bool isLog) {
  // As one matrix: rows are the axes in front.
  Dims own = train::getDims(dy);
  ArrayRef<DimAttr> dims = own;
  Dims rows = {train::product(c.context(), dims.take_front(axis)),
               train::product(c.context(), dims.drop_front(axis))};
  Value dx = softmaxGradAlong(c.tb, c.tb.reshape(dy, rows), c.tb.reshape(y, rows), 1, isLog);
  return c.tb.reshape(dx, own);
}

/// (Log)SoftmaxGrad(_13), of the output; without _13 along the axes from `axis` on as one.
static LogicalResult softmaxGrad(NodeContext &c) {
  StringRef name = c.op.getOpType();
  // Before opset 13 a softmax went over all axes from one on.
  bool flat = !name.ends_with("_13");
  std::optional<int64_t> axis = c.axis(c.attr("axis", int64_t(flat ? 1 : -1)), c.rank(0));
  if (!axis || !areAlike(c, 2))
    return failure();
  bool isLog = name.starts_with("Log");
  Value dy = c.tensor(0), y = c.tensor(1);
  return c.set(flat ? flatSoftmaxGrad(c, dy, y, *axis, isLog)
                    : softmaxGradAlong(c.tb, dy, y, *axis, isLog));
}

/// dY where the mask (input 1) has what was kept, scaled; null with a reason.
static Value throughDropout(NodeContext &c, const DropoutForm &form) {
  TrainBuilder &tb = c.tb;
  Value dy = c.tensor(0), zero = tb.scalarLike(dy, 0);
  // Without dropout the mask may not even be there.
  if (!form.active || form.ratio == 0)
    return dy;
  if (c.dims(1) != c.dims(0)) {
    (void)c.fail("its mask has another shape");
    return {};
  }
  // Nothing was kept; 1 / (1 - ratio) would be infinite.
  if (form.ratio == 1)
    return zero;
  Value scaled = tb.mul(dy, tb.scalarLike(dy, 1 / (1 - form.ratio)));
  return tb.select(c.tensor(1), scaled, zero);
}

static LogicalResult dropoutGrad(NodeContext &c) {
  std::optional<DropoutForm> form = c.needFloat(0) ? dropoutForm(c, 2, 3) : std::nullopt;
  Value dx = form ? throughDropout(c, *form) : Value();
  return dx ? c.set(dx) : failure();
}

/// Of BiasSoftmaxDropout: dY, mask, softmax, ratio.
static LogicalResult softmaxDropoutGrad(NodeContext &c) {
  std::optional<DropoutForm> form = c.needFloat(0) ? dropoutForm(c, 3, 4) : std::nullopt;
  if (!form)
    return failure();
  // There is no input that says whether it trains: the option does.
  form->active = c.state.options->dropout != DropoutMode::Off;
  if (c.element(2) != c.element(0) || c.dims(2) != c.dims(0))
    return c.fail("its softmax differs from its output gradient in type or shape");
  Value dy = throughDropout(c, *form);
  std::optional<int64_t> axis = c.axis(c.attr("axis", int64_t(1)), c.rank(0));
  if (!dy || !axis)
    return failure();
  return c.set(flatSoftmaxGrad(c, dy, c.tensor(2), *axis, /*isLog=*/false));
}

//===- Losses -------------------------------------------------------------===//

/// (softmax - one hot) for the rows that count, by their weights and the reduction; an added tensor
/// at the end, if there is one.
static LogicalResult crossEntropyGrad(NodeContext &c) {
  // ONNX Runtime's own form, which has ignore_index as an input and may add a gradient.
  bool internal = c.op.getOpType().contains("Internal");
  StringRef reduction = c.attr("reduction", "mean");
  if (!c.needFloat(1) || !c.needFloat(0) || !c.needInteger(2))
    return failure();
  if (c.rank(1) < 2 || c.rank(2) != c.rank(1) - 1)
    return c.fail("it needs log probabilities [N, C, ...] and labels [N, ...]");
  TrainBuilder &tb = c.tb;
  Dims dims = c.dims(1), rows = c.dims(2);
  Type element = c.element(1);
  // All axes but that of the classes.
  SmallVector<int64_t> rowAxes = {0};
  for (int64_t i = 2; i < c.rank(1); ++i)
    rowAxes.push_back(i);
  auto overClasses = [&](Value row) { return tb.broadcast(row, dims, rowAxes); };
  // Null: all rows count.
  Value labels = tb.cast(c.tensor(2), tb.b().getI64Type()), counts;
  if (internal && c.has(4)) {
    auto ignored = c.constants(4, "ignore_index");
    if (!ignored || ignored->size() != 1)
      return failure();
    counts = tb.compare("ne", labels, tb.scalarLike(labels, double((*ignored)[0])));
  } else if (auto ignored = dyn_cast_or_null<IntegerAttr>(c.rawAttr("ignore_index"))) {
    counts = tb.compare("ne", labels, tb.scalarLike(labels, double(ignored.getInt())));
  }
  Value weights; // of the rows
  if (c.has(3)) {
    // Rows that do not count may have labels outside of the table.
    Value safe = counts ? tb.select(counts, labels, tb.scalarLike(labels, 0)) : labels;
    weights = tb.cast(tb.gather(c.tensor(3), safe, 0), element);
  }
  // A row that does not count has weight 0.
  if (counts) {
    Value one = tb.full(rows, element, 1);
    weights = tb.select(counts, weights ? weights : one, tb.scalarLike(one, 0));
  }
  Value dy = tb.cast(c.tensor(0), element), factor;
  if (reduction == "none") {
    if (train::getDims(dy) != rows)
      return c.fail("its output gradient does not have the labels' shape");
    factor = weights ? tb.mul(dy, weights) : dy;
  } else if (reduction == "mean" || reduction == "sum") {
    if (!train::product(c.context(), train::getDims(dy)).isConstant(1))
      return c.fail("its output gradient is not a scalar");
    dy = tb.reshape(dy, {});
    // The mean is by the weights of the rows that count.
    if (reduction == "mean")
      dy = tb.div(dy, weights ? tb.sumAll(weights)
                              : tb.dim(train::product(c.context(), rows), element));
    factor = tb.broadcast(dy, rows, {});
    if (weights)
      factor = tb.mul(factor, weights);
  } else {
    return c.fail("reduction = '" + reduction + "' is unknown");
  }
  // One hot without a table: the position is compared with the label.
  Value classes = tb.iota(dims, tb.b().getI64Type(), 1);
  Value hit = tb.compare("eq", overClasses(labels), classes);
  Value probability = tb.exp(c.tensor(1));
  Value difference =
      tb.select(hit, tb.sub(probability, tb.scalarLike(probability, 1)), probability);
  Value dx = tb.mul(difference, overClasses(factor));
  if (internal && c.has(5)) {
    if (c.dims(5) != dims || c.element(5) != element)
      return c.fail("its bias differs from the log probabilities in type or shape");
    dx = tb.add(dx, c.tensor(5));
  }
  return c.set(dx);
}

//===- Normalisations -----------------------------------------------------===//

/// LayerNormalizationGrad (y, x, scale, mean, rstd) and, without a mean,
/// SimplifiedLayerNormalizationGrad (y, x, scale, rstd).
/// Everything in the type of the deviations, which is f32 for 16-bit tensors.
static LogicalResult layerNormGrad(NodeContext &c) {
  bool centred = !c.op.getOpType().starts_with("Simplified");
  int64_t rstdInput = centred ? 4 : 3;
  std::optional<int64_t> axis = c.axis(c.attr("axis", int64_t(-1)), c.rank(1));
  if (!axis || !areAlike(c, 2))
    return failure();
  TrainBuilder &tb = c.tb;
  Dims dims = c.dims(1);
  Dims rows(dims.begin(), dims.begin() + *axis), normal(dims.begin() + *axis, dims.end());
  Type element = c.element(rstdInput);
  // The rows may come with axes of size 1 behind them: only their number counts.
  if (c.dims(2) != normal ||
      train::product(c.context(), c.dims(rstdInput)) != train::product(c.context(), rows))
    return c.fail("its scale or deviations do not have the shapes of the normalised axes and rows");
  SmallVector<int64_t> outer = llvm::to_vector(llvm::seq<int64_t>(0, *axis)), inner;
  for (int64_t i = *axis; i < c.rank(1); ++i)
    inner.push_back(i);
  auto ofRow = [&](Value x) { return tb.broadcastAlong(tb.reshape(x, rows), dims, inner); };
  Value dy = tb.cast(c.tensor(0), element), x = tb.cast(c.tensor(1), element);
  Value scale = tb.broadcast(tb.cast(c.tensor(2), element), dims, inner);
  Value rstd = ofRow(c.tensor(rstdInput));
  // What the forward pass multiplied by the scale.
  Value standard = tb.mul(centred ? tb.sub(x, ofRow(c.tensor(3))) : x, rstd);
  Value g = tb.mul(dy, scale);
  // The parts along the standardized row, and along the constant one, vanish.
  Value dx = tb.sub(g, tb.mul(standard, ofRow(tb.mean(tb.mul(g, standard), inner))));
  if (centred)
    dx = tb.sub(dx, ofRow(tb.mean(g, inner)));
  // A sum over no axes is the value itself.
  auto overRows = [&](Value x) { return outer.empty() ? x : tb.sum(x, outer); };
  (void)c.set(tb.cast(tb.mul(dx, rstd), c.element(1)), 0);
  (void)c.set(tb.cast(overRows(tb.mul(dy, standard)), c.element(2)), 1);
  if (centred)
    (void)c.set(tb.cast(overRows(dy), c.element(2)), 2);
  return success();
}

/// BatchNormInternal leaves the batch's mean and 1 / deviation for its gradient.
static LogicalResult batchNormInternal(NodeContext &c) {
  const LegalizeOptions &options = *c.state.options;
  // What follows is batchNorm with outputs that only ONNX Runtime's gradient reads.
  if (!c.needFloat(0) || c.rank(0) < 2)
    return c.fail("it needs an input [batch, channels, axes...]");
  if (options.batchNorm == BatchNormMode::Frozen || !c.attr("training_mode", int64_t(1)))
    return c.fail("its gradient in the graph is that of the batch's statistics, which --batchnorm "
                  "frozen cannot change");
  DimAttr channels = c.dims(0)[1];
  for (int64_t input : {1, 2, 3, 4})
    if (!isa<FloatType>(c.element(input)) || c.dims(input) != Dims{channels})
      return c.fail("its input " + Twine(input) + " does not have one number a channel");
  TrainBuilder &tb = c.tb;
  Dims dims = c.dims(0);
  SmallVector<int64_t> reduced = {0};
  for (int64_t axis = 2; axis < c.rank(0); ++axis)
    reduced.push_back(axis);
  auto ofChannel = [&](Value value) { return tb.broadcast(value, dims, {1}); };
  Value x = c.tensor(0), mean = tb.mean(x, reduced);
  Value centred = tb.sub(x, ofChannel(mean));
  Value variance = tb.mean(tb.mul(centred, centred), reduced);
  double momentum = c.attr("momentum", 0.9f);
  Value batch[2] = {mean, variance};
  Value used[2];
  // Mean, then variance.
  for (int i : {0, 1}) {
    Value running = c.tensor(3 + i);
    // Absent for statistics that are no initializers.
    Value *state = c.state.running(c.in(3 + i));
    if (!state && !options.inference)
      return c.fail("its running statistics are not initializers of the graph");
    Value old = state ? *state : running;
    Value moved = tb.add(tb.mul(old, tb.scalarLike(old, momentum)),
                         tb.mul(batch[i], tb.scalarLike(old, 1 - momentum)));
    if (state)
      *state = moved;
    (void)c.set(moved, 1 + i);
    // In evaluation the running statistics, in the same step.
    used[i] = options.inference ? running
                                : train::InTrainingOp::create(tb.b(), tb.loc(), batch[i].getType(),
                                                              batch[i], running);
  }
  Value rstd = tb.rsqrt(tb.add(used[1], tb.scalarLike(used[1], c.attr("epsilon", 1e-5f))));
  // What the gradient reads: the statistics that were used.
  (void)c.set(used[0], 3);
  (void)c.set(rstd, 4);
  Value y = tb.mul(tb.sub(x, ofChannel(used[0])), ofChannel(rstd));
  return c.set(tb.add(tb.mul(y, ofChannel(c.tensor(1))), ofChannel(c.tensor(2))));
}

/// Inputs: dY, x, scale, mean, 1 / deviation, the last two as batchNormInternal leaves them.
static LogicalResult batchNormGrad(NodeContext &c) {
  if (!areAlike(c, 2) || c.rank(1) < 2)
    return failure();
  TrainBuilder &tb = c.tb;
  Dims dims = c.dims(1);
  SmallVector<int64_t> reduced = {0};
  // Per channel, over everything else.
  for (int64_t axis = 2; axis < c.rank(1); ++axis)
    reduced.push_back(axis);
  auto ofChannel = [&](Value value) { return tb.broadcast(value, dims, {1}); };
  Value dy = c.tensor(0), rstd = ofChannel(c.tensor(4));
  Value standard = tb.mul(tb.sub(c.tensor(1), ofChannel(c.tensor(3))), rstd);
  Value dx = tb.sub(tb.sub(dy, ofChannel(tb.mean(dy, reduced))),
                    tb.mul(standard, ofChannel(tb.mean(tb.mul(dy, standard), reduced))));
  (void)c.set(tb.mul(tb.mul(dx, rstd), ofChannel(c.tensor(2))), 0);
  (void)c.set(tb.sum(tb.mul(dy, standard), reduced), 1);
  return c.set(tb.sum(dy, reduced), 2);
}

//===- Elements that move -------------------------------------------------===//

/// The result type of a gradient whose shape is input `input`; null with a reason.
static Type shapedLike(NodeContext &c, int64_t input, Type element) {
  std::optional<Dims> dims = c.sizes(input, "shape");
  return dims && c.needSizes(*dims) ? Type(train::getTensorType(*dims, element)) : Type();
}

static LogicalResult gatherGrad(NodeContext &c) {
  Type type = c.needInteger(1) && c.needFloat(2) ? shapedLike(c, 0, c.element(2)) : Type();
  if (!type)
    return failure();
  // The shape of what was gathered: the indices' axes in place of the axis.
  Dims expected = train::getDims(type);
  std::optional<int64_t> axis = c.axis(c.attr("axis", int64_t(0)), expected.size());
  if (!axis)
    return failure();
  expected.erase(expected.begin() + *axis);
  expected.insert(expected.begin() + *axis, c.dims(1).begin(), c.dims(1).end());
  Value dy = c.tensor(2);
  if (c.dims(2) != expected) {
    // ONNX Runtime takes axes without a known size for equal, and then leaves the sum over what was
    // repeated out: gradients of position embeddings would be those of the first sample alone.
    // Elsewhere a mismatch is an error.
    std::optional<Dims> common = c.broadcastDims({c.dims(2), expected});
    if (!common || *common != c.dims(2))
      return c.fail("its output gradient does not have the shape of what was gathered");
    dy = sumTo(c, dy, expected);
    c.state.warnings.emplace_back(
        c.op.getLoc(),
        "the graph lacks the sum of this gradient over an axis along which the values "
        "were repeated; it is added here, where ONNX Runtime reads the first part");
  }
  // Equal indices add up, in their order.
  return c.set(c.tb.scatterAdd(c.tensor(1), dy, *axis, type));
}

static LogicalResult gatherElementsGrad(NodeContext &c) {
  Type type = c.needFloat(0) && c.needInteger(2) ? shapedLike(c, 1, c.element(0)) : Type();
  if (!type)
    return failure();
  std::optional<int64_t> axis =
      c.axis(c.attr("axis", int64_t(0)), cast<RankedTensorType>(type).getRank());
  if (!axis)
    return failure();
  return c.set(train::ScatterElementsAddOp::create(c.tb.b(), c.tb.loc(), type, c.tensor(2),
                                                   c.tensor(0), *axis));
}

/// The gradient of the operator `type` of a tensor that only its shape is known of.
static LogicalResult gradientOfShape(NodeContext &c, StringRef type, int64_t shape,
                                     int64_t gradient, ArrayRef<LegalValue *> others) {
  Type result = c.needFloat(gradient) ? shapedLike(c, shape, c.element(gradient)) : Type();
  if (!result)
    return failure();
  // A tensor of zeros stands for it: its elements do not matter for the gradient.
  SmallVector<LegalValue *> inputs = {&asInput(c, c.tb.zeros(result))};
  llvm::append_range(inputs, others);
  auto dx = gradientOf(c, type, inputs, c.tensor(gradient), {0}, c.op.getNodeAttributes());
  // The gradient of input 0, the only one that was asked for.
  return failed(dx) ? failure() : c.set((*dx)[0]);
}

static LogicalResult gatherNdGrad(NodeContext &c) {
  return gradientOfShape(c, "GatherND", 0, 2, {&c.in(1)});
}

static LogicalResult sliceGrad(NodeContext &c) {
  SmallVector<LegalValue *> others = {&c.in(2), &c.in(3)};
  // Axes and steps may be absent.
  for (int64_t i : {4, 5})
    others.push_back(c.has(i) ? &c.in(i) : nullptr);
  return gradientOfShape(c, "Slice", 1, 0, others);
}

//===- Through the forward operator ---------------------------------------===//

/// Sets the outputs that are used to the gradients of the forward operator's inputs, in their
/// order.
static LogicalResult throughForward(NodeContext &c, StringRef type, ArrayRef<LegalValue *> inputs) {
  // Outputs that nothing reads cost nothing.
  SmallVector<unsigned> wanted;
  for (unsigned i = 0; i < inputs.size(); ++i)
    if (c.used(i))
      wanted.push_back(i);
  auto gradients = gradientOf(c, type, inputs, c.tensor(0), wanted, c.op.getNodeAttributes());
  if (failed(gradients))
    return failure();
  for (auto [output, gradient] : llvm::zip_equal(wanted, *gradients))
    (void)c.set(gradient, output);
  return success();
}

static LogicalResult divGrad(NodeContext &c) {
  return throughForward(c, "Div", {&c.in(1), &c.in(2)});
}

static LogicalResult convGrad(NodeContext &c) {
  if (!c.needFloat(0) || !c.needFloat(1) || !c.needFloat(2) || c.rank(0) < 2)
    return c.fail("it needs floats [batch, channels, axes...]");
  StringRef type = c.op.getOpType() == "ConvGrad" ? "Conv" : "ConvTranspose";
  // The gradient of the bias needs no convolution.
  if (c.used(2)) {
    SmallVector<int64_t> reduced = {0};
    for (int64_t axis = 2; axis < c.rank(0); ++axis)
      reduced.push_back(axis);
    (void)c.set(c.tb.sum(c.tensor(0), reduced), 2);
  }
  return throughForward(c, type, {&c.in(1), &c.in(2)});
}

/// The gradient of the pool whose indices these are; that pool knows the sizes of what it read.
static LogicalResult maxPoolGrad(NodeContext &c) {
  // Through the graph: the node is not in the values.
  auto pool = c.op.getInputs()[1].getDefiningOp<onnx::NodeOp>();
  if (!pool || pool.getOpType() != "MaxPool" || !pool.getDomain().empty())
    return c.fail("its indices are not those of a MaxPool in the graph, whose input it needs");
  auto dx = c.needFloat(0) ? gradientOf(c, "MaxPool", {&c.state.valueOf(pool.getInputs()[0])},
                                        c.tensor(0), {0}, pool.getNodeAttributes())
                           : FailureOr<SmallVector<Value>>(failure());
  return failed(dx) ? failure() : c.set((*dx)[0]);
}

/// The sizes of what an average pool read, of whose gradient there is only dY: those of the type
/// that the file gives the result, or of the one pool that is like this gradient.
static std::optional<Dims> pooledDims(NodeContext &c) {
  Dims dims(c.dims(0).begin(), c.dims(0).begin() + 2);
  auto type = dyn_cast<RankedTensorType>(c.op.getOutputs()[0].getType());
  if (type && type.getRank() == c.rank(0) &&
      // The axes behind the channels are those that a pool changes; batch and channels are dY's.
      llvm::none_of(type.getShape().drop_front(2), ShapedType::isDynamic)) {
    for (int64_t size : type.getShape().drop_front(2))
      dims.push_back(c.dim(size));
    return dims;
  }
  std::optional<Dims> found;
  for (auto pool : c.op->getParentOfType<onnx::GraphOp>().getOps<onnx::NodeOp>()) {
    // In front of the gradient, with its attributes and with results of dY's sizes.
    if (pool.getOpType() != "AveragePool" || !pool->isBeforeInBlock(c.op) ||
        pool.getNodeAttributes() != c.op.getNodeAttributes() ||
        c.state.valueOf(pool.getOutputs()[0]).dims != c.dims(0))
      continue;
    // Several pools are fine while they agree.
    const Dims &read = c.state.valueOf(pool.getInputs()[0]).dims;
    if (found && *found != read) {
      (void)c.fail("the sizes of its result are not known: two pools that it may belong to read "
                   "different ones; export the model with sizes that are known, or fix them with "
                   "--dim");
      return std::nullopt;
    }
    found = read;
  }
  if (!found)
    (void)c.fail("the sizes of its result are not known: neither the file gives them, nor is there "
                 "an AveragePool with its attributes");
  return found;
}

static LogicalResult averagePoolGrad(NodeContext &c) {
  if (!c.needFloat(0) || c.rank(0) < 3)
    return c.fail("it needs floats [batch, channels, axes...]");
  std::optional<Dims> dims = pooledDims(c);
  if (!dims)
    return failure();
  // An average is linear: its gradient does not depend on what was read.
  Value x = c.tb.full(*dims, c.element(0), 0);
  auto dx =
      gradientOf(c, "AveragePool", {&asInput(c, x)}, c.tensor(0), {0}, c.op.getNodeAttributes());
  return failed(dx) ? failure() : c.set((*dx)[0]);
}

static LogicalResult resizeGrad(NodeContext &c) {
  SmallVector<LegalValue *> inputs = {&c.in(1)};
  // Scales, or sizes.
  for (int64_t i : {2, 3})
    inputs.push_back(c.has(i) ? &c.in(i) : nullptr);
  auto dx = gradientOf(c, "Resize", inputs, c.tensor(0), {0}, c.op.getNodeAttributes());
  return failed(dx) ? failure() : c.set((*dx)[0]);
}

/// Left over where someone gives the training model without its checkpoint.
static LogicalResult accumulator(NodeContext &c) {
  return c.fail(
      "this is a training model of ONNX Runtime, whose parameters are in a checkpoint: give "
      "trainc the folder of the artifacts, or --checkpoint FILE beside the model, and "
      "--optimizer-model FILE");
}

void registerGradients(HandlerTable &table) {
  auto add = [&](StringRef name, Handler handler, int64_t required) {
    table.add(("com.microsoft::" + name).str(), handler, required, 1);
  };
  add("ReluGrad", reluGrad, 2);
  add("LeakyReluGrad", leakyReluGrad, 2);
  for (StringRef name : {"GeluGrad", "FastGeluGrad", "BiasGeluGrad_dX", "BiasFastGeluGrad_dX"})
    add(name, geluGrad, 2);
  add("QuickGeluGrad", quickGeluGrad, 2);
  add("SigmoidGrad", sigmoidGrad, 2);
  add("TanhGrad", tanhGrad, 2);
  for (StringRef name : {"SoftmaxGrad", "SoftmaxGrad_13", "LogSoftmaxGrad", "LogSoftmaxGrad_13"})
    add(name, softmaxGrad, 2);
  add("DropoutGrad", dropoutGrad, 2);
  add("BitmaskDropoutGrad", dropoutGrad, 2);
  add("SoftmaxDropoutGrad", softmaxDropoutGrad, 3);
  add("SoftmaxCrossEntropyLossGrad", crossEntropyGrad, 3);
  add("SoftmaxCrossEntropyLossInternalGrad", crossEntropyGrad, 3);
  add("LayerNormalizationGrad", layerNormGrad, 5);
  add("SimplifiedLayerNormalizationGrad", layerNormGrad, 4);
  add("BatchNormInternal", batchNormInternal, 5);
  table.entries["com.microsoft::BatchNormInternal"].updates = {3, 4};
  add("BatchNormalizationGrad", batchNormGrad, 5);
  add("GatherGrad", gatherGrad, 3);
  add("GatherElementsGrad", gatherElementsGrad, 3);
  add("GatherNDGrad", gatherNdGrad, 3);
  add("SliceGrad", sliceGrad, 4);
  add("DivGrad", divGrad, 3);
  add("ConvGrad", convGrad, 3);
  add("ConvTransposeGrad", convGrad, 3);
  add("ResizeGrad", resizeGrad, 2);
  table.entries["com.microsoft::ResizeGrad"].settings = {2, 3};
  // These two are in the default domain.
  table.add("MaxPoolGrad", maxPoolGrad, 2, 1);
  table.add("AveragePoolGrad", averagePoolGrad, 1, 1);
  for (StringRef name : {"com.microsoft::GatherGrad", "com.microsoft::GatherNDGrad"})
    table.entries[name].kinds = HandlerTable::kIntegers;
  add("InPlaceAccumulatorV2", accumulator, 2);
  table.describe({"com.microsoft::InPlaceAccumulatorV2"}, 0, false);
}

} // namespace trainc::legalize
