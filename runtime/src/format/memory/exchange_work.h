// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What it takes to sum up, cut or gather tensors over ranks (comm/collectives.h,
// device/cuda/ranks): told ahead, and kept to.
#ifndef TRAINRT_FORMAT_MEMORY_EXCHANGEWORK_H
#define TRAINRT_FORMAT_MEMORY_EXCHANGEWORK_H

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>

namespace trainrt {

/// Each rank has one part of all tensors, which travels a block at a time.
class ExchangeWork {
public:
  /// Of what travels at a time, to all ranks together; between GPUs of what is added up.
  static constexpr int64_t blockBytes = int64_t(4) << 20, deviceBlockBytes = int64_t(32) << 20;
  /// Of what goes to one of them, however many there are.
  static constexpr int64_t fewestElements = 1024;

  /// The sum of whole tensors on all ranks: pieces travel, then sums.
  static ExchangeWork ofSums(int64_t elementBytes, std::span<const int64_t> elements,
                             int64_t world) {
    int64_t part = 0;
    for (int64_t count : elements)
      part += (count + world - 1) / world;
    return {elementBytes, part, world, 2, true};
  }
  /// From tensors to shards of so many elements of their sum, one way.
  static ExchangeWork ofShardedSums(int64_t elementBytes, std::span<const int64_t> shards,
                                    int64_t world) {
    return {elementBytes, all(shards), world, 1, true};
  }
  /// From shards of so many elements to tensors.
  static ExchangeWork ofShards(int64_t elementBytes, std::span<const int64_t> shards,
                               int64_t world) {
    return {elementBytes, all(shards), world, 1, false};
  }

  /// Elements of a part, zeros behind the ends of tensors included, and of a block of it: 0 where
  /// there is nothing to send.
  int64_t part, block;
  /// Bytes for a piece for each rank, one from each, and one more.
  int64_t staging() const { return world > 1 ? block * width * (2 * world + 1) : 0; }
  /// Elements of a part that GPUs add up at a time, and bytes between two ranks' pieces of these,
  /// whole lines of memory.
  int64_t deviceBlock() const { return blockOf(part, width * world, deviceBlockBytes); }
  int64_t devicePiece() const { return (deviceBlock() * width + 255) / 256 * 256; }
  /// Bytes for the others' pieces: they are all that does not lie where it belongs.
  int64_t deviceStaging() const { return adds ? devicePiece() * (world - 1) : 0; }
  /// The block where ranks are of so many nodes, and two sums of a piece for each node need room,
  /// too: `staging` is enough for all of it.
  int64_t blockOfNodes(int64_t nodes) const {
    if (nodes == 1)
      return block;
    const int64_t pieces = 2 * world + 1;
    return std::min(block, std::max<int64_t>(1, block * pieces / (pieces + 2 * nodes)));
  }
  /// Bytes that a rank sends to others, and as many that it gets. With several nodes all ranks but
  /// the last node's send as much as a part more for each sum.
  int64_t sent() const { return rounds * (world - 1) * part * width; }

private:
  ExchangeWork(int64_t width, int64_t part, int64_t world, int64_t rounds, bool adds)
      : part(part), block(blockOf(part, width * world, blockBytes)), width(width), world(world),
        rounds(rounds), adds(adds) {}

  static int64_t all(std::span<const int64_t> shards) {
    return std::accumulate(shards.begin(), shards.end(), int64_t(0));
  }
  static int64_t blockOf(int64_t part, int64_t widthOfAll, int64_t bytes) {
    const int64_t most = bytes / widthOfAll / fewestElements * fewestElements;
    return std::min(part, std::max(fewestElements, most));
  }

  int64_t width, world, rounds;
  bool adds;
};

} // namespace trainrt

#endif // TRAINRT_FORMAT_MEMORY_EXCHANGEWORK_H
