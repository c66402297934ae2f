// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A function of a plug-in, which may use the runtime's threads.

#include "device/cpu/commands/host_command.h"
#include "plan/external_call.h"
#include "plan/running_external.h"

namespace trainrt {

namespace {
/// What a call's `runtime` is.
struct CallState {
  ThreadPool &pool;
  const char *what;
};
} // namespace

static void parallelFor(const trainrt_external_call *call, int64_t count, int64_t grain,
                        void (*body)(void *context, int64_t begin, int64_t end), void *context) {
  const CallState &state = *static_cast<const CallState *>(call->runtime);
  state.pool.parallelFor(count, grain, [&](unsigned, int64_t begin, int64_t end) {
    const RunningExternal running(state.what);
    body(context, begin, end);
  });
}

template <> void runOnHost(const ExternalView &step, HostContext &context) {
  const Program &program = *context.run.program;
  const std::string what = step.op.describe(program, step) + nodesText(program, *context.command);
  CallState state{context.pool, what.c_str()};
  trainrt_external_call call = {};
  call.threads = context.pool.size();
  call.parallel_for = parallelFor;
  call.runtime = &state;
  const Status status = ExternalArguments(step).call(
      context.run.externals->function(step.op.function),
      [&](const Place &place) { return static_cast<void *>(context.address(place)); }, call,
      state.what);
  if (status.ok())
    return;
  context.reports.refused = context.command;
  context.reports.why = status.within(what + ": ");
}

template <> void addWorkingMemory(const ExternalView &, WorkingMemory &) {}

} // namespace trainrt
