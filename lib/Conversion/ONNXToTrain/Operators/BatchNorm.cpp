// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Batch normalisation. While training it divides by the statistics of the batch and moves the
// running ones towards them, which are state of the step; in evaluation it divides by these.

#include "Moments.h"
#include "lib/Conversion/ONNXToTrain/Handlers.h"

using namespace mlir;
using trainc::train::TrainBuilder;

namespace trainc::legalize {

/// Whether the graph means the statistics of the batch.
static bool isTrainingForm(NodeContext &c) {
  // The attribute came with opset 14; before, outputs beyond the first said so.
  if (c.op.getVersion() >= 14)
    return c.attr("training_mode", int64_t(0)) != 0;
  return c.numOutputs() > 1;
}

/// Whether the statistics are those of the input, computed by the graph: PyTorch's exporters write
/// that for a normalization without running ones (track_running_stats=False, weight
/// standardization).
static bool areComputed(NodeContext &c) {
  Value x = c.tensor(0);
  auto comesFromInput = [&](Value statistic) {
    // From the statistic back to the input.
    SmallVector<Value> work = {statistic};
    llvm::DenseSet<Value> seen;
    while (!work.empty()) {
      Value value = work.pop_back_val();
      if (value == x)
        return true;
      if (Operation *op = seen.insert(value).second ? value.getDefiningOp() : nullptr)
        llvm::append_range(work, op->getOperands());
    }
    return false;
  };
  return llvm::all_of(ArrayRef<int64_t>{3, 4}, [&](int64_t input) {
    // Weights and constants are nobody's statistics.
    if (c.content(input) || c.in(input).constant)
      return false;
    // In training form they are not read, so any tensor that is computed will do.
    Value statistic = c.tensor(input);
    return isTrainingForm(c) ? statistic.getDefiningOp() != nullptr : comesFromInput(statistic);
  });
}

static LogicalResult batchNorm(NodeContext &c) {
  if (!c.needFloat(0))
    return failure();
  if (c.rank(0) < 2)
    return c.fail("it needs an input [batch, channels, axes...]");
  DimAttr channels = c.dims(0)[1];
  // Scale, bias, mean, variance.
  for (int64_t input : {1, 2, 3, 4})
    if (!isa<FloatType>(c.element(input)) || c.dims(input) != Dims{channels})
      return c.fail("its input " + Twine(input) + " does not have one number a channel");
  const LegalizeOptions &options = *c.state.options;
  bool training = isTrainingForm(c), computed = areComputed(c);
  // Statistics that the graph computes are no state, so there is nothing to freeze.
  if (computed)
    training |= options.batchNorm == BatchNormMode::Train;
  else if (options.batchNorm != BatchNormMode::AsGraph)
    training = options.batchNorm == BatchNormMode::Train;
  else if (!training && !options.inference)
    return c.fail("it is in inference form, as PyTorch's dynamo exporter writes it even in "
                  "training mode; --batchnorm train normalises by the batch and updates the "
                  "running statistics, --batchnorm frozen keeps these fixed");

  TrainBuilder &tb = c.tb;
  Type element = sumType(c.element(0));
  Value x = tb.cast(c.tensor(0), element);
  Value running[2] = {c.tensor(3), c.tensor(4)};
  // What they are without statistics of the batch: the mean is where differences are counted from.
  Moments moments = {tb.cast(running[0], element), tb.full({channels}, element, 0),
                     tb.cast(running[1], element)};
  SmallVector<int64_t> reduced = {0};
  for (int64_t axis = 2; axis < c.rank(0); ++axis)
    reduced.push_back(axis);
  if (training) {
    // Of the population, as the result is divided by; the running variance takes the same, as ONNX
    // has it. The first sample says where the numbers are.
    Value sample = tb.sliceAxis(x, 0, tb.dimAttr(0), tb.dimAttr(1));
    Moments ofBatch = momentsOf(tb, x, sample, reduced);
    double momentum = c.attr("momentum", 0.9);
    Value batch[2] = {ofBatch.mean(tb), ofBatch.variance};
    // Read before it is moved: each node sees what those before it left.
    for (int i : {0, 1}) {
      if (computed)
        break;
      Value *state = c.state.running(c.in(3 + i));
      if (!state && !options.inference)
        return c.fail("its running statistics are not initializers of the graph");
      Value old = tb.cast(state ? *state : running[i], element);
      Value moved = tb.add(tb.mul(old, tb.scalarLike(old, momentum)),
                           tb.mul(batch[i], tb.scalarLike(old, 1 - momentum)));
      moved = tb.cast(moved, c.element(3 + i));
      if (state)
        *state = moved;
      (void)c.set(moved, 1 + i);
    }
    // In evaluation the same step reads the running statistics.
    auto either = [&](Value ours, Value theirs) -> Value {
      if (options.inference || computed) // what the graph says is all there is
        return ours;
      return train::InTrainingOp::create(tb.b(), tb.loc(), ours.getType(), ours, theirs);
    };
    moments = {either(ofBatch.shift, moments.shift), either(ofBatch.offset, moments.offset),
               either(ofBatch.variance, moments.variance)};
  }
  Value y = normalise(tb, x, moments, reduced, c.attr("epsilon", 1e-5),
                      tb.cast(c.tensor(1), element), tb.cast(c.tensor(2), element));
  return c.set(tb.cast(y, c.element(0)));
}

void registerBatchNorm(HandlerTable &table) {
  table.add("BatchNormalization", batchNorm, 5, 9);
  // These inputs are state.
  table.entries["BatchNormalization"].updates = {3, 4};
}

} // namespace trainc::legalize
