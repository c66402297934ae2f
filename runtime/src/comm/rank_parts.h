// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How a bucket of tensors is dealt out to ranks: rank r has its shard of each, behind each other.
#ifndef TRAINRT_COMM_RANK_PARTS_H
#define TRAINRT_COMM_RANK_PARTS_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace trainrt {

/// In elements. Rank r's shard is of those from r * shard on; the last ones may reach over the end.
struct CutSize {
  int64_t elements, shard;
  /// Of a rank's shard, those of the tensor.
  int64_t there(int rank) const { return std::clamp<int64_t>(elements - rank * shard, 0, shard); }
};

class RankParts {
public:
  explicit RankParts(std::vector<CutSize> tensors) : tensors(std::move(tensors)) {}

  struct Range {
    size_t tensor;
    int64_t begin;   ///< in the part, from the beginning of what was asked for
    int64_t inShard; ///< where it begins
    int64_t count;   ///< elements
    int64_t at;      ///< in the tensor; 0 where nothing is there
    int64_t there;   ///< elements, without what is beyond the tensor's end
  };
  /// Calls `fn(Range)` for each tensor's share of the elements [begin, begin + count) of a rank's
  /// part.
  template <typename Fn> void forEach(int rank, int64_t begin, int64_t count, const Fn &fn) const {
    const int64_t end = begin + count;
    int64_t first = 0; // of the tensor's shard in the part
    for (size_t i = 0; i < tensors.size() && first < end; first += tensors[i++].shard) {
      const auto [elements, shard] = tensors[i];
      const int64_t low = std::max(begin, first), high = std::min(end, first + shard);
      if (low >= high)
        continue;
      // It may lie behind the tensor's end: no address there is made.
      const int64_t at = rank * shard + (low - first);
      const int64_t there = std::clamp<int64_t>(elements - at, 0, high - low);
      fn(Range{i, low - begin, low - first, high - low, there ? at : 0, there});
    }
  }

private:
  std::vector<CutSize> tensors;
};

} // namespace trainrt

#endif // TRAINRT_COMM_RANK_PARTS_H
