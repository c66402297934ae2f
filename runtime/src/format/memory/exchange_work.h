// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What it takes to sum up, cut or gather tensors over ranks (comm/collectives.h): told ahead, and
// kept to.
#ifndef TRAINRT_FORMAT_MEMORY_EXCHANGEWORK_H
#define TRAINRT_FORMAT_MEMORY_EXCHANGEWORK_H

#include <algorithm>
#include <cstdint>
#include <span>

namespace trainrt {

/// Each rank has one part of all tensors, which travels a block at a time.
class ExchangeWork {
public:
  /// Of what travels at a time, to all ranks together.
  static constexpr int64_t blockBytes = int64_t(4) << 20;
  /// Of what goes to one of them, however many there are.
  static constexpr int64_t fewestElements = 1024;

  /// The sum of whole tensors on all ranks: pieces travel, then sums.
  static ExchangeWork ofSums(int64_t elementBytes, std::span<const int64_t> elements,
                             int64_t world) {
    int64_t part = 0;
    for (int64_t count : elements)
      part += (count + world - 1) / world;
    return {elementBytes, part, world, 2};
  }
  /// Between tensors and shards of so many elements, one way.
  static ExchangeWork ofShards(int64_t elementBytes, std::span<const int64_t> shards,
                               int64_t world) {
    int64_t part = 0;
    for (int64_t count : shards)
      part += count;
    return {elementBytes, part, world, 1};
  }

  /// Elements of a part, zeros behind the ends of tensors included, and of a block of it: 0 where
  /// there is nothing to send.
  int64_t part, block;
  /// Bytes for a piece for each rank, one from each, and one more.
  int64_t staging() const { return world > 1 ? block * width * (2 * world + 1) : 0; }
  /// Bytes that a rank sends to others, and as many that it gets.
  int64_t sent() const { return rounds * (world - 1) * part * width; }

private:
  ExchangeWork(int64_t width, int64_t part, int64_t world, int64_t rounds)
      : part(part), block(std::min(part, std::max(fewestElements, blockBytes / (width * world)))),
        width(width), world(world), rounds(rounds) {}

  int64_t width, world, rounds;
};

} // namespace trainrt

#endif // TRAINRT_FORMAT_MEMORY_EXCHANGEWORK_H
