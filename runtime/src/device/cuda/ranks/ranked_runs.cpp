// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs with collectives: graphs with what ranks do together between them, and waits that end when
// another rank does.

#include "device/cuda/commands/collective.h"
#include "device/cuda/compiled_plan.h"
#include "plan/command_info.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace trainrt::cuda {

/// TRAINRT_EXCHANGE=always lets one rank do what several do, to see what that costs.
Status CudaDevice::joinRanks(Communicator *ranks) {
  const char *when = std::getenv("TRAINRT_EXCHANGE");
  if ((!ranks || ranks->world() == 1) && !(when && std::strcmp(when, "always") == 0))
    return {};
  for (const Function &function : package->program().functions)
    for (const Command &command : function.commands)
      if (std::holds_alternative<Collective>(command.op))
        return measured(codeBytes, [&] { return RankExchange::open(*context, ranks, exchange); });
  return {};
}

Status CudaDevice::atExchange(const Status &status, const Function &function,
                              const Command &command) const {
  return status.code() == Code::RankLost
             ? status.within(exchangeText(package->program(), function, command))
             : status;
}

Status CudaDevice::launchParts(const ExecutionPlan &plan, const Compiled &compiled,
                               const Graphs &graphs) {
  if (graphs.empty())
    return {};
  const std::vector<Commands::Part> parts = compiled.commands.parts();
  for (size_t i = 0; i < parts.size(); ++i) {
    if (graphs[i]) {
      TRAINRT_TRY(driver.check(driver.cuGraphLaunch(graphs[i], runs), "cannot launch its graph"));
      continue;
    }
    const size_t item = parts[i].begin;
    Status status = compiled.commands.enqueue(item, runs);
    // Of several behind each other, each begins with what is left of the one before.
    if (status.ok() && (i + 1 == parts.size() || !parts[i + 1].isCollective))
      status = exchange->finish(runs);
    TRAINRT_TRY(atExchange(status, *plan.function, compiled.commands.command(item)));
  }
  return {};
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
  const Commands &commands = static_cast<const Compiled &>(*plan.compiled).commands;
  auto running = [&]() -> const Command * {
    for (size_t i = 0; i < commands.size(); ++i)
      if (const auto *collective = commands.as<CollectiveCommand>(i);
          collective && collective->isRunning())
        return &commands.command(i);
    return nullptr;
  };
  const Command *current = nullptr;
  Clock::time_point since = start;
  for (int turn = 0; driver.cuEventQuery(done.get()) == CUDA_ERROR_NOT_READY; ++turn) {
    // Short runs end before anything has to be looked at.
    if (turn < 100)
      continue;
    const Command *found = running();
    if (std::exchange(current, found) != found)
      since = Clock::now();
    Status status = exchange->check();
    if (status.ok() && current && Clock::now() - since > exchange->limit())
      status = fail(Code::RankLost, "the others have not come within ",
                    exchange->limit().count() / 1000, " s");
    if (!status.ok()) {
      exchange->abort(status);
      return current ? atExchange(status, *plan.function, *current) : status;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  waited += std::chrono::duration<double>(Clock::now() - start).count();
  return {};
}

} // namespace trainrt::cuda
