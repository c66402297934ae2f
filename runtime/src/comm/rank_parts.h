// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How a bucket of tensors is dealt out to ranks: rank r has its shard of each, behind each other.
#ifndef TRAINRT_COMM_RANK_PARTS_H
#define TRAINRT_COMM_RANK_PARTS_H

#include "format/memory/exchange_work.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
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

/// Who adds up what of a bucket: of each of as many parts as there are shards the ranks that have
/// it, one of each replica, have a slice each.
class SumParts {
public:
  /// `world` ranks, of which `shards` share a replica.
  SumParts(std::vector<CutSize> tensors, int world, int shards)
      : world(world), shards(shards), parts(tensors) {
    for (const CutSize &tensor : tensors)
      sizes.push_back(tensor.shard);
    part = std::accumulate(sizes.begin(), sizes.end(), int64_t(0));
    slice = (part + world / shards - 1) / (world / shards);
  }
  ExchangeWork work(ElementBytes bytes) const {
    return ExchangeWork::ofSumsInShards(bytes, sizes, world, shards);
  }
  /// Elements of a slice; the last ones may reach over the end of their part.
  int64_t elements() const { return slice; }
  /// As RankParts has it, of the elements [begin, begin + count) of what a rank adds up.
  template <typename Fn> void forEach(int rank, int64_t begin, int64_t count, const Fn &fn) const {
    const int64_t first = rank / shards * slice + begin;
    parts.forEach(rank % shards, first, std::clamp<int64_t>(part - first, 0, count), fn);
  }

private:
  const int world, shards;
  const RankParts parts;
  std::vector<int64_t> sizes; ///< of shards
  int64_t part, slice;
};

} // namespace trainrt

#endif // TRAINRT_COMM_RANK_PARTS_H
