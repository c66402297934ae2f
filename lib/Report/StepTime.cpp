// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Commands by the speeds of the processor, collectives by those of the link.

#include "trainc/Report/StepTime.h"
#include "dialects/Plan/PlanDialect.h"
#include "dialects/Train/Collectives/Collectives.h"
#include "dialects/Train/Collectives/Shards.h"
#include "trainc/Support/Location.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

static StringRef nameOf(Value buffer) {
  return buffer.getDefiningOp<plan::BufferOp>().getName().value_or("");
}

/// Of the parameter to whose accumulator a gradient is added, or which it updates; "" where it is
/// none.
static StringRef parameterOf(Value gradient) {
  for (Operation *user : gradient.getUsers()) {
    auto launch = dyn_cast<plan::LaunchOp>(user);
    if (!launch)
      continue;
    // A grouped launch has the buffers of all members, one after the other.
    const OperandRange buffers = launch.getBuffers();
    const size_t members = launch.getGroup() ? launch.getGroup()->getDims().size() : 1;
    const size_t args = buffers.size() / members;
    for (auto [i, buffer] : llvm::enumerate(buffers))
      if (buffer == gradient && i % args < launch.getNumInputs())
        for (Value other : buffers.slice(i / args * args, args))
          if (const plan::Space space = other.getDefiningOp<plan::BufferOp>().getSpace();
              space == plan::Space::gradient || space == plan::Space::parameter)
            return nameOf(other);
  }
  return {};
}

/// What is sent has a name, or what is received, or the node that made it.
static std::vector<std::string> tensorsOf(plan::CollectiveOp collective) {
  const OperandRange tensors = collective.getTensors();
  const bool inPlace = collective.isInPlace();
  const size_t count = inPlace ? tensors.size() : tensors.size() / 2;
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) {
    const Value sent = tensors[i], received = tensors[inPlace ? i : count + i];
    StringRef name = nameOf(sent);
    if (name.empty())
      name = nameOf(received);
    if (name.empty())
      name = parameterOf(received);
    if (name.empty())
      name = getNodeName(sent.getDefiningOp()->getLoc());
    if (!llvm::is_contained(names, name))
      names.push_back(name.str());
  }
  return names;
}

/// Functions of full batches: their variants are quicker where there is padding. A rank without a
/// batch has less to do than those that it waits for.
static std::optional<StepTime> estimateFor(const MemoryReport &report, int64_t world) {
  auto module = report.step.functions.front().function()->getParentOfType<ModuleOp>();
  Sizes sizes = report.sizes.with(kWorldSymbol, world);
  // Fewer ranks than a replica's share one, and a number of them that replicas do not divide is not
  // to be had.
  if (report.shards && report.shards > world)
    sizes = sizes.with(kShardsName, world);
  else if (report.shards && world % report.shards)
    return std::nullopt;
  StepTime time;
  for (StringRef name : functionsOfStep(module, report.accumulate, world)) {
    const FunctionMemory function(module.lookupSymbol<plan::FunctionOp>(name), "",
                                  *report.step.target);
    if (!function.variantOf().empty() || name.starts_with("absent"))
      continue;
    FailureOr<FunctionMemory::Seconds> seconds = function.estimate(sizes, report.link);
    if (failed(seconds))
      return std::nullopt;
    const double runs = name == "micro" ? double(report.accumulate) : 1;
    const double exchanged = seconds->withLast ? 1 : runs;
    time.computing += runs * seconds->computing;
    time.hidden += exchanged * seconds->hidden;
    for (const FunctionMemory::Exchange &exchange : seconds->exchanges) {
      time.exchanging += exchanged * exchange.seconds;
      time.sent += exchanged * exchange.sent;
      auto collective = cast<plan::CollectiveOp>(exchange.command);
      time.exchanges.push_back({name.str(), stringifyCollectiveKind(collective.getKind()).str(),
                                tensorsOf(collective), exchanged * exchange.seconds,
                                exchanged * exchange.sent, exchanged * exchange.waited});
    }
  }
  time.alone = time.seconds();
  return time;
}

std::optional<StepTime> trainc::estimateStepTime(const MemoryReport &report) {
  if (!report.distributed)
    return std::nullopt;
  std::optional<StepTime> time = estimateFor(report, report.world);
  if (time && report.world > 1)
    time->alone = estimateFor(report, 1)->seconds();
  return time;
}

std::vector<ExchangeTime> StepTime::waitedFor() const {
  std::vector<ExchangeTime> list;
  llvm::copy_if(exchanges, std::back_inserter(list),
                [](const ExchangeTime &exchange) { return exchange.waited > 0; });
  llvm::stable_sort(
      list, [](const ExchangeTime &a, const ExchangeTime &b) { return a.waited > b.waited; });
  return list;
}

std::vector<WeakScaling> trainc::predictScaling(const MemoryReport &report) {
  // As many as one machine often has, at least.
  constexpr int64_t usual = 8;
  std::vector<WeakScaling> list;
  std::optional<StepTime> one;
  if (report.distributed)
    one = estimateFor(report, 1);
  if (!one || one->seconds() <= 0)
    return list;
  auto add = [&](int64_t world) {
    if (std::optional<StepTime> time = estimateFor(report, world))
      list.push_back({world, double(world) * one->seconds() / time->seconds()});
  };
  for (int64_t world = 2; world / 2 < std::max(usual, report.world); world *= 2) {
    // In its place among the powers.
    if (world / 2 < report.world && report.world < world)
      add(report.world);
    add(world);
  }
  return list;
}

std::string trainc::describeScaling(ArrayRef<WeakScaling> scaling) {
  std::string text;
  llvm::raw_string_ostream out(text);
  llvm::interleaveComma(scaling, out, [&](const WeakScaling &entry) {
    out << entry.world << (entry.world == 1 ? " rank: " : " ranks: ")
        << llvm::format("%.2fx", entry.ratio);
  });
  return text;
}

std::string trainc::describeExchange(const ExchangeTime &exchange) {
  constexpr size_t mostNames = 3;
  const ArrayRef<std::string> names = exchange.tensors;
  std::string text;
  llvm::raw_string_ostream out(text);
  out << exchange.kind << " in " << exchange.function << " of "
      << llvm::join(names.take_front(mostNames), ", ");
  if (names.size() > mostNames)
    out << " and " << names.size() - mostNames << " more";
  out << ", " << formatBytes(int64_t(exchange.sent));
  return text;
}

std::string trainc::describeModel(const MemoryReport &report) {
  const TargetTraits &traits = report.step.target->traits;
  const bool isAssumed =
      report.link.latency == traits.link.latency && report.link.bandwidth == traits.link.bandwidth;
  std::string text;
  llvm::raw_string_ostream out(text);
  out << "by the model of " << traits.phrase << ": "
      << llvm::format("%g", traits.speeds.f32.flops / 1e9) << " GFLOP/s in f32, "
      << llvm::format("%g", traits.speeds.f32.bytes / 1e9) << " GB/s of memory; "
      << (isAssumed ? "assumed is a link of " : "a link of ")
      << llvm::format("%g", report.link.bandwidth / 1e9) << " GB/s each way behind "
      << llvm::format("%g", report.link.latency * 1e6) << " us"
      << (isAssumed ? " (--link-rate and --link-latency say another)" : "");
  return text;
}

/// Exchanges run one behind the other, from where they stand among the commands, while those that
/// do not touch their tensors go on. What a command waits is told of the exchanges that run
/// meanwhile: the one that it waits for, and those in front of that.
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
  // When commands are done, and the exchanges; the first of these that may not be.
  double now = 0, linkFree = 0;
  SmallVector<double> ends;
  size_t pending = 0;
  DenseMap<Value, double> busy;
  auto waitUntil = [&](double time) {
    for (; pending < ends.size() && now < time; ++pending) {
      const double end = std::min(time, ends[pending]);
      sum.exchanges[pending].waited += std::max(0.0, end - now);
      now = std::max(now, end);
      // The rest of it is still under way.
      if (ends[pending] > time)
        break;
    }
  };
  for (auto [command, duration] : llvm::zip_equal(lifetimes.commands, *seconds)) {
    sum.computing += duration;
    const plan::CommandCost cost = cast<plan::PlanCommandOpInterface>(command).getCommandCost(
        [&](DimAttr dim) { return double(dim.evaluate(sizes).value_or(0)); });
    if (!cost.sent) {
      double begin = now;
      for (Value operand : command->getOperands())
        begin = std::max(begin, busy.lookup(operand));
      waitUntil(begin);
      now += duration;
      continue;
    }
    // A rank that is alone waits for no link.
    const double exchange = *cost.sent > 0 ? link.seconds(*cost.sent) : 0;
    sum.exchanges.push_back({command, exchange, *cost.sent, 0});
    linkFree = std::max(now, linkFree) + exchange;
    ends.push_back(linkFree);
    for (Value operand : command->getOperands())
      busy[operand] = linkFree;
    sum.withLast = llvm::all_of(command->getOperands(), [](Value operand) {
      return operand.getDefiningOp<plan::BufferOp>().getSpace() == plan::Space::gradient;
    });
  }
  waitUntil(linkFree);
  for (const Exchange &exchange : sum.exchanges)
    sum.hidden += exchange.seconds - exchange.waited;
  return sum;
}
