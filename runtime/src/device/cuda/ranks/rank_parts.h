// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How a bucket of tensors is dealt out to ranks: rank r has the r-th of equal parts of each, behind
// each other.
#ifndef TRAINRT_DEVICE_CUDA_RANKS_RANK_PARTS_H
#define TRAINRT_DEVICE_CUDA_RANKS_RANK_PARTS_H

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace trainrt::cuda {

class RankParts {
public:
  /// Of what is added up at a time: bytes of all ranks together, and elements of each of them,
  /// however many there are.
  static constexpr int64_t blockBytes = int64_t(32) << 20, fewestElements = 1024;

  /// Elements of each tensor.
  RankParts(std::span<const int64_t> tensors, int world)
      : elements(tensors.begin(), tensors.end()), world(world) {
    for (int64_t count : elements) {
      shards.push_back((count + world - 1) / world);
      total += shards.back();
    }
  }

  /// Elements of one part.
  int64_t size() const { return total; }
  /// Elements of a part that are added up at a time.
  int64_t block(int64_t elementBytes) const {
    return std::min(total, std::max(fewestElements, blockBytes / (elementBytes * world)));
  }
  /// Of two blocks of all ranks, each with whole lines of memory.
  int64_t stagingBytes(int64_t elementBytes) const {
    return 2 * ((block(elementBytes) * elementBytes * world + 255) / 256 * 256);
  }

  struct Range {
    size_t tensor;
    int64_t at;    ///< in the tensor; 0 where nothing is there
    int64_t begin; ///< in the part, from the beginning of what was asked for
    int64_t there; ///< elements of the tensor
    int64_t all;   ///< with what is beyond its end, in the last parts
  };
  /// Calls `fn(Range)` for each tensor's share of the elements [begin, begin + count) of a rank's
  /// part.
  template <typename Fn> void forEach(int rank, int64_t begin, int64_t count, const Fn &fn) const {
    const int64_t end = begin + count;
    int64_t first = 0; // of the tensor's shard in the part
    for (size_t i = 0; i < elements.size() && first < end; first += shards[i++]) {
      const int64_t low = std::max(begin, first), high = std::min(end, first + shards[i]);
      if (low >= high)
        continue;
      // It may lie behind the tensor's end: no address there is made.
      const int64_t at = rank * shards[i] + (low - first);
      const int64_t there = std::clamp<int64_t>(elements[i] - at, 0, high - low);
      fn(Range{i, there ? at : 0, low - begin, there, high - low});
    }
  }

private:
  std::vector<int64_t> elements, shards;
  int world;
  int64_t total = 0;
};

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_RANKS_RANK_PARTS_H
