// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Commands by the speeds of the processor, collectives by those of the link.

#include "trainc/Report/StepTime.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

/// Functions of full batches: their variants are quicker where there is padding.
std::optional<StepTime> trainc::estimateStepTime(const MemoryReport &report) {
  if (!report.distributed)
    return std::nullopt;
  StepTime time;
  for (const FunctionMemory &function : report.step.functions) {
    if (!function.variantOf().empty())
      continue;
    FailureOr<FunctionMemory::Seconds> seconds = function.estimate(report.sizes, report.link);
    if (failed(seconds))
      return std::nullopt;
    const double runs = function.name() == "micro" ? double(report.accumulate) : 1;
    const double exchanged = seconds->withLast ? 1 : runs;
    time.computing += runs * seconds->computing;
    time.exchanging += exchanged * seconds->exchanging;
    time.hidden += exchanged * seconds->hidden;
    time.sent += exchanged * seconds->sent;
    time.exchanges += int64_t(exchanged) * seconds->exchanges;
  }
  return time;
}

std::string trainc::describeModel(const MemoryReport &report) {
  const TargetTraits &traits = report.step.target->traits;
  std::string text;
  llvm::raw_string_ostream out(text);
  out << "by the model of " << traits.phrase << ": "
      << llvm::format("%g", traits.speeds.f32.flops / 1e9) << " GFLOP/s in f32, "
      << llvm::format("%g", traits.speeds.f32.bytes / 1e9) << " GB/s of memory; a link of "
      << llvm::format("%g", report.link.bandwidth / 1e9) << " GB/s each way behind "
      << llvm::format("%g", report.link.latency * 1e6) << " us";
  return text;
}

FailureOr<FunctionMemory::Seconds> FunctionMemory::estimate(const Sizes &sizes,
                                                            const LinkSpeed &link) const {
  FailureOr<SmallVector<int64_t, 0>> bytes = evaluateBytes(lifetimes, sizes);
  if (failed(bytes))
    return failure();
  FailureOr<SmallVector<double, 0>> seconds =
      estimateSeconds(lifetimes, *bytes, sizes, target->traits.speeds);
  if (failed(seconds))
    return failure();
  Seconds sum;
  // When commands, and exchanges one behind the other, are done; of what exchanges touch.
  double now = 0, linkFree = 0;
  DenseMap<Value, double> busy;
  for (auto [command, duration] : llvm::zip_equal(lifetimes.commands, *seconds)) {
    sum.computing += duration;
    double begin = now;
    for (Value operand : command->getOperands())
      begin = std::max(begin, busy.lookup(operand));
    const plan::CommandCost cost = cast<plan::PlanCommandOpInterface>(command).getCommandCost(
        [&](DimAttr dim) { return double(dim.evaluate(sizes).value_or(0)); });
    if (!cost.sent) {
      now = begin + duration;
      continue;
    }
    ++sum.exchanges;
    sum.sent += *cost.sent;
    // A rank that is alone waits for no link.
    const double exchange = *cost.sent > 0 ? link.seconds(*cost.sent) : 0;
    sum.exchanging += exchange;
    linkFree = std::max(now, linkFree) + exchange;
    if (!target->traits.exchangesBeside)
      now = linkFree;
    for (Value operand : command->getOperands())
      busy[operand] = linkFree;
    sum.withLast = llvm::all_of(command->getOperands(), [](Value operand) {
      return operand.getDefiningOp<plan::BufferOp>().getSpace() == plan::Space::gradient;
    });
  }
  sum.hidden = std::max(0.0, sum.computing + sum.exchanging - std::max(now, linkFree));
  return sum;
}
