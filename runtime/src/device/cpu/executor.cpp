// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The inner loop of the runtime on the host: one command behind the other.

#include "device/cpu/executor.h"
#include "comm/exchange_mode.h"
#include "device/cpu/commands/host_command.h"
#include "device/cpu/commands/loop.h"
#include "device/cpu/gemm.h"
#include "format/memory/arena_plan.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <optional>

namespace trainrt {

using Clock = std::chrono::steady_clock;

static double secondsBetween(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

/// The exchanges of a run that go on beside its other commands. However the run ends, none is under
/// way behind it: the other ranks come to those that were started, or say that they will not.
class Executor::Beside {
public:
  Beside(Executor &executor, const ExecutionPlan &plan, const Run &run,
         const CommandObserver::Read &read, Clock::time_point began)
      : executor(executor), plan(plan), run(run), read(read), began(began) {}
  ~Beside() { executor.lane->finish(); }
  Beside(const Beside &) = delete;
  Beside &operator=(const Beside &) = delete;

  void start(size_t step) {
    exchanges.push_back({step, {}});
    Exchange *const exchange = &exchanges.back();
    executor.lane->start([this, exchange] {
      // Behind a failure there is nobody to exchange with.
      if (!isLost)
        executor.perform(plan.steps[exchange->step], plan, run, exchange->told);
      isLost |= exchange->told.failed != nullptr;
    });
  }

  /// Waits until the first `count` exchanges are done, and tells the observer. `reports` gets the
  /// first that failed.
  Status await(size_t count, Reports &reports) {
    for (; awaited < count && !reports.failed; ++awaited) {
      const Clock::time_point start = Clock::now();
      const ExchangeLane::Span span = executor.lane->await(awaited);
      Exchange &exchange = exchanges[awaited];
      if (exchange.told.failed) {
        reports.failed = exchange.told.failed;
        reports.why = std::move(exchange.told.why);
      } else if (run.observer) {
        run.observer->waited(secondsBetween(start, std::max(start, span.ended)));
        TRAINRT_TRY(run.observer->ran(plan, exchange.step, secondsBetween(began, span.began),
                                      secondsBetween(span.began, span.ended), read));
      }
    }
    return {};
  }
  Status awaitAll(Reports &reports) { return await(exchanges.size(), reports); }

private:
  struct Exchange {
    size_t step;
    Reports told; ///< by the lane's thread, until the exchange has been waited for
  };

  Executor &executor;
  const ExecutionPlan &plan;
  const Run &run;
  const CommandObserver::Read &read;
  const Clock::time_point began;
  std::deque<Exchange> exchanges; // does not move what it holds
  size_t awaited = 0;
  bool isLost = false; ///< of the lane's thread
};

/// What reads values has to see them as they are at its place among the commands.
bool Executor::runsBeside(const ExecutionPlan &plan, const Run &run) {
  if (plan.exchangeWaits.empty() || !run.ranks || run.ranks->world() == 1 ||
      !run.ranks->exchangesBeside() || (run.observer && run.observer->reads()) ||
      exchangeMode() == ExchangeMode::Inline)
    return false;
  if (!lane)
    lane = std::make_unique<ExchangeLane>();
  return true;
}

/// The other ranks wait for these exchanges, whatever this rank's values are: it tells them of its
/// error behind the run.
void Executor::exchangeRest(const ExecutionPlan &plan, size_t first, Run &run, Beside *beside) {
  Reports ignored;
  run.metBadIndex = true;
  for (size_t i = first; run.ranks && !ignored.failed && i < plan.steps.size(); ++i) {
    if (!std::holds_alternative<Collective>(plan.steps[i].command->op))
      continue;
    if (beside)
      beside->start(i);
    else
      perform(plan.steps[i], plan, run, ignored);
  }
}

/// Runs all commands in the plan's order, on the calling thread and the pool, but for exchanges,
/// which begin in this order. Stops after the first command with a bad index or an error of a
/// plug-in: what comes behind it would read what it has not written.
Status Executor::run(const ExecutionPlan &plan, Run &run, const Allocator &allocator,
                     Reports &reports) {
  int64_t stride = padded(plan.scratchBytes);
  if (stride > scratchStride) {
    // Grows only, and for the most that any plan has asked for so far. Zero first: where allocating
    // fails, the next run must not take the released memory for large enough.
    scratchStride = 0;
    TRAINRT_TRY(
        scratch.allocate(allocator, stride * int64_t(pool.size()), "kernels' scratch", false));
    scratchStride = stride;
  }
  // On the host every buffer is readable where it lies, so an observer copies nothing.
  const CommandObserver::Read read = [&](uint32_t buffer, int64_t offset, int64_t,
                                         const void *&host) {
    host = static_cast<unsigned char *>(run.buffers[buffer]) + offset;
    return Status();
  };
  // Without an observer no clock is read between commands: small ones take less than a microsecond.
  if (run.observer)
    TRAINRT_TRY(run.observer->begin(plan, read));
  const Clock::time_point began = Clock::now();
  std::optional<Beside> beside;
  if (runsBeside(plan, run))
    beside.emplace(*this, plan, run, read, began);
  Loops loops;
  for (size_t i = 0; i < plan.steps.size(); i = loops.next(plan, i, run.buffers)) {
    if (run.stop && run.stop(int64_t(i), int64_t(plan.steps.size())))
      return Status(Code::Cancelled, "cancelled");
    if (beside) {
      if (std::holds_alternative<Collective>(plan.steps[i].command->op)) {
        beside->start(i);
        continue;
      }
      TRAINRT_TRY(beside->await(plan.exchangeWaits[i], reports));
      if (reports.failed)
        return {};
    }
    if (!run.observer) {
      perform(plan.steps[i], plan, run, reports);
    } else {
      const Clock::time_point start = Clock::now();
      perform(plan.steps[i], plan, run, reports);
      TRAINRT_TRY(run.observer->ran(plan, i, secondsBetween(began, start),
                                    secondsBetween(start, Clock::now()), read));
    }
    if (reports.badIndex || reports.refused || reports.failed) {
      if (!reports.failed)
        exchangeRest(plan, i + 1, run, beside ? &*beside : nullptr);
      return {};
    }
  }
  return beside ? beside->awaitAll(reports) : Status();
}

void Executor::perform(const ExecutionPlan::Step &step, const ExecutionPlan &plan, const Run &run,
                       Reports &reports) {
  HostContext context{plan,    run,          pool, scratch.data(), scratchStride,
                      reports, step.command, kept, arguments,      staging};
  plan.visit(step, [&](const auto &, const auto &view) { runOnHost(view, context); });
}

/// Plans run one after the other in the same block of kernels' scratch, so the largest counts once.
int64_t estimateScratch(const std::vector<const ExecutionPlan *> &plans, unsigned threads,
                        const RunPlace &place) {
  int64_t kernels = 0;
  WorkingMemory memory(gemmTile(), threads, place.world, place.shards());
  for (const ExecutionPlan *plan : plans) {
    kernels = std::max(kernels, padded(plan->scratchBytes));
    for (const ExecutionPlan::Step &step : plan->steps)
      plan->visit(step, [&](const auto &, const auto &view) { addWorkingMemory(view, memory); });
  }
  return kernels * int64_t(threads) + memory.bytes();
}

} // namespace trainrt
