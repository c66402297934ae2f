// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// By what commands read and write: backwards from the loss, forwards from what that leaves behind.

#include "trainc/Analysis/Phases.h"

using namespace mlir;
using namespace trainc;

namespace {
/// Buffers by number.
struct Accesses {
  SmallVector<uint32_t> reads, writes;
};
} // namespace

/// A command that both reads and writes a buffer is in both lists.
static Accesses accessesOf(Operation *command, const FunctionLifetimes &lifetimes) {
  Accesses accesses;
  SmallVector<MemoryEffects::EffectInstance> effects;
  cast<MemoryEffectOpInterface>(command).getEffects(effects);
  for (const MemoryEffects::EffectInstance &effect : effects)
    (isa<MemoryEffects::Read>(effect.getEffect()) ? accesses.reads : accesses.writes)
        .push_back(lifetimes.index.lookup(effect.getValue()));
  return accesses;
}

/// Needs lifetimes whose commands all tell their effects. Linear in the effects.
Phases trainc::getPhases(const FunctionLifetimes &lifetimes, StringRef loss) {
  const int32_t count = lifetimes.commands.size();
  SmallVector<Accesses, 0> accesses;
  for (Operation *command : lifetimes.commands)
    accesses.push_back(accessesOf(command, lifetimes));
  auto space = [&](uint32_t buffer) { return lifetimes.buffers[buffer].space; };
  auto isScalar = [&](uint32_t buffer) {
    std::optional<int64_t> bytes = lifetimes.buffers[buffer].bytes.getConstant();
    return bytes && *bytes <= 8;
  };
  auto writes = [&](ArrayRef<plan::Space> spaces) {
    return llvm::any_of(accesses, [&](const Accesses &command) {
      return llvm::any_of(command.writes, [&](uint32_t buffer) {
        return llvm::is_contained(spaces, space(buffer));
      });
    });
  };
  auto isInput = [](const BufferLifetime &life) { return life.space == plan::Space::input; };
  // An update reads gradients that are there already; nothing of a batch.
  if (llvm::none_of(lifetimes.buffers, isInput))
    return {0, 0};
  if (!writes({plan::Space::parameter, plan::Space::gradient}))
    return {count, count};

  // A buffer that a command needs was written by those before it.
  SmallVector<bool> needed(lifetimes.buffers.size());
  for (auto [i, life] : llvm::enumerate(lifetimes.buffers))
    needed[i] = life.space == plan::Space::output &&
                plan::BufferOp(life.buffer).getName().value_or("") == loss;
  SmallVector<bool> isForward(count);
  Phases phases;
  for (int32_t i = count; i-- > 0;) {
    if (llvm::none_of(accesses[i].writes, [&](uint32_t buffer) { return needed[buffer]; }))
      continue;
    isForward[i] = true;
    for (uint32_t buffer : accesses[i].reads)
      needed[buffer] = true;
  }

  // A loss that nothing waits for may be summed up late. So scalars do not count that are made
  // after a command that is none of the forward pass works on what it has made.
  auto isActivation = [&](uint32_t buffer) {
    return space(buffer) == plan::Space::arena && !isScalar(buffer);
  };
  SmallVector<bool> made(lifetimes.buffers.size());
  // Begun: the backward reads an activation and makes one of its own.
  bool begun = false;
  for (int32_t i = 0; i < count; ++i) {
    if (!isForward[i]) {
      begun |= llvm::any_of(accesses[i].reads, [&](uint32_t buffer) { return made[buffer]; }) &&
               llvm::any_of(accesses[i].writes, isActivation);
      continue;
    }
    if (!begun || !llvm::all_of(accesses[i].writes, isScalar))
      phases.forwardEnd = i + 1;
    // What a later forward command writes to the same buffer counts as made again.
    for (uint32_t buffer : accesses[i].writes)
      made[buffer] = isActivation(buffer);
  }

  // Flags, such as whether the loss is finite, are for updates, too.
  // What the forward leaves behind for the backward: inputs and activations, no scalars.
  SmallVector<bool> kept(lifetimes.buffers.size());
  for (auto [i, life] : llvm::enumerate(lifetimes.buffers))
    kept[i] = life.space == plan::Space::input;
  // Where no parameter is written here (micro-batches), all behind the forward is backward.
  phases.backwardEnd = writes({plan::Space::parameter}) ? phases.forwardEnd : count;
  for (int32_t i = 0; i < count; ++i) {
    if (isForward[i])
      for (uint32_t buffer : accesses[i].writes)
        kept[buffer] = space(buffer) == plan::Space::arena && !isScalar(buffer);
    else if (llvm::any_of(accesses[i].reads, [&](uint32_t buffer) { return kept[buffer]; })) {
      phases.backwardEnd = std::max(phases.backwardEnd, i + 1);
      // What is fetched back from the host is what was kept there.
      auto copy = dyn_cast<plan::CopyOp>(lifetimes.commands[i]);
      if (copy && copy.isTransfer())
        kept[accesses[i].writes.front()] = true;
    }
  }
  // Updates that happen to read an activation last (an embedding's) are the update's.
  auto isUpdate = [&](int32_t i) {
    return llvm::any_of(accesses[i].writes,
                        [&](uint32_t buffer) { return space(buffer) == plan::Space::parameter; });
  };
  while (phases.backwardEnd > phases.forwardEnd && isUpdate(phases.backwardEnd - 1))
    --phases.backwardEnd;
  return phases;
}
