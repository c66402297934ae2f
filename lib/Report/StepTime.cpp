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
    time.computing += runs * seconds->computing;
    time.exchanging += runs * seconds->exchanging;
    time.sent += runs * seconds->sent;
    time.exchanges += int64_t(runs) * seconds->exchanges;
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
  for (auto [command, duration] : llvm::zip_equal(lifetimes.commands, *seconds)) {
    sum.computing += duration;
    const plan::CommandCost cost = cast<plan::PlanCommandOpInterface>(command).getCommandCost(
        [&](DimAttr dim) { return double(dim.evaluate(sizes).value_or(0)); });
    if (!cost.sent)
      continue;
    ++sum.exchanges;
    sum.sent += *cost.sent;
    // A rank that is alone waits for no link.
    sum.exchanging += *cost.sent > 0 ? link.seconds(*cost.sent) : 0;
  }
  return sum;
}
