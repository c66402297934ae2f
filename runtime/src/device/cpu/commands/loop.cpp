// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A loop moves the addresses of slices, and says which command comes next.

#include "device/cpu/commands/loop.h"
#include "device/cpu/commands/host_command.h"

namespace trainrt {

/// Nothing to compute: Loops decides what runs.
template <> void runOnHost(const LoopView &step, HostContext &context) {
  if (!step.op.isEnd)
    context.kept.enter(context.plan, step.command, context.pool);
}

template <> void addWorkingMemory(const LoopView &, WorkingMemory &) {}

size_t Loops::next(const ExecutionPlan &plan, size_t index, std::vector<void *> &buffers) {
  const auto *op = std::get_if<Loop>(&plan.steps[index].command->op);
  if (!op)
    return index + 1;
  const LoopView view(plan.view(plan.steps[index]), *op);
  if (!op->isEnd)
    open.push_back({index, 0});
  if (open.back().step < view.steps()) {
    place(view, op->reverse ? view.steps() - 1 - open.back().step : open.back().step, buffers);
    ++open.back().step;
    return open.back().begin + 1;
  }
  const bool isEmpty = !op->isEnd;
  open.pop_back();
  return isEmpty ? loopEnd(plan.function->commands, index) + 1 : index + 1;
}

void Loops::place(const LoopView &view, int64_t step, std::vector<void *> &buffers) {
  for (size_t i = 0; i < view.numSlices(); ++i) {
    const Place &whole = view.places[view.whole(i)];
    const uint32_t slice = view.places[view.slice(i)].buffer;
    buffers[slice] = static_cast<unsigned char *>(buffers[whole.buffer]) + whole.offset +
                     step * view.bufferBytes[slice];
  }
}

} // namespace trainrt
