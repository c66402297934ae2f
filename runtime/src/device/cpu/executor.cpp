// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The inner loop of the runtime on the host: one command behind the other.

#include "device/cpu/executor.h"
#include "device/cpu/commands/host_command.h"
#include "device/cpu/gemm.h"
#include "format/memory/arena_plan.h"

#include <algorithm>
#include <chrono>

namespace trainrt {

Status Executor::run(const ExecutionPlan &plan, const Run &run, const Allocator &allocator,
                     Reports &reports) {
  int64_t stride = padded(plan.scratchBytes);
  if (stride > scratchStride) {
    scratchStride = 0;
    TRAINRT_TRY(
        scratch.allocate(allocator, stride * int64_t(pool.size()), "kernels' scratch", false));
    scratchStride = stride;
  }
  using Clock = std::chrono::steady_clock;
  const CommandObserver::Read read = [&](uint32_t buffer, int64_t offset, int64_t,
                                         const void *&host) {
    host = static_cast<unsigned char *>(run.buffers[buffer]) + offset;
    return Status();
  };
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
    if (reports.badIndex)
      return {};
  }
  return {};
}

void Executor::perform(const ExecutionPlan::Step &step, const ExecutionPlan &plan, const Run &run,
                       Reports &reports) {
  HostContext context{run, pool, scratch.data(), scratchStride, reports, step.command, arguments};
  plan.visit(step, [&](const auto &, const auto &view) { runOnHost(view, context); });
}

int64_t estimateScratch(const std::vector<const ExecutionPlan *> &plans, unsigned threads) {
  int64_t kernels = 0;
  WorkingMemory memory(gemmTile(), threads);
  for (const ExecutionPlan *plan : plans) {
    kernels = std::max(kernels, padded(plan->scratchBytes));
    for (const ExecutionPlan::Step &step : plan->steps)
      plan->visit(step, [&](const auto &, const auto &view) { addWorkingMemory(view, memory); });
  }
  return kernels * int64_t(threads) + memory.bytes();
}

} // namespace trainrt
