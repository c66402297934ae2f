// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// By the bytes that commands touch: arena buffers that lie over each other in turn are told apart
// from those that do not.

#include "plan/exchange_waits.h"
#include "plan/overlap.h"

#include <algorithm>
#include <map>
#include <utility>

namespace trainrt {

std::vector<uint32_t> findExchangeWaits(const ExecutionPlan &plan) {
  const Function &function = *plan.function;
  const auto isExchange = [&](size_t step) {
    return std::holds_alternative<Collective>(plan.steps[step].command->op);
  };
  std::vector<uint32_t> waits;
  // Of each step, the collectives up to it.
  std::vector<uint32_t> started;
  uint32_t collectives = 0;
  for (size_t i = 0; i < plan.steps.size(); ++i)
    started.push_back(collectives += isExchange(i));
  if (!collectives)
    return waits;
  // The arena is one piece of memory, each tensor elsewhere one of its own, far from all others.
  constexpr int farApart = 44;
  std::map<std::pair<Space, uint32_t>, uint64_t> places;
  const auto rangeOf = [&](uint32_t index) -> MemoryOrder::Range {
    const Buffer &buffer = function.buffers[index];
    uint64_t begin = uint64_t(plan.bufferOffsets[index]);
    if (buffer.space != Space::Arena)
      begin = (places.try_emplace({buffer.space, buffer.index}, places.size() + 1).first->second)
              << farApart;
    return {begin, begin + uint64_t(plan.bufferBytes[index])};
  };
  MemoryOrder order;
  std::vector<MemoryOrder::Range> reads, writes;
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    reads.clear();
    writes.clear();
    for (const Operand &operand : plan.steps[i].command->operands) {
      if (!operand.isPresent())
        continue;
      if (operand.isRead())
        reads.push_back(rangeOf(operand.buffer));
      if (operand.isWritten())
        writes.push_back(rangeOf(operand.buffer));
    }
    uint32_t wait = 0;
    order.add(reads, writes, [&](int32_t earlier) {
      if (isExchange(size_t(earlier)))
        wait = std::max(wait, started[size_t(earlier)]);
    });
    waits.push_back(isExchange(i) ? 0 : wait);
  }
  return waits;
}

} // namespace trainrt
