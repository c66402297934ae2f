// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The inner loop of the runtime on the host: one command behind the other.

#include "device/cpu/executor.h"
#include "device/cpu/commands/host_command.h"
#include "device/cpu/gemm.h"
#include "format/memory/arena_plan.h"

#include <algorithm>
#include <chrono>

namespace trainrt {

/// Runs all commands in the plan's order, on the calling thread and the pool. Stops after the first
/// command with a bad index: what comes behind it would read what it has not written.
Status Executor::run(const ExecutionPlan &plan, const Run &run, const Allocator &allocator,
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
  using Clock = std::chrono::steady_clock;
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
  auto since = [](Clock::time_point from, Clock::time_point to) {
    return std::chrono::duration<double>(to - from).count();
  };
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    if (run.stop && run.stop(int64_t(i), int64_t(plan.steps.size())))
      return Status(Code::Cancelled, "cancelled");
    if (!run.observer) {
      perform(plan.steps[i], plan, run, reports);
    } else {
      const Clock::time_point start = Clock::now();
      perform(plan.steps[i], plan, run, reports);
      TRAINRT_TRY(
          run.observer->ran(plan, i, since(began, start), since(start, Clock::now()), read));
    }
    if (reports.badIndex || reports.failed)
      return {};
  }
  return {};
}

void Executor::perform(const ExecutionPlan::Step &step, const ExecutionPlan &plan, const Run &run,
                       Reports &reports) {
  HostContext context{run,     pool,         scratch.data(), scratchStride,
                      reports, step.command, arguments,      staging};
  plan.visit(step, [&](const auto &, const auto &view) { runOnHost(view, context); });
}

/// Plans run one after the other in the same block of kernels' scratch, so the largest counts once.
int64_t estimateScratch(const std::vector<const ExecutionPlan *> &plans, unsigned threads,
                        int64_t world) {
  int64_t kernels = 0;
  WorkingMemory memory(gemmTile(), threads, world);
  for (const ExecutionPlan *plan : plans) {
    kernels = std::max(kernels, padded(plan->scratchBytes));
    for (const ExecutionPlan::Step &step : plan->steps)
      plan->visit(step, [&](const auto &, const auto &view) { addWorkingMemory(view, memory); });
  }
  return kernels * int64_t(threads) + memory.bytes();
}

} // namespace trainrt
