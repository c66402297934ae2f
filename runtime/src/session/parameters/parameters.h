// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The parameters of a session. On the host, trained ones are in memory of their own, frozen ones
// mapped from the files that hold them wherever their alignment allows it; another device has all
// of them in its memory.
#ifndef TRAINRT_SESSION_PARAMETERS_PARAMETERS_H
#define TRAINRT_SESSION_PARAMETERS_PARAMETERS_H

#include "device/device.h"
#include "session/quantize/elements.h"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace trainrt {

class WeightsFile;

class ParameterStore {
public:
  /// Memory for the trainable parameters, or for none if `readOnly`, or for the shards that a rank
  /// has of them. No parameter has a value yet.
  Status create(std::shared_ptr<const Package> package, Device &device, bool readOnly,
                const RunPlace &place);

  /// Values from where the manifest says; `seed` is for those that begin at random. MissingWeights
  /// names the file, if it is absent or has another identity than when the package was made.
  Status loadPackage(int64_t seed);
  /// The first value of a tensor that has one in the manifest, in a file that is kept open.
  Status bytesOf(const Manifest::Tensor &entry, const unsigned char *&data,
                 std::shared_ptr<const MappedFile> &file, bool orRandom = true);
  /// Values by name from a weights file (weights_file.h); those that it lacks begin as the manifest
  /// says how, or come from the package if they are frozen. BadData lists all parameters that are
  /// missing or misfit.
  Status loadFile(const std::string &path, int64_t seed, std::string &warnings);
  /// See TRAINRT_WEIGHTS_RANDOM.
  Status randomize(int64_t seed, double std);
  /// Replaces the value of parameter `index` by a whole one, of which a rank keeps its shard;
  /// `onDevice`: by one in the device's memory, which it
  /// reads in the order of its runs.
  Status set(size_t index, const void *data, bool onDevice = false);

  /// Its address on the device; null without a value. Only trainable parameters' memory may be
  /// written (not if `readOnly`).
  unsigned char *data(size_t index) const {
    return slots[index].valid ? slots[index].data : nullptr;
  }
  /// What keeps the memory of a value.
  const std::shared_ptr<const void> &owner(size_t index) const { return slots[index].owner; }
  /// Whether it lies in a file that is mapped for reading only.
  bool isMapped(size_t index) const { return slots[index].valid && !slots[index].own; }
  /// Parameters that begin as norms of others, which have values now; these have none yet.
  const std::vector<size_t> &pendingNorms() const { return norms; }
  /// Names of the parameters without a value.
  std::string missing() const;
  int64_t heldBytes() const { return held; }
  int64_t mappedBytes() const { return mapped; }

private:
  struct Slot {
    unsigned char *data = nullptr;
    bool own = false; ///< in memory of the device, so it may be written
    std::shared_ptr<const void> owner;
    bool valid = false;
  };

  /// MissingWeights says what can be done; `orRandom`: random values can.
  Status fromPackage(size_t index, bool orRandom = true);
  Status fromFile(size_t index, WeightsFile &file, std::string &problem);
  /// Parameters of a file that had more precision than the model, and that had less.
  struct Converted {
    size_t count = 0;
    std::string first;
  } rounded, widened;
  /// By the rule that the manifest has for it.
  Status initialize(size_t index, int64_t seed);
  /// Quantizes values of its model's shape as the package wants them, its statistics, too.
  /// `origin`: where they are from, for the error if one of them is not finite.
  Status storeQuantized(size_t index, const Elements &elements, const std::string &origin);
  /// From a file that has it, quantized or not. `used`: tensors that belong to it. `problem`: why
  /// it does not fit.
  Status loadQuantized(size_t index, WeightsFile &file, std::set<std::string> &used,
                       std::string &problem);
  Status loadCodes(size_t index, WeightsFile &file, std::set<std::string> &used,
                   std::string &problem);
  Status loadPart(const std::string &part, WeightsFile &file, const std::string &name,
                  std::set<std::string> &used, std::string &problem);
  Status openFile(const std::string &path, std::shared_ptr<const MappedFile> &file, bool orRandom);
  /// Whether parameter `index` gets memory in the first block.
  bool inBlock(size_t index, bool readOnly) const;
  ShardRange rangeOf(size_t index) const {
    return shardOf(package->program().parameters[index], place);
  }
  /// Whether its value may stay where a file has it.
  bool mayBeMapped(size_t index) const {
    return !slots[index].own &&
           (place.shards() == 1 || !package->program().parameters[index].shardUnit);
  }
  Status own(size_t index);
  /// Makes memory for the parameter if it has none, and stores its value.
  Status store(size_t index, const Device::Source &source);
  Status clearEnd(size_t index);
  void useMapped(size_t index, const unsigned char *data, std::shared_ptr<const MappedFile> file);

  std::shared_ptr<const Package> package;
  Device *device = nullptr;
  RunPlace place;
  std::vector<Slot> slots;
  std::unordered_map<std::string, size_t> places; ///< by name
  std::vector<DeviceMemory> blocks;
  std::map<std::string, std::shared_ptr<const MappedFile>> opened;
  std::vector<size_t> norms;
  int64_t held = 0, mapped = 0;
};

/// Philox4x32-10 (Salmon et al., 2011): 4 random words from a counter and a key.
void philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t result[4]);

} // namespace trainrt

#endif // TRAINRT_SESSION_PARAMETERS_PARAMETERS_H
