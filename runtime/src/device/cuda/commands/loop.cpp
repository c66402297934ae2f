// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The slices of a loop's steps that are copied.

#include "device/cuda/commands/loop.h"
#include "format/memory/arena_plan.h"

namespace trainrt::cuda {

bool LoopCommand::isInPlace(const LoopView &view, size_t i) {
  return view.bytesOf(view.slice(i)) % cudaPlanAlignment == 0 &&
         view.places[view.whole(i)].offset % cudaPlanAlignment == 0;
}

int64_t LoopCommand::offset(const LoopView &view, size_t i, int64_t step) {
  return (view.op.reverse ? view.steps() - 1 - step : step) * view.bytesOf(view.slice(i));
}

LoopCommand::LoopCommand(const LoopView &view, const Driver &driver, int64_t step)
    : driver(driver) {
  for (size_t i = 0; i < view.numSlices(); ++i) {
    const bool isScanned = i < view.op.scanned;
    // What is scanned comes in front of a step, what is stacked goes behind it.
    const int64_t of = isScanned ? step + 1 : step;
    if (isInPlace(view, i) || of < 0 || of >= view.steps())
      continue;
    const Place &whole = view.places[view.whole(i)];
    const Place part = {whole.buffer, whole.offset + offset(view, i, of)};
    const Place &slice = view.places[view.slice(i)];
    copies.push_back(
        {isScanned ? part : slice, isScanned ? slice : part, view.bytesOf(view.slice(i))});
  }
}

void LoopCommand::resolve(const Addresses &addresses) {
  for (Copy &copy : copies)
    copy.source = addresses.of(copy.from), copy.target = addresses.of(copy.to);
}

Status LoopCommand::enqueue(CUstream stream, Workspace) const {
  for (const Copy &copy : copies)
    if (copy.bytes)
      TRAINRT_TRY(driver.check(
          driver.cuMemcpyDtoDAsync(copy.target, copy.source, size_t(copy.bytes), stream),
          "cannot be started"));
  return {};
}

/// Commands::prepare makes those of each step.
template <>
Status prepareOnDevice(const LoopView &, DeviceContext &, std::unique_ptr<DeviceCommand> &) {
  return {};
}

template <> int64_t workspaceLimit(const LoopView &) { return 0; }

} // namespace trainrt::cuda
