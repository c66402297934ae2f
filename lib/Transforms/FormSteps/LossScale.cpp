// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Dynamic loss scaling as state of the step.

#include "lib/Transforms/FormSteps/LossScale.h"

#include "dialects/Train/Collectives/Collectives.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace {
constexpr StringLiteral kScale = "loss_scale", kCount = "growth_count", kSkipped = "skipped_steps";
/// Defaults of torch.amp.GradScaler. State begins as 0, which stands for the first scale.
constexpr double kFirstScale = 65536, kGrowth = 2, kBackoff = 0.5, kGrowthInterval = 2000;
/// Below this, f16 is not what the model needs.
constexpr double kLeastScale = 1.0 / 65536;
} // namespace

/// `changes`: whether this function adapts the scale; micro-batches only use it.
LossScale::LossScale(StepBuilder &step, Location loc, bool changes) : step(step), loc(loc) {
  OpBuilder &b = step.builder();
  scaleState = step.argument("state", kScale, getTensorType({}, b.getF32Type()), loc);
  if (!changes)
    return;
  countState = step.argument("state", kCount, getTensorType({}, b.getI32Type()), loc);
  skippedState = step.argument("state", kSkipped, getTensorType({}, b.getI64Type()), loc);
}

/// State begins as zeros; a scale is never 0 afterwards, as kLeastScale bounds it.
Value LossScale::getScale() {
  if (scale)
    return scale;
  TrainBuilder tb = step.at(loc);
  Value isFirst = tb.compare("eq", scaleState, tb.scalarLike(scaleState, 0));
  return scale = tb.select(isFirst, tb.scalarLike(scaleState, kFirstScale), scaleState);
}

/// In f32, so that small gradients of f16 do not vanish before they are used.
Value LossScale::unscale(Value gradient) {
  TrainBuilder tb = step.at(gradient.getLoc());
  // A power of two: exact.
  if (!inverse)
    inverse = tb.div(tb.scalarLike(getScale(), 1), getScale());
  Value wide = tb.cast(gradient, inverse.getType());
  return tb.cast(tb.mul(wide, tb.splat(inverse, wide)), gradient.getType());
}

/// All elements: one that is not finite means that the step is of no use.
void LossScale::check(Value gradient) {
  TrainBuilder tb = step.at(gradient.getLoc());
  auto axes = llvm::to_vector(llvm::seq<int64_t>(0, getRank(gradient)));
  Value bad = tb.logicalOr(tb.isNan(gradient), tb.isInf(gradient));
  Value any = tb.reduce(ReduceKind::max, bad, axes);
  overflow = overflow ? tb.logicalOr(overflow, any) : any;
}

void LossScale::checkRanks() {
  if (!overflow)
    return;
  TrainBuilder tb = step.at(loc);
  overflow = buildHoldsOnAnyRank(tb, overflow);
}

/// Bias corrections count updates that were made: skipped steps made none.
Value LossScale::countUpdates(Value stepNumber) {
  return step.at(loc).sub(stepNumber, skippedState);
}

/// `keep`: where the guard is set nothing changes, the scale neither.
void LossScale::finish(Value keep) {
  TrainBuilder tb = step.at(loc);
  // Without a gradient there is nothing to overflow.
  assert(countState && skippedState && "only functions that change the scale finish it");
  Value failed = overflow ? overflow : tb.scalar(tb.b().getI1Type(), 0);
  Value one = tb.scalarLike(countState, 1), zero = tb.scalarLike(countState, 0);
  Value count = tb.add(countState, one);
  // So many steps without an overflow: then larger, and counted anew.
  Value grows = tb.compare("ge", count, tb.scalarLike(count, kGrowthInterval));
  Value smaller = tb.max(tb.mul(getScale(), tb.scalarLike(getScale(), kBackoff)),
                         tb.scalarLike(getScale(), kLeastScale));
  Value larger = tb.mul(getScale(), tb.scalarLike(getScale(), kGrowth));
  Value next = tb.select(failed, smaller, tb.select(grows, larger, getScale()));
  Value skipped = tb.add(skippedState, tb.cast(failed, skippedState.getType()));
  auto update = [&](StringRef name, Value old, Value value) {
    step.update("state", name, tb.select(keep, old, value));
  };
  update(kScale, scaleState, next);
  update(kCount, countState, tb.select(tb.logicalOr(failed, grows), zero, count));
  update(kSkipped, skippedState, skipped);
}
