// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs with collectives: graphs, with what ranks do together on a stream of its own beside them,
// and waits that end when another rank does.

#include "comm/exchange_mode.h"
#include "device/cuda/commands/collective.h"
#include "device/cuda/compiled_plan.h"
#include "plan/command_info.h"

#include <algorithm>

namespace trainrt::cuda {

Status CudaDevice::joinRanks(Communicator *ranks) {
  const ExchangeMode mode = exchangeMode();
  if ((!ranks || ranks->world() == 1) && mode != ExchangeMode::Always)
    return {};
  auto exchanges = [](const Function &function) {
    return std::ranges::any_of(function.commands, [](const Command &command) {
      return std::holds_alternative<Collective>(command.op);
    });
  };
  if (std::ranges::none_of(package->program().functions, exchanges))
    return {};
  TRAINRT_TRY(measured(codeBytes, [&] { return RankExchange::open(*context, ranks, exchange); }));
  exchange->useStreams({runs});
  if (mode == ExchangeMode::Inline)
    return {};
  // As soon as blocks of others' kernels end, those of a collective begin: the other ranks wait for
  // them.
  int least = 0, greatest = 0;
  driver.cuCtxGetStreamPriorityRange(&least, &greatest);
  TRAINRT_TRY(driver.check(
      driver.cuStreamCreateWithPriority(&exchangeStream, CU_STREAM_NON_BLOCKING, greatest),
      "cannot make a stream"));
  exchange->useStreams({runs, exchangeStream});
  return {};
}

Status CudaDevice::atExchange(const Status &status, const Function &function,
                              const Command &command) const {
  return status.code() == Code::RankLost
             ? status.within(exchangeText(package->program(), function, command))
             : status;
}

/// Nothing to hold where there is one rank.
std::unique_lock<std::mutex> CudaDevice::starting() const {
  return exchange ? exchange->starting() : std::unique_lock<std::mutex>();
}

/// On the commands' own stream where there is none for collectives. Ranks may be in different
/// functions, which have the same collectives but not the same commands between them: so all of one
/// is enqueued before anything else is.
Status CudaDevice::enqueueExchange(const Compiled &compiled, size_t item) {
  const CUstream on = exchangeStream ? exchangeStream : runs;
  const auto &collective = *compiled.commands.as<CollectiveCommand>(item);
  TRAINRT_TRY(collective.begin(runs));
  if (exchangeStream)
    TRAINRT_TRY(driver.check(driver.cuStreamWaitEvent(on, collective.begun().get(), 0),
                             "cannot let an exchange wait for what is before it"));
  TRAINRT_TRY(compiled.commands.enqueue(item, on));
  return exchange->finish(on);
}

Status CudaDevice::awaitExchange(const Compiled &compiled, int32_t item) {
  const auto *collective = compiled.commands.as<CollectiveCommand>(size_t(item));
  return driver.check(driver.cuStreamWaitEvent(runs, collective->end().get(), 0),
                      "cannot wait for an exchange");
}

/// Whatever comes behind the run is behind its collectives, too.
Status CudaDevice::launchParts(const ExecutionPlan &plan, const Compiled &compiled,
                               const Graphs &graphs, bool alone) {
  if (graphs.empty())
    return {};
  for (size_t i = 0; i < compiled.parts.size(); ++i) {
    const Commands::Part &part = compiled.parts[i];
    if (!part.isCollective) {
      if (part.awaits >= 0 && !alone)
        TRAINRT_TRY(awaitExchange(compiled, part.awaits));
      const auto held = starting();
      TRAINRT_TRY(driver.check(driver.cuGraphLaunch(graphs[i], runs), "cannot launch its graph"));
    } else if (!alone) {
      TRAINRT_TRY(atExchange(enqueueExchange(compiled, part.begin), *plan.function,
                             compiled.commands.command(part.begin)));
    }
  }
  return exchangeStream && !alone && compiled.exchanges() ? order(exchangeStream, runs) : Status();
}

Status CudaDevice::awaitRanks(const ExecutionPlan &plan) {
  TRAINRT_TRY(exchange->finish(runs));
  TRAINRT_TRY(driver.check(driver.cuEventRecord(ordered.get(), runs), "cannot record an event"));
  return awaitRanks(ordered, plan);
}

/// The time of a collective counts from when this rank's GPU has come to it. What will never end is
/// ended, or whatever waits for the stream would wait for ever.
Status CudaDevice::awaitRanks(const Event &done, const ExecutionPlan &plan) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  const auto &compiled = static_cast<const Compiled &>(*plan.compiled);
  auto running = [&]() -> const Command * {
    for (const Commands::Part &part : compiled.parts)
      if (part.isCollective && compiled.commands.as<CollectiveCommand>(part.begin)->isRunning())
        return &compiled.commands.command(part.begin);
    return nullptr;
  };
  const Command *current = nullptr;
  Clock::time_point since = start;
  const Status status = done.awaitWhile([&] {
    const Command *found = running();
    if (std::exchange(current, found) != found)
      since = Clock::now();
    const Status failure = exchange->check();
    return failure.ok() && current && Clock::now() - since > exchange->limit()
               ? fail(Code::RankLost, "the others have not come within ",
                      exchange->limit().count() / 1000, " s")
               : failure;
  });
  if (!status.ok()) {
    exchange->abort(status);
    return current ? atExchange(status, *plan.function, *current) : status;
  }
  waited += std::chrono::duration<double>(Clock::now() - start).count();
  return {};
}

} // namespace trainrt::cuda
