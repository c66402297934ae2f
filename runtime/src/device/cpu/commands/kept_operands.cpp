// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Room for all that the outermost loop keeps, when it begins.

#include "device/cpu/commands/kept_operands.h"

#include <cassert>

namespace trainrt {

void KeptOperands::enter(const ExecutionPlan &plan, const Command &begin, ThreadPool &pool) {
  const std::vector<Command> &commands = plan.function->commands;
  const size_t from = size_t(&begin - commands.data()), to = loopEnd(commands, from);
  if (begin.loop >= 0) {
    assert(first <= &begin && &commands[to] <= last && "it is in the loop that keeps");
    for (size_t i = from; i < to; ++i)
      places[size_t(&commands[i] - first)].isPacked = false;
    return;
  }
  first = &begin;
  last = &commands[to];
  places.assign(to - from, {nullptr});
  // Offsets first, since the memory moves when it grows.
  std::vector<int64_t> offsets(places.size(), -1);
  int64_t floats = 0;
  for (size_t i = from; i < to; ++i)
    if (const auto *op = std::get_if<Gemm>(&commands[i].op)) {
      const GemmView step(plan.view(plan.steps[i]), *op);
      const GemmProblem problem(gemmArgs(step), gemmTile());
      if (!problem.keepsB(pool.size(), gemmConstants(step)))
        continue;
      offsets[i - from] = floats;
      floats += problem.keptFloats();
    }
  if (floats == 0)
    return;
  auto *at = static_cast<float *>(pool.shared(2, size_t(floats) * 4));
  for (size_t i = 0; i < places.size(); ++i)
    if (offsets[i] >= 0)
      places[i].at = at + offsets[i];
}

KeptB *KeptOperands::of(const Command &command) {
  if (command.loop < 0)
    return nullptr;
  assert(first < &command && &command < last && "its loop was entered");
  KeptB &place = places[size_t(&command - first)];
  return place.at ? &place : nullptr;
}

} // namespace trainrt
