// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operators of ONNX Runtime's own domain that its optimizers put into graphs, forward ones: fused
// activations and matmuls, and variants of standard operators for training.

#include "Dropout.h"
#include "lib/Conversion/ONNXToTrain/Compose.h"

using namespace mlir;
using trainc::train::TrainBuilder;

namespace trainc::legalize {

/// Input 0 plus the bias in input 1, if there is one; null with a reason.
static Value withBias(NodeContext &c) {
  if (!c.needFloat(0))
    return {};
  // An activation without a bias.
  if (!c.has(1))
    return c.tensor(0);
  std::optional<Dims> dims = c.broadcastDims({c.dims(0), c.dims(1)});
  // A bias never makes its input larger.
  if (!dims || *dims != c.dims(0) || c.element(1) != c.element(0)) {
    (void)c.fail("its bias does not fit its input");
    return {};
  }
  return c.tb.add(c.tensor(0), c.broadcastTo(c.tensor(1), c.dims(0)));
}

/// Gelu, BiasGelu (exact) and FastGelu (by tanh).
static LogicalResult gelu(NodeContext &c) {
  Value x = withBias(c);
  if (!x)
    return failure();
  // Erf or tanh: as the name says, with no attribute for it.
  bool tanh = c.op.getOpType().contains("Fast");
  return c.set(train::GeluOp::create(c.tb.b(), c.tb.loc(), x.getType(), x, tanh));
}

/// x * sigmoid(alpha * x)
static LogicalResult quickGelu(NodeContext &c) {
  if (!c.needFloat(0))
    return failure();
  TrainBuilder &tb = c.tb;
  Value x = c.tensor(0);
  Value scaled = tb.mul(x, tb.scalarLike(x, c.attr("alpha", 1.702f)));
  return c.set(tb.mul(x, tb.sigmoid(scaled)));
}

/// alpha * op(A) * op(B), where op may swap the last two axes, or move the first one behind the
/// other leading axes.
static LogicalResult fusedMatMul(NodeContext &c) {
  assert(c.numInputs() >= 2 && "both operands are required");
  LogicalResult floats = success(c.needFloat(0) && c.needFloat(1));
  if (failed(floats))
    return failure();
  auto operand = [&](int64_t input, StringRef swap, StringRef move) -> LegalValue & {
    /// A node of its own where something moves; else the input itself.
    int64_t rank = c.rank(input);
    SmallVector<int64_t> permutation = llvm::to_vector(llvm::seq<int64_t>(0, rank));
    // The batch axis goes in front of the rows; the other leading axes move up.
    if (c.attr(move, int64_t(0)) && rank > 2)
      std::rotate(permutation.begin(), permutation.begin() + 1, permutation.end() - 1);
    if (c.attr(swap, int64_t(0)) && rank > 1)
      std::swap(permutation[rank - 1], permutation[rank - 2]);
    if (llvm::is_sorted(permutation))
      return c.in(input);
    return asInput(c, c.tb.transpose(c.tensor(input), permutation));
  };
  // Neither changes the other.
  LegalValue &a = operand(0, "transA", "transBatchA"), &b = operand(1, "transB", "transBatchB");
  FailureOr<LegalValue *> product = applyOperator(c, "MatMul", {&a, &b});
  if (failed(product))
    return failure();
  Value y = c.state.tensorOf(**product);
  double alpha = c.attr("alpha", 1.0);
  return c.set(alpha == 1 ? y : c.tb.mul(y, c.tb.scalarLike(y, alpha)));
}

/// Input 0 times, or over, a scalar of any type.
static LogicalResult scale(NodeContext &c) {
  if (!c.needFloat(0))
    return failure();
  // Of any rank, with one element.
  if (!train::product(c.context(), c.dims(1)).isConstant(1))
    return c.fail("its scale is not a scalar");
  TrainBuilder &tb = c.tb;
  Value x = c.tensor(0);
  // In the type of the input: the scale may be f32.
  Value by = tb.splat(tb.cast(tb.reshape(c.tensor(1), {}), c.element(0)), x);
  return c.set(c.attr("scale_down", int64_t(0)) ? tb.div(x, by) : tb.mul(x, by));
}

/// scale_0 * a + scale_1 * b + scale_2 * c
static LogicalResult scaledSum(NodeContext &c) {
  // At least one term, as the first is required.
  Value sum;
  for (int64_t i = 0; i < c.numInputs(); ++i) {
    if (!c.has(i))
      continue;
    if (!c.needFloat(i) || c.dims(i) != c.dims(0) || c.element(i) != c.element(0))
      return c.fail("its inputs differ in type or shape");
    double factor = c.attr(("scale_" + Twine(i)).str(), 1.0);
    Value term = c.tensor(i);
    // Null plus a term is the term.
    sum = c.tb.add(sum, c.tb.mul(term, c.tb.scalarLike(term, factor)));
  }
  return c.set(sum);
}

/// Input 0 by each of two or three factors: the gradient of ScaledSum.
static LogicalResult batchScale(NodeContext &c) {
  if (!c.needFloat(0))
    return failure();
  Value x = c.tensor(0);
  // As many results as the sum had terms.
  for (int64_t i = 0; i < c.numOutputs(); ++i) {
    double factor = c.attr(("scale_" + Twine(i)).str(), 1.0);
    (void)c.set(c.tb.mul(x, c.tb.scalarLike(x, factor)), i);
  }
  return success();
}

/// The norm of all inputs as one vector.
static LogicalResult reduceAllL2(NodeContext &c) {
  TrainBuilder &tb = c.tb;
  Value sum;
  for (int64_t i = 0; i < c.numInputs(); ++i) {
    if (!c.needFloat(i))
      return failure();
    // Squares of 16-bit numbers would overflow.
    Value x = tb.cast(c.tensor(i), tb.b().getF32Type());
    sum = tb.add(sum, tb.sumAll(tb.mul(x, x)));
  }
  return c.set(tb.sqrt(sum));
}

/// Whether no element of any input is infinite or NaN, or is just the one that an attribute names.
static LogicalResult isAllFinite(NodeContext &c) {
  TrainBuilder &tb = c.tb;
  // Each leaves one of the two kinds out.
  bool onlyInf = c.attr("isinf_only", int64_t(0)), onlyNan = c.attr("isnan_only", int64_t(0));
  if (onlyInf && onlyNan)
    return c.fail("isinf_only and isnan_only exclude each other");
  Value found;
  for (int64_t i = 0; i < c.numInputs(); ++i) {
    if (!c.needFloat(i))
      return failure();
    Value x = c.tensor(i);
    Value bad = onlyInf   ? tb.isInf(x)
                : onlyNan ? tb.isNan(x)
                          : tb.logicalOr(tb.isInf(x), tb.isNan(x));
    // A sum of counts is 0 only if each is.
    found = tb.add(found, tb.sumAll(tb.cast(bad, tb.b().getI64Type())));
  }
  return c.set(tb.compare("eq", found, tb.scalarLike(found, 0)));
}

/// Concat that also tells the lengths of its inputs.
static LogicalResult concatTraining(NodeContext &c) {
  // Missing inputs stay missing: Concat says what it thinks of them.
  SmallVector<LegalValue *> inputs;
  for (int64_t i = 0; i < c.numInputs(); ++i)
    inputs.push_back(&c.in(i));
  FailureOr<LegalValue *> result = applyOperator(c, "Concat", inputs, c.op.getNodeAttributes());
  std::optional<int64_t> axis = c.axis(c.attr("axis", int64_t(0)), c.rank(0));
  if (failed(result) || !axis)
    return failure();
  // Sizes, so that what splits the result again knows them.
  Dims lengths;
  for (int64_t i = 0; i < c.numInputs(); ++i)
    lengths.push_back(c.dims(i)[*axis]);
  (void)c.set(makeSizes(c.context(), lengths), 1);
  return c.alias(**result);
}

/// Dropout of data + bias, plus a residual.
static LogicalResult biasDropout(NodeContext &c) {
  Value x = withBias(c);
  std::optional<DropoutForm> form = x ? dropoutForm(c, 3, 4) : std::nullopt;
  if (!form)
    return failure();
  // The mask covers what is dropped: not the residual.
  Value y = applyDropout(c, x, *form, 1);
  if (c.has(2)) {
    if (c.dims(2) != c.dims(0) || c.element(2) != c.element(0))
      return c.fail("its residual differs from its data in type or shape");
    y = c.tb.add(y, c.tensor(2));
  }
  return c.set(y);
}

/// Bitmask(Bias)Dropout: masks of 32 elements a word, which only their gradient knows how to read;
/// here they are the masks of Dropout.
static bool isMaskOpaque(NodeContext &c) {
  assert(c.numOutputs() > 1 && "asked for a mask that there is");
  if (llvm::all_of(c.op.getOutputs()[1].getUsers(), [](Operation *user) {
        auto node = dyn_cast<onnx::NodeOp>(user);
        return node && node.getOpType() == "BitmaskDropoutGrad";
      }))
    return true;
  (void)c.fail("its mask of bits is read by others than BitmaskDropoutGrad; use " +
               c.op.getOpType().drop_front(StringRef("Bitmask").size()));
  return false;
}

static LogicalResult bitmaskDropout(NodeContext &c) {
  // Without a mask it is Dropout.
  if (c.numOutputs() > 1 && !isMaskOpaque(c))
    return failure();
  return c.state.legalizeWith("Dropout", c);
}

static LogicalResult bitmaskBiasDropout(NodeContext &c) {
  return c.numOutputs() > 1 && !isMaskOpaque(c) ? failure() : biasDropout(c);
}

/// Softmax of data + bias, along the axes from `axis` on as one, as before opset 13; null with a
/// reason.
static Value softmaxWithBias(NodeContext &c) {
  std::optional<int64_t> axis = c.axis(c.attr("axis", int64_t(1)), c.rank(0));
  if (!axis || !c.needFloat(0))
    return {};
  TrainBuilder &tb = c.tb;
  Value bias = c.tensor(1);
  // Otherwise ONNX's broadcasting, from the last axis on.
  if (!c.attr("is_inner_broadcast", int64_t(1)) && c.rank(1) < c.rank(0)) {
    // The bias stands for the outermost axes: ones are added behind them.
    Dims dims = c.dims(1);
    dims.insert(dims.begin() + std::min<int64_t>(*axis, dims.size()), c.rank(0) - c.rank(1),
                c.dim(1));
    bias = tb.reshape(bias, dims);
  }
  std::optional<Dims> common = c.broadcastDims({c.dims(0), train::getDims(bias)});
  if (!common || *common != c.dims(0) || c.element(1) != c.element(0)) {
    (void)c.fail("its bias does not fit its data");
    return {};
  }
  // Scores and bias; then one axis of all that are normalised.
  Value x = tb.add(c.tensor(0), c.broadcastTo(bias, c.dims(0)));
  ArrayRef<DimAttr> dims = c.dims(0);
  x = tb.reshape(x, {train::product(c.context(), dims.take_front(*axis)),
                     train::product(c.context(), dims.drop_front(*axis))});
  Value y = train::SoftmaxOp::create(tb.b(), tb.loc(), x.getType(), x, 1, /*guarded=*/false);
  return tb.reshape(y, c.dims(0));
}

static LogicalResult biasSoftmax(NodeContext &c) {
  Value y = softmaxWithBias(c);
  return y ? c.set(y) : failure();
}

/// The same and dropout, which is active in training; the softmax itself is its third result.
static LogicalResult biasSoftmaxDropout(NodeContext &c) {
  Value y = softmaxWithBias(c);
  std::optional<DropoutForm> form = y ? dropoutForm(c, 2, 3) : std::nullopt;
  if (!form)
    return failure();
  // No input says whether it trains.
  form->active = c.state.options->dropout != DropoutMode::Off;
  (void)c.set(y, 2);
  return c.set(applyDropout(c, y, *form, 1));
}

/// Axes along which operands of these shapes were repeated, from last to first.
static LogicalResult broadcastGradientArgs(NodeContext &c) {
  std::optional<Dims> shapes[2] = {c.sizes(0, "first shape"), c.sizes(1, "second shape")};
  // Equal sizes are refused to differ here, as everywhere.
  std::optional<Dims> common =
      shapes[0] && shapes[1] ? c.broadcastDims({*shapes[0], *shapes[1]}) : std::nullopt;
  if (!common)
    return failure();
  for (int64_t i : {0, 1}) {
    Dims axes;
    // Axes that a shape lacks count as repeated.
    int64_t rank = common->size(), added = rank - int64_t(shapes[i]->size());
    for (int64_t axis = rank - 1; axis >= 0; --axis)
      if (axis < added || (*shapes[i])[axis - added] != (*common)[axis])
        axes.push_back(c.dim(axis));
    (void)c.set(makeSizes(c.context(), axes), i);
  }
  return success();
}

/// The standard operator under another name.
/// ONNX Runtime's gradients use it, with axes as an input.
static LogicalResult reduceSum(NodeContext &c) {
  FailureOr<LegalValue *> sum =
      applyOperator(c, "ReduceSum", {&c.in(0), &c.in(1)}, c.op.getNodeAttributes());
  return failed(sum) ? failure() : c.alias(**sum);
}

//===- Operators that are refused -----------------------------------------===//

namespace {
/// Operators, in the domain of ONNX Runtime unless they name another, and what to do instead.
struct Refusal {
  StringLiteral operators, wayOut;
};
} // namespace

/// Refused by name, so that a reader learns what to do; unknown operators get a general message.
static constexpr Refusal refusals[] = {
    {"YieldOp PythonOp PythonOpGrad TritonOp org.pytorch.aten::ATen",
     "it calls PyTorch in the middle of a graph of ORTModule; export the model itself, which "
     "trainc "
     "differentiates, or generate artifacts"},
    {"AdamWOptimizer SGDOptimizerV2 InplaceClipGradNorm",
     "this is an optimizer model; give trainc the training model, or the folder of both"},
    {"InPlaceAccumulator ZeroGradient SGDOptimizer AdamOptimizer LambOptimizer MixedPrecisionScale "
     "IsFinite All SoftmaxCrossEntropy SoftmaxCrossEntropyGrad "
     "SparseSoftmaxCrossEntropy ::SparseSoftmaxCrossEntropy ::SparseSoftmaxCrossEntropyGrad Group "
     "PassThrough View SummaryScalar SummaryHistogram SummaryMerge SummaryText",
     "it is of training graphs before ONNX Runtime 1.14 (ORTTrainer); give trainc the forward "
     "model "
     "and an --optimizer, or generate artifacts from it"},
    {"NcclAllReduce NcclAllGather NcclReduceScatter AdasumAllReduce Send Recv MegatronF MegatronG "
     "RecordEvent WaitEvent",
     "the graph is one part of a training on several devices; export the model for one"},
    {"FlattenAndUnpad PadAndUnflatten",
     "it moves rows whose number only the data tell; export the model without the elimination of "
     "padding (ORTMODULE_ENABLE_EMBEDDING_SPARSE_OPTIMIZER=0)"},
    {"InvertibleLayerNormalizationGrad",
     "it computes from the layer's output what it does not keep; generate the graph without "
     "invertible layer normalization"},
    {"GistBinarizeEncoder GistBinarizeDecoder GistPack1Encoder GistPack1Decoder GistPack8Encoder "
     "GistPack8Decoder GistPack16Encoder GistPack16Decoder GistPackMsfp15Encoder "
     "GistPackMsfp15Decoder",
     "it packs what the backward pass reads; generate the graph without Gist, and let trainc "
     "decide what is kept"},
};

/// Its name in the table of handlers.
static std::string refusedName(StringRef op) {
  if (op.consume_front("::"))
    return op.str();
  return op.contains("::") ? op.str() : ("com.microsoft::" + op).str();
}

static LogicalResult refused(NodeContext &c) {
  StringRef domain = c.op.getDomain();
  // The table of handlers led here by this name.
  std::string name =
      domain.empty() ? c.op.getOpType().str() : (domain + "::" + c.op.getOpType()).str();
  for (const Refusal &refusal : refusals)
    for (StringRef op : llvm::split(refusal.operators, ' '))
      if (refusedName(op) == name)
        return c.fail(refusal.wayOut);
  assert(false && "registered under one of the names");
  return failure();
}

/// Since version 1 of whatever domain they are in.
static void registerRefused(HandlerTable &table) {
  for (const Refusal &refusal : refusals)
    for (StringRef op : llvm::split(refusal.operators, ' ')) {
      std::string name = refusedName(op);
      table.add(name, refused, 0, 1);
      table.describe({name}, 0, false);
    }
}

void registerMicrosoft(HandlerTable &table) {
  // All in one domain.
  auto name = [](StringRef op) { return ("com.microsoft::" + op).str(); };
  table.add(name("Gelu"), gelu, 1, 1);
  table.add(name("BiasGelu"), gelu, 2, 1);
  table.add(name("FastGelu"), gelu, 1, 1);
  table.add(name("QuickGelu"), quickGelu, 1, 1);
  table.add(name("FusedMatMul"), fusedMatMul, 2, 1);
  table.add(name("Scale"), scale, 2, 1);
  table.add(name("ScaledSum"), scaledSum, 2, 1);
  table.add(name("BatchScale"), batchScale, 1, 1);
  table.addVariadic(name("ReduceAllL2"), reduceAllL2, 1);
  table.addVariadic(name("IsAllFinite"), isAllFinite, 1);
  table.addVariadic(name("ConcatTraining"), concatTraining, 1);
  table.add(name("ReduceSumTraining"), reduceSum, 2, 1);
  table.add(name("BiasDropout"), biasDropout, 2, 1);
  table.add(name("BitmaskDropout"), bitmaskDropout, 1, 1);
  table.add(name("BitmaskBiasDropout"), bitmaskBiasDropout, 2, 1);
  // Inputs that have to be known while compiling.
  for (StringRef op : {"BiasDropout", "BitmaskBiasDropout"})
    table.entries[name(op)].settings = {3, 4};
  table.entries[name("BitmaskDropout")].settings = {1, 2};
  table.add(name("BiasSoftmax"), biasSoftmax, 2, 1);
  table.add(name("BiasSoftmaxDropout"), biasSoftmaxDropout, 2, 1);
  table.entries[name("BiasSoftmaxDropout")].settings = {2};
  registerRefused(table);
  table.add(name("BroadcastGradientArgs"), broadcastGradientArgs, 2, 1);
  table.describe({name("ConcatTraining")}, HandlerTable::kAll);
  table.describe({name("IsAllFinite")}, HandlerTable::kReals, false);
  table.describe({name("BroadcastGradientArgs")}, HandlerTable::kIntegers, false);
  // The same handlers: these do not ask for the operator's name.
  // A copy of the entry, as it is then: the standard operator has to be registered before.
  auto alias = [&](StringRef op, StringRef standard) {
    HandlerTable::Entry entry = table.entries[standard];
    // These domains have versions of their own.
    entry.since = 1;
    table.entries[name(op)] = entry;
  };
  alias("ShrunkenGather", "Gather");
  alias("SplitTraining", "Split");
  alias("Trilu", "Trilu");
  alias("NegativeLogLikelihoodLossInternal", "NegativeLogLikelihoodLoss");
  alias("NegativeLogLikelihoodLossInternal2", "NegativeLogLikelihoodLoss");
  alias("SoftmaxCrossEntropyLossInternal", "SoftmaxCrossEntropyLoss");
  // ONNX Runtime puts it into the default domain of graphs of any opset.
  table.entries["LayerNormalization"].since = 1;
}

} // namespace trainc::legalize
