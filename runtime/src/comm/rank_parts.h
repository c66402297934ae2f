// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How a bucket of tensors is dealt out to ranks: rank r has the r-th of equal parts of each, behind
// each other. Whatever carries the pieces, these are the same.
#ifndef TRAINRT_COMM_RANK_PARTS_H
#define TRAINRT_COMM_RANK_PARTS_H

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace trainrt {

class RankParts {
public:
  /// Of what travels at a time, to all ranks together, and of what goes to one of them, however
  /// many there are.
  static constexpr int64_t fewestElements = 1024;

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
  /// Elements of a part that travel at a time, where blocks of all ranks have so many bytes.
  int64_t block(int64_t bytes, int64_t elementBytes) const {
    return std::min(total, std::max(fewestElements, bytes / (elementBytes * world)));
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

} // namespace trainrt

#endif // TRAINRT_COMM_RANK_PARTS_H
