// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Commands by what the model of a processor (ProcessorSpeed) takes for them.

#include "trainc/Analysis/CommandTime.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace {
class Estimator {
public:
  Estimator(const FunctionLifetimes &lifetimes, ArrayRef<int64_t> bytes, SymbolLookup symbols,
            const ProcessorSpeeds &speeds)
      : lifetimes(lifetimes), bytes(bytes), symbols(symbols), speeds(speeds) {}

  double operator()(Operation *command) {
    const plan::CommandCost cost = cast<plan::PlanCommandOpInterface>(command).getCommandCost(
        [&](DimAttr dim) { return value(dim); });
    if (cost.isTransfer)
      return 0;
    const ProcessorSpeed &speed = cost.flops ? speedOf(cost) : speeds.f32;
    return speed.seconds(cost.flops, cost.bytes ? *cost.bytes : touched(command));
  }

  bool isKnown = true;

private:
  double value(DimAttr dim) {
    FailureOr<int64_t> number = dim.evaluate(symbols);
    isKnown &= succeeded(number);
    return succeeded(number) ? double(*number) : 0;
  }
  double touched(Operation *command) {
    llvm::SmallDenseSet<Value> seen;
    double sum = 0;
    for (Value operand : command->getOperands())
      if (seen.insert(operand).second)
        sum += double(bytes[lifetimes.index.lookup(operand)]);
    return sum;
  }
  const ProcessorSpeed &speedOf(const plan::CommandCost &cost) const {
    return cost.elementType.getIntOrFloatBitWidth() == 16 ? speeds.low
           : cost.tf32                                    ? speeds.tf32
                                                          : speeds.f32;
  }

  const FunctionLifetimes &lifetimes;
  ArrayRef<int64_t> bytes;
  SymbolLookup symbols;
  const ProcessorSpeeds &speeds;
};
} // namespace

FailureOr<SmallVector<double, 0>> trainc::estimateSeconds(const FunctionLifetimes &lifetimes,
                                                          ArrayRef<int64_t> bytes,
                                                          SymbolLookup symbols,
                                                          const ProcessorSpeeds &speeds) {
  Estimator estimate(lifetimes, bytes, symbols, speeds);
  SmallVector<double, 0> seconds;
  Operation *before = nullptr;
  for (Operation *command : lifetimes.commands) {
    // A further stage of a kernel finishes what little the one before has left.
    const bool isStage = before && isa<plan::LaunchOp>(before) && isa<plan::LaunchOp>(command) &&
                         before->getOperands() == command->getOperands();
    seconds.push_back(isStage ? 0 : estimate(command));
    before = command;
  }
  if (!estimate.isKnown)
    return failure();
  return seconds;
}
