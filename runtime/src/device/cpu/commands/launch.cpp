// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A kernel runs on chunks of its work.

#include "device/cpu/commands/host_command.h"
#include "format/memory/arena_plan.h"

#include <cassert>

#include <cassert>

namespace trainrt {

namespace {
/// A worker's error slot, a cache line of its own.
struct alignas(64) WorkerError {
  int64_t fields[8] = {};
};
} // namespace

template <> void runOnHost(const LaunchView &step, HostContext &context) {
  ThreadPool &pool = context.pool;
  context.arguments.resize(step.places.size());
  for (size_t i = 0; i < step.places.size(); ++i)
    context.arguments[i] = context.address(step.places[i]);

  // Captured as one pointer, so that the loop's body fits into a std::function without an
  // allocation for each launch.
  struct Job {
    KernelFunction kernel;
    void *const *args;
    const int64_t *dims;
    unsigned char *scratch;
    int64_t scratchStride;
    WorkerError *errors;
  };
  // Most launches have few threads; no allocation for these.
  WorkerError few[16];
  std::vector<WorkerError> many;
  if (pool.size() > 16)
    many.resize(pool.size());
  Job job{context.run.kernels->kernel(step.op.kernel),
          context.arguments.data(),
          step.dims().data(),
          context.scratch,
          context.scratchStride,
          many.empty() ? few : many.data()};
  assert((!context.scratch || context.scratchStride % planAlignment == 0) &&
         "every worker's scratch is aligned");
  pool.parallelFor(step.work(), step.grain(), [&job](unsigned worker, int64_t begin, int64_t end) {
    // A kernel writes fields 0 to 3 itself (error, position, value, not a number); the slots are
    // zero at the start of every launch, so nothing of an earlier command is told.
    KernelContext kernelContext{job.scratch + int64_t(worker) * job.scratchStride,
                                job.errors[worker].fields};
    job.kernel(job.args, job.dims, begin, end, &kernelContext);
  });

  // Of several threads' errors the one at the lowest position, so that the message is always the
  // same.
  const int64_t *first = nullptr;
  bool number = false;
  for (unsigned worker = 0; worker < pool.size(); ++worker) {
    const int64_t *fields = job.errors[worker].fields;
    if (fields[0] && (!first || fields[1] < first[1]))
      first = fields;
    number |= fields[3] != 0;
  }
  Executor::Reports &reports = context.reports;
  // Numbers that are not finite do not end a step: all commands that made one are told, in their
  // order.
  if (number)
    reports.numbers.push_back({context.command});
  if (!first)
    return;
  reports.badIndex = context.command;
  reports.position = first[1];
  reports.value = first[2];
}

template <> void addWorkingMemory(const LaunchView &, WorkingMemory &) {}

} // namespace trainrt
