// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where they lie, and what a step that must not happen puts back.

#include "session/values.h"
#include "format/memory/arena_plan.h"

#include <cassert>
#include <cstring>

namespace trainrt {

namespace {

/// Offsets of blocks of these sizes behind each other; returns the end.
/// Each block begins at the device's alignment.
template <typename Size>
int64_t layOut(const Program &program, size_t count, std::vector<int64_t> &offsets,
               const Size &size) {
  int64_t end = 0;
  for (size_t i = 0; i < count; ++i) {
    offsets.push_back(end);
    end += padded(size(i), traitsOf(program.target).alignment);
  }
  return end;
}

} // namespace

/// Frozen parameters have an empty block, so that indices stay those of the program.
int64_t layOutGradients(const Package &package, const RunPlace &place,
                        std::vector<int64_t> &offsets) {
  const auto &parameters = package.program().parameters;
  return layOut(package.program(), parameters.size(), offsets, [&](size_t i) {
    return package.parameter(i).trainable ? gradientShard(parameters[i], place).held : int64_t(0);
  });
}

int64_t layOutState(const Program &program, const RunPlace &place, std::vector<int64_t> &offsets) {
  return layOut(program, program.state.size(), offsets,
                [&](size_t i) { return shardOf(program.state[i], place).held; });
}

int64_t layOutDerived(const Program &program, std::vector<int64_t> &offsets) {
  return layOut(program, program.derived.size(), offsets,
                [&](size_t i) { return program.derived[i].staticBytes; });
}

Status SessionValues::create(std::shared_ptr<const Package> package, Device &on, bool inference,
                             const RunPlace &where) {
  source = std::move(package);
  place = where;
  // Writable parameters need memory of their own, unless nothing is trained.
  device = &on;
  TRAINRT_TRY(store.create(source, on, inference, where));
  bool needsState = !inference;
  if (inference && source->eval())
    for (const Buffer &buffer : source->eval()->buffers)
      needsState |= buffer.space == Space::State; // running statistics
  // Without any, no offsets: nobody asks for addresses then.
  if (!needsState)
    return {};
  const int64_t bytes = layOutState(source->program(), place, stateOffsets);
  TRAINRT_TRY(device->allocate(bytes, "optimizer state", true, stateBlock));
  if (inference || source->program().derived.empty())
    return {};
  // Rows that nothing writes are 0.
  const int64_t derived = layOutDerived(source->program(), derivedOffsets);
  return device->allocate(derived, "rounded parameters", true, derivedBlock);
}

void *SessionValues::address(Space space, uint32_t index) const {
  switch (space) {
  case Space::Parameter:
    return store.data(index);
  case Space::State:
    assert(index < stateOffsets.size() && "a session without state runs nothing that has some");
    return stateBlock.data() + stateOffsets[index];
  case Space::Derived:
    assert(index < derivedOffsets.size() && "only what trains has some");
    return derivedBlock.data() + derivedOffsets[index];
  case Space::Gradient:
    assert(index < gradientOffsets.size() && "accumulators come with the first micro-batch");
    return gradientBlock.data() + gradientOffsets[index];
  default:
    return nullptr;
  }
}

/// A view keeps the whole block.
std::shared_ptr<const void> SessionValues::owner(Space space, uint32_t index) const {
  return space == Space::Parameter ? store.owner(index)
         : space == Space::State   ? stateBlock.share()
                                   : gradientBlock.share();
}

/// Allocated as zeros, with the first plan that needs them.
Status SessionValues::prepareGradients() {
  if (!gradientOffsets.empty())
    return {};
  // Offsets are set last: they say that the memory is there.
  std::vector<int64_t> offsets;
  int64_t bytes = layOutGradients(*source, place, offsets);
  TRAINRT_TRY(device->allocate(bytes, "gradient accumulators", true, gradientBlock));
  gradientOffsets = std::move(offsets);
  gradientsDirty = false;
  return {};
}

Status SessionValues::beginGradients() {
  TRAINRT_TRY(prepareGradients());
  // Fresh ones are zeros already.
  if (gradientsDirty)
    TRAINRT_TRY(device->clear(gradientBlock.data(), gradientBlock.size()));
  gradientsDirty = haveGradients = true;
  return {};
}

Status SessionValues::clearNonfinite() {
  // Packages without the flag.
  if (source->nonfiniteState() < 0)
    return {};
  return device->clear(address(Space::State, uint32_t(source->nonfiniteState())), 4);
}

namespace {
/// Calls `visit(space, index, offset, bytes)` for what runs of the function change beside the
/// accumulators: every state but `nonfinite`, and the parameters that the forward pass updates.
template <typename Visit>
Status forEachState(const Package &package, const RunPlace &place, const Function &function,
                    const Visit &visit) {
  const Program &program = package.program();
  int64_t offset = 0;
  for (const Buffer &buffer : function.buffers) {
    const bool isState = buffer.space == Space::State,
               isUpdated =
                   buffer.space == Space::Parameter && package.parameter(buffer.index).updated;
    if (!isUpdated && (!isState || int32_t(buffer.index) == package.nonfiniteState()))
      continue;
    const int64_t bytes =
        shardOf((isState ? program.state : program.parameters)[buffer.index], place).held;
    assert(bytes >= 0 && "sizes are static");
    TRAINRT_TRY(visit(buffer.space, buffer.index, offset, bytes));
    offset += padded(bytes, traitsOf(program.target).alignment);
  }
  return {};
}
} // namespace

Status SessionValues::save(const Function &function) {
  int64_t end = 0;
  // The same walk three times: offsets agree.
  TRAINRT_TRY(
      forEachState(*source, place, function, [&](Space, uint32_t, int64_t offset, int64_t bytes) {
        end = offset + bytes;
        return Status();
      }));
  // Kept for the next step, which needs as much.
  if (end > savedStates.size())
    TRAINRT_TRY(device->allocate(end, "saved state", false, savedStates));
  return forEachState(
      *source, place, function, [&](Space space, uint32_t index, int64_t offset, int64_t bytes) {
        return device->copy(savedStates.data() + offset, address(space, index), bytes);
      });
}

Status SessionValues::restore(const Function &function) {
  TRAINRT_TRY(forEachState(
      *source, place, function, [&](Space space, uint32_t index, int64_t offset, int64_t bytes) {
        return device->copy(address(space, index), savedStates.data() + offset, bytes);
      }));
  // The flag belongs to the step that is taken back.
  return clearNonfinite();
}

Status SessionValues::writeState(size_t index, const void *data, bool onDevice) {
  const ShardRange own = shardOf(source->program().state[index], place);
  // What is behind the end stays 0.
  const int64_t bytes = own.there;
  if (!bytes)
    return {};
  auto *from = static_cast<const unsigned char *>(data) + own.begin;
  void *to = address(Space::State, uint32_t(index));
  if (onDevice)
    return device->copy(to, from, bytes);
  // The caller's memory is read until write returns.
  return device->write(to, bytes, [from](unsigned char *to, int64_t begin, int64_t end) {
    std::memcpy(to, from + begin, size_t(end - begin));
  });
}

void SessionValues::addMemory(MemoryUse &use) const {
  use.parameters = store.heldBytes() + derivedBlock.size();
  use.mapped = store.mappedBytes();
  use.state = stateBlock.size() + savedStates.size();
  use.gradients = gradientBlock.size();
}

} // namespace trainrt
