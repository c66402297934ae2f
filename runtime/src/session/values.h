// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What outlives a step, on the device: parameters, optimizer state, gradient accumulators.
#ifndef TRAINRT_SESSION_VALUES_H
#define TRAINRT_SESSION_VALUES_H

#include "device/device.h"
#include "session/parameters/parameters.h"

#include <memory>
#include <vector>

namespace trainrt {

/// Offsets of the gradient accumulators, one for each trainable parameter, or of a rank's shards of
/// them; returns the end.
int64_t layOutGradients(const Package &package, const RunPlace &place,
                        std::vector<int64_t> &offsets);
/// Those of the state, or of a rank's shards of it.
int64_t layOutState(const Program &program, const RunPlace &place, std::vector<int64_t> &offsets);
/// Those of what is derived from parameters.
int64_t layOutDerived(const Program &program, std::vector<int64_t> &offsets);

class SessionValues {
public:
  /// Parameters without values, and state of zeros where the session reads any.
  Status create(std::shared_ptr<const Package> package, Device &on, bool inference,
                const RunPlace &place);

  ParameterStore &parameters() { return store; }
  const ParameterStore &parameters() const { return store; }
  /// Of a parameter, state, accumulator or derived value; null of all else.
  void *address(Space space, uint32_t index) const;
  /// What keeps the memory there.
  std::shared_ptr<const void> owner(Space space, uint32_t index) const;

  bool hasState() const { return !stateOffsets.empty(); }
  /// Of the whole state, which a rank may keep its shard of.
  Status writeState(size_t index, const void *data, bool onDevice = false);
  Status clearNonfinite();
  /// What a function may change beside the accumulators, but for `nonfinite`, so that a run that
  /// must not change it can be undone.
  Status save(const Function &function);
  Status restore(const Function &function);

  /// Whether gradients have been computed.
  bool hasGradients() const { return haveGradients; }
  /// Gets their memory.
  Status prepareGradients();
  /// The accumulators, cleared.
  Status beginGradients();

  void addMemory(MemoryUse &use) const;

private:
  std::shared_ptr<const Package> source;
  Device *device = nullptr;
  RunPlace place;
  ParameterStore store;
  DeviceMemory stateBlock, derivedBlock, gradientBlock, savedStates;
  std::vector<int64_t> stateOffsets, derivedOffsets, gradientOffsets;
  bool gradientsDirty = false, haveGradients = false;
};

} // namespace trainrt

#endif // TRAINRT_SESSION_VALUES_H
