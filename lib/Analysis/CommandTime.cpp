// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Commands by what the model of a processor (ProcessorSpeed) takes for them.

#include "trainc/Analysis/CommandTime.h"
#include "dialects/Train/Collectives/Collectives.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace {
/// Seconds of commands, by a roofline: no command is quicker than its arithmetic or its bytes
/// allow.
class Estimator {
public:
  Estimator(const FunctionLifetimes &lifetimes, ArrayRef<int64_t> bytes, SymbolLookup symbols,
            const ProcessorSpeeds &speeds)
      : lifetimes(lifetimes), bytes(bytes), symbols(symbols), speeds(speeds) {}

  double operator()(Operation *command) {
    const plan::CommandCost cost = cast<plan::PlanCommandOpInterface>(command).getCommandCost(
        [&](DimAttr dim) { return value(dim); });
    // What goes over a link takes the link's time.
    if (cost.isTransfer || cost.sent)
      return 0;
    // A command without arithmetic is limited by bytes alone: any speed has the same bandwidth.
    const ProcessorSpeed &speed = cost.flops ? speedOf(cost) : speeds.f32;
    return speed.seconds(cost.flops, cost.bytes ? *cost.bytes : touched(command));
  }

  bool isKnown = true;

  /// 0 where a size has no number; the whole estimate fails then.
  double value(DimAttr dim) {
    FailureOr<int64_t> number = dim.evaluate([&](StringRef name) -> std::optional<int64_t> {
      // No time here depends on it.
      return name == train::kWorldSymbol || name == train::kAllRanksSymbol ? 1 : symbols(name);
    });
    isKnown &= succeeded(number);
    return succeeded(number) ? double(*number) : 0;
  }

private:
  /// Each buffer once, as large as it is: commands that read a part of one are overestimated.
  double touched(Operation *command) {
    llvm::SmallDenseSet<Value> seen;
    double sum = 0;
    for (Value operand : command->getOperands())
      if (seen.insert(operand).second)
        sum += double(bytes[lifetimes.index.lookup(operand)]);
    return sum;
  }
  /// Types narrower than 16 bits never multiply: they are dequantized first.
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
  // Of the loops that a command is in, how often it runs.
  SmallVector<double> runs = {1};
  for (Operation *command : lifetimes.commands) {
    if (auto loop = dyn_cast<plan::LoopOp>(command)) {
      if (loop.getEnd())
        runs.pop_back();
      else
        runs.push_back(runs.back() * estimate.value(loop.getSteps()));
    }
    // A further stage of a kernel finishes what little the one before has left.
    // Stages of one kernel are launches of the same buffers, one behind the other.
    const bool isStage = before && isa<plan::LaunchOp>(before) && isa<plan::LaunchOp>(command) &&
                         before->getOperands() == command->getOperands();
    seconds.push_back(isStage ? 0 : runs.back() * estimate(command));
    before = command;
  }
  if (!estimate.isKnown)
    return failure();
  return seconds;
}
