// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What ranks do together; one alone has its sums already.

#include "comm/collectives.h"
#include "device/cpu/commands/host_command.h"

namespace trainrt {

template <> void runOnHost(const CollectiveView &step, HostContext &context) {
  if (!context.run.ranks || context.run.ranks->world() == 1)
    return;
  std::vector<RankTensor> tensors;
  for (size_t i = 0; i < step.numTensors(); ++i)
    tensors.push_back({context.address(step.places[i]), step.elements(i)});
  Status status = allReduce(*context.run.ranks, step.op.dtype, tensors, context.staging);
  if (status.ok())
    return;
  context.reports.failed = context.command;
  context.reports.why = std::move(status);
}

template <> void addWorkingMemory(const CollectiveView &step, WorkingMemory &memory) {
  memory.addAllReduce(int64_t(sizeOf(step.op.dtype)), step.sizes);
}

} // namespace trainrt
