// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What ranks do together; one alone has its sums already.

#include "comm/collectives.h"
#include "device/cpu/commands/host_command.h"
#include "format/narrow_float.h"

#include <algorithm>

namespace trainrt {

static Status run(Communicator &ranks, const CollectiveView &step, HostContext &context) {
  const SumTypes types = step.op.types;
  if (step.op.verdict && context.run.metBadIndex)
    *context.address<float>(step.places[0]) = 1;
  if (step.op.kind == Collective::Kind::AllReduce) {
    const bool isInPlace = step.op.isInPlace();
    std::vector<RankTensor> tensors;
    for (size_t i = 0; i < (isInPlace ? step.numTensors() : step.numPairs()); ++i)
      tensors.push_back({context.address(step.places[i]), step.elements(i),
                         isInPlace ? nullptr : context.address(step.places[step.numPairs() + i])});
    return allReduce(ranks, types, tensors, context.staging);
  }
  std::vector<CutTensor> tensors;
  for (size_t i = 0; i < step.numPairs(); ++i) {
    const size_t whole = step.whole(i), own = step.own(i);
    tensors.push_back({{context.address(step.places[whole]), step.elements(whole)},
                       context.address(step.places[own]),
                       step.elements(own)});
  }
  return step.gathers() ? allGather(ranks, types.made, tensors, context.staging)
                        : reduceScatter(ranks, types, tensors, context.staging);
}

template <typename From>
static void widen(const unsigned char *from, int64_t count, unsigned char *to) {
  std::copy_n(reinterpret_cast<const From *>(from), count, reinterpret_cast<float *>(to));
}

/// Of a tensor the shard of the only rank, or of the shard the tensor; or the tensor in f32.
static void copyAlone(const CollectiveView &step, HostContext &context) {
  const SumTypes types = step.op.types;
  const int64_t bytes = types.bytes().made;
  for (size_t i = 0; i < step.numPairs(); ++i) {
    const size_t to = step.numPairs() + i;
    const int64_t there = std::min(step.elements(i), step.elements(to));
    const unsigned char *const from = context.address(step.places[i]);
    unsigned char *const out = context.address(step.places[to]);
    if (!types.widens())
      std::copy_n(from, there * bytes, out);
    else if (types.sent == DType::BF16)
      widen<BFloat16>(from, there, out);
    else
      widen<Float16>(from, there, out);
    std::fill_n(out + there * bytes, (step.elements(to) - there) * bytes, 0);
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
