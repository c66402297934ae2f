// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// SoftmaxCrossEntropyLoss and NegativeLogLikelihoodLoss: a loss a row, then weights and reduction.
// The mean is over the rows that count (their weights), so a batch without any is 0 / 0, as in
// PyTorch.

#include "lib/Conversion/ONNXToTrain/ExportHazards.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using trainc::train::TrainBuilder;

namespace trainc::legalize {

/// [N, C, d...] -> [N, d..., C].
/// What softmax and its relatives work along.
static Value classesLast(NodeContext &c, Value x) {
  int64_t rank = train::getRank(x);
  if (rank <= 2)
    return x;
  SmallVector<int64_t> permutation = {0};
  for (int64_t i = 2; i < rank; ++i)
    permutation.push_back(i);
  permutation.push_back(1);
  return c.tb.transpose(x, permutation);
}

/// Labels that are probabilities, one a class. ONNX does not have them, but PyTorch's exporters
/// write cross_entropy with such targets into this operator: -sum of p * log_softmax a row, and the
/// mean over all rows.
static LogicalResult softLoss(NodeContext &c, StringRef reduction, double smoothing) {
  if (c.element(1) != c.element(0) || c.dims(1) != c.dims(0))
    return c.fail("its labels are floats, and not one probability for each score");
  TrainBuilder &tb = c.tb;
  Value scores = classesLast(c, c.tensor(0)), target = classesLast(c, c.tensor(1));
  int64_t last = c.rank(0) - 1;
  if (smoothing != 0) {
    // The classes may be a size of the batch.
    Value share = tb.splat(tb.dim(c.dims(0)[1], c.element(0)), target);
    share = tb.div(tb.scalarLike(target, smoothing), share);
    target = tb.add(tb.mul(target, tb.scalarLike(target, 1 - smoothing)), share);
  }
  // Along the classes.
  Value logarithms = train::LogSoftmaxOp::create(tb.b(), tb.loc(), scores.getType(), scores, last);
  Value terms = tb.neg(tb.mul(target, logarithms));
  if (c.has(2))
    terms = tb.mul(terms, tb.broadcast(c.tensor(2), train::getDims(terms), {last}));
  Value rows = tb.sum(terms, {last});
  if (reduction == "none")
    return c.set(rows);
  Value total = tb.sumAll(rows);
  if (reduction == "sum")
    return c.set(total);
  // Over rows, whatever their weights are.
  return c.set(tb.div(total, tb.dim(train::getNumElements(rows.getType()), c.element(0))));
}

/// PyTorch's label smoothing: a row's loss for all classes alike, averaged.
static Value smooth(NodeContext &c, Value scores) {
  TrainBuilder &tb = c.tb;
  int64_t last = train::getRank(scores) - 1;
  Value terms = train::LogSoftmaxOp::create(tb.b(), tb.loc(), scores.getType(), scores, last);
  // Weighted by class, as PyTorch has it for smoothed losses.
  if (c.has(2))
    terms = tb.mul(terms, tb.broadcast(c.tensor(2), train::getDims(terms), {last}));
  return tb.neg(tb.mean(terms, {last}));
}

static LogicalResult loss(NodeContext &c) {
  TrainBuilder &tb = c.tb;
  bool fromLogits = c.op.getOpType().starts_with("SoftmaxCrossEntropyLoss");
  StringRef reduction = c.attr("reduction", "mean");
  // Only what both numbers say is an error now.
  if (c.has(2)) {
    bool fits = c.element(2) == c.element(0) && c.rank(2) == 1;
    // What is not known while compiling is what the data makes it.
    auto weights = fits ? c.dims(2)[0].getConstant() : std::nullopt;
    auto classes = c.rank(0) >= 2 ? c.dims(0)[1].getConstant() : std::nullopt;
    if (!fits || (weights && classes && *weights != *classes))
      return c.fail("its weights need one number a class, of the scores' type");
  }
  double smoothing = c.attr("label_smoothing", 0.0);
  if (smoothing != 0)
    c.state.warnings.emplace_back(
        tb.loc(),
        llvm::formatv("PyTorch's exporter left the label smoothing of {0} out of the graph; it is "
                      "applied, as the exporter's note on the node says",
                      smoothing));
  // A second result, the log-probabilities, is defined for classes only.
  if (fromLogits && c.rank(0) >= 2 && isa<FloatType>(c.element(0)) &&
      isa<FloatType>(c.element(1)) && !c.used(1))
    return softLoss(c, reduction, smoothing);
  if (c.rank(0) < 2 || c.rank(1) != c.rank(0) - 1)
    return c.fail("its scores are " + train::dimsToString(c.dims(0)) + " and its labels " +
                  train::dimsToString(c.dims(1)) +
                  ": it needs scores [N, C, ...] and labels [N, ...]");
  if (!isa<FloatType>(c.element(0)) || !isa<IntegerType>(c.element(1)))
    return c.fail("it needs float scores and integer labels");
  if (c.element(1).isInteger(1))
    return c.fail("its labels are booleans");
  Dims expected = c.dims(0);
  expected.erase(expected.begin() + 1);
  // One label for each row of scores.
  for (auto [have, want] : llvm::zip(c.dims(1), expected))
    if (have != want)
      return failUnequal(c, have, want,
                         "sizes '" + have.str() + "' of the labels and '" + want.str() +
                             "' of the scores have to be equal");
  Value scores = classesLast(c, c.tensor(0)), labels = c.tensor(1);
  Type element = c.element(0);
  // An attribute in ONNX.
  auto ignoreAttr = dyn_cast_or_null<IntegerAttr>(c.rawAttr("ignore_index"));
  if (c.has(3)) { // an input of the variant of ONNX Runtime
    auto ignored = c.constants(3, "ignore_index");
    if (!ignored || ignored->size() != 1)
      return failure();
    ignoreAttr = tb.b().getI64IntegerAttr((*ignored)[0]);
  }
  Value counts; // rows that count
  // Null where all count.
  if (ignoreAttr)
    counts = tb.compare("ne", labels, tb.scalarLike(labels, double(ignoreAttr.getInt())));

  Value rows;
  // The whole loss as one op, which later passes know; it leaves ignored rows at 0.
  if (fromLogits) {
    auto rowsType = train::getTensorType(c.dims(1), element);
    rows = train::CrossEntropyOp::create(tb.b(), tb.loc(), rowsType, rowsType, scores, labels,
                                         ignoreAttr ? tb.b().getI64IntegerAttr(ignoreAttr.getInt())
                                                    : IntegerAttr())
               .getResult(0);
  }
  // An ignored label may be outside of the classes: class 0 is read instead.
  Value safe = labels;
  if (counts)
    safe = tb.select(counts, labels, tb.scalarLike(labels, 0));
  if (!fromLogits) {
    // The score of each row's own class.
    Dims column = c.dims(1);
    column.push_back(c.dim(1));
    Value picked = tb.gatherElements(scores, tb.reshape(safe, column), c.rank(1));
    rows = tb.neg(tb.reshape(picked, c.dims(1)));
    if (counts)
      rows = tb.select(counts, rows, tb.scalarLike(rows, 0));
  }
  Value weights;
  if (c.has(2)) {
    weights = tb.gather(c.tensor(2), safe, 0);
    // Ignored rows weigh nothing in the mean.
    if (counts)
      weights = tb.select(counts, weights, tb.scalarLike(weights, 0));
    rows = tb.mul(rows, weights);
  }
  // Between the loss of the label and the one of all classes alike.
  if (smoothing != 0) {
    Value even = smooth(c, scores);
    if (counts)
      even = tb.select(counts, even, tb.scalarLike(even, 0));
    rows = tb.add(tb.mul(rows, tb.scalarLike(rows, 1 - smoothing)),
                  tb.mul(even, tb.scalarLike(even, smoothing)));
  }
  if (reduction == "none") {
    (void)c.set(rows);
  } else {
    Value total = tb.sumAll(rows);
    if (reduction == "sum") {
      (void)c.set(total);
    } else {
      // What the mean divides by: the weights, the rows that count, or all of them.
      Value number;
      if (weights)
        number = tb.sumAll(weights);
      else if (counts)
        // Counted in integers: exact for any number of rows.
        number = tb.cast(tb.sumAll(tb.cast(counts, tb.b().getI64Type())), element);
      else
        number = tb.dim(train::product(c.context(), c.dims(1)), element);
      (void)c.set(tb.div(total, number));
    }
  }
  // In the layout of the input, classes on axis 1.
  if (fromLogits && c.used(1)) {
    Value x = c.tensor(0);
    (void)c.set(train::LogSoftmaxOp::create(tb.b(), tb.loc(), x.getType(), x, int64_t(1)), 1);
  }
  return success();
}

void registerLoss(HandlerTable &table) {
  table.add("SoftmaxCrossEntropyLoss", loss, 2, 12);
  table.add("NegativeLogLikelihoodLoss", loss, 2, 12);
}

} // namespace trainc::legalize
