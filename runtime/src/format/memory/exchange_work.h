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

/// Of an element that is sent, and of one of a sum: mostly the same.
struct ElementBytes {
  int64_t sent, made;
  ElementBytes(int64_t both) : sent(both), made(both) {}
  ElementBytes(int64_t sent, int64_t made) : sent(sent), made(made) {}
};

/// Each rank adds up, or has, one part of all tensors, which travels a block at a time.
class ExchangeWork {
public:
  /// Of what travels at a time, to all ranks together; between GPUs of what is added up.
  static constexpr int64_t blockBytes = int64_t(4) << 20, deviceBlockBytes = int64_t(64) << 20;
  /// Of what goes to one of them, however many there are.
  static constexpr int64_t fewestElements = 1024;

  /// The sum of whole tensors on all ranks: pieces travel, then sums.
  static ExchangeWork ofSums(ElementBytes bytes, std::span<const int64_t> elements, int64_t world) {
    int64_t part = 0;
    for (int64_t count : elements)
      part += (count + world - 1) / world;
    return {bytes, part, world, world - 1, world - 1, true};
  }
  /// Tensors of all shards, of so many elements each, on the ranks that have them.
  static ExchangeWork ofShards(int64_t elementBytes, std::span<const int64_t> elements,
                               int64_t shards) {
    return {elementBytes, all(elements), shards, shards - 1, 0, false};
  }
  /// The sums of shards of so many elements on all ranks that have them, of which `shards` share a
  /// replica (0: all): each rank adds up as much, and gives it to those with the same shard.
  static ExchangeWork ofSumsInShards(ElementBytes bytes, std::span<const int64_t> elements,
                                     int64_t world, int64_t shards = 0) {
    const int64_t replicas = shards ? world / shards : 1;
    return {bytes, (all(elements) + replicas - 1) / replicas, world, world - 1, replicas - 1, true};
  }

  /// Elements of a part, zeros behind the ends of tensors included, and of a block of it: 0 where
  /// there is nothing to send.
  int64_t part, block;
  int64_t ranks; ///< that exchange
  /// Bytes for a piece for each of the ranks that exchange, one from each, and one more: each of
  /// sums.
  int64_t staging() const { return ranks > 1 ? block * bytes.made * (2 * ranks + 1) : 0; }
  /// The block where ranks are of so many nodes, and two sums of a piece for each node need room,
  /// too: `staging` is enough for all of it.
  int64_t blockOfNodes(int64_t nodes) const {
    if (nodes == 1)
      return block;
    const int64_t pieces = 2 * ranks + 1;
    return std::min(block, std::max<int64_t>(1, block * pieces / (pieces + 2 * nodes)));
  }
  /// Elements of a part that GPUs add up at a time, and bytes between two ranks' pieces of these,
  /// whole lines of memory.
  int64_t deviceBlock() const { return blockOf(part, bytes.sent * ranks, deviceBlockBytes); }
  int64_t devicePiece() const { return (deviceBlock() * bytes.sent + 255) / 256 * 256; }
  /// Bytes for the others' pieces: they are all that does not lie where it belongs.
  int64_t deviceStaging() const { return adds ? devicePiece() * (ranks - 1) : 0; }
  /// Bytes that a rank sends to others, and as many that it gets. With several nodes all ranks but
  /// the last node's send as much as a part more for each sum.
  int64_t sent() const { return part * (pieces * bytes.sent + sums * bytes.made); }

private:
  ExchangeWork(ElementBytes bytes, int64_t part, int64_t ranks, int64_t pieces, int64_t sums,
               bool adds)
      : part(part), block(blockOf(part, bytes.made * ranks, blockBytes)), ranks(ranks),
        bytes(bytes), pieces(pieces), sums(sums), adds(adds) {}

  static int64_t all(std::span<const int64_t> shards) {
    return std::accumulate(shards.begin(), shards.end(), int64_t(0));
  }
  static int64_t blockOf(int64_t part, int64_t widthOfAll, int64_t bytes) {
    const int64_t most = bytes / widthOfAll / fewestElements * fewestElements;
    return std::min(part, std::max(fewestElements, most));
  }

  ElementBytes bytes;
  int64_t pieces, sums; ///< that a rank sends, of a part each
  bool adds;
};

} // namespace trainrt

#endif // TRAINRT_FORMAT_MEMORY_EXCHANGEWORK_H
