// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What ranks do together; one alone has its sums already.

#include "comm/collectives.h"
#include "device/cpu/commands/host_command.h"

#include <algorithm>

namespace trainrt {

static Status run(Communicator &ranks, const CollectiveView &step, HostContext &context) {
  const DType dtype = step.op.dtype;
  if (step.op.verdict && context.run.metBadIndex)
    *context.address<float>(step.places[0]) = 1;
  if (step.op.isInPlace()) {
    std::vector<RankTensor> tensors;
    for (size_t i = 0; i < step.numTensors(); ++i)
      tensors.push_back({context.address(step.places[i]), step.elements(i)});
    return allReduce(ranks, dtype, tensors, context.staging);
  }
  std::vector<CutTensor> tensors;
  for (size_t i = 0; i < step.numPairs(); ++i) {
    const size_t whole = step.whole(i), own = step.own(i);
    tensors.push_back({{context.address(step.places[whole]), step.elements(whole)},
                       context.address(step.places[own]),
                       step.elements(own)});
  }
  return step.gathers() ? allGather(ranks, dtype, tensors, context.staging)
                        : reduceScatter(ranks, dtype, tensors, context.staging);
}

/// Of a tensor the shard of the only rank, or of the shard the tensor.
static void copyAlone(const CollectiveView &step, HostContext &context) {
  const int64_t bytes = int64_t(sizeOf(step.op.dtype));
  for (size_t i = 0; i < step.numPairs(); ++i) {
    const size_t to = step.numPairs() + i;
    const int64_t there = std::min(step.elements(i), step.elements(to)) * bytes;
    unsigned char *const out = context.address(step.places[to]);
    std::copy_n(context.address(step.places[i]), there, out);
    std::fill_n(out + there, step.elements(to) * bytes - there, 0);
  }
}

template <> void runOnHost(const CollectiveView &step, HostContext &context) {
  const Communicator *ranks = context.run.ranks;
  // Of a replica that each rank has for itself it has all.
  if (!ranks || ranks->world() == 1 ||
      (step.op.kind == Collective::Kind::AllGather && ranks->ranksPerReplica() == 1)) {
    if (!step.op.isInPlace())
      copyAlone(step, context);
    return;
  }
  Status status = run(*context.run.ranks, step, context);
  if (status.ok())
    return;
  context.reports.failed = context.command;
  context.reports.why = std::move(status);
}

template <> void addWorkingMemory(const CollectiveView &step, WorkingMemory &memory) {
  memory.addExchange(step.work(memory.world, memory.shards));
}

} // namespace trainrt
