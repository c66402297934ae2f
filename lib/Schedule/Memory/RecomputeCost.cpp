// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Bytes and FLOPs of each op by the speeds of the processor.

#include "lib/Schedule/Memory/RecomputeCost.h"

#include "dialects/Train/TrainDialect.h"
#include "trainc/Analysis/StridedViews.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

/// 0 without a number: callers have checked that sizes are complete, or tell no numbers.
int64_t trainc::numberOf(DimAttr dim, const Sizes &sizes) {
  return dim.evaluate(sizes).value_or(0);
}

/// Alone, as a kernel of its own: what fuses is overestimated, the same for all opportunities.
double trainc::secondsOf(Operation *op, const Sizes &sizes, ProcessorSpeed speed) {
  if (StepGraph::isFree(op))
    return 0;
  double flops = 0, bytes = 0;
  auto cost = dyn_cast<CostOpInterface>(op);
  flops = double(numberOf(cost ? cost.getFlops() : train::detail::elementCount(op), sizes));
  for (Value operand : op->getOperands())
    bytes += double(numberOf(getBytes(operand.getType()), sizes));
  for (Value result : op->getResults())
    bytes += double(numberOf(getBytes(result.getType()), sizes));
  // Arithmetic of pointwise ops is hidden behind their bytes.
  bool costly = cost && cost.getRecomputeClass() == RecomputeClass::Costly;
  // Others run with what reads them.
  const double launch = getFusionRole(op) == FusionRole::Pointwise ? 0 : speed.launch;
  return launch + speed.seconds(costly ? flops : 0, bytes);
}

double trainc::secondsOf(const Opportunity &opportunity, const Sizes &sizes, ProcessorSpeed speed) {
  double seconds = speed.launch;
  for (Operation *op : opportunity.ops)
    seconds += secondsOf(op, sizes, speed);
  return seconds;
}
