// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What it takes to sum up tensors over ranks (comm/collectives.h): told ahead, and kept to.
#ifndef TRAINRT_FORMAT_MEMORY_ALLREDUCEWORK_H
#define TRAINRT_FORMAT_MEMORY_ALLREDUCEWORK_H

#include <algorithm>
#include <cstdint>
#include <span>

namespace trainrt {

/// Each rank adds up one part of all tensors, a block at a time.
class AllReduceWork {
public:
  /// Of what travels at a time, to all ranks together.
  static constexpr int64_t blockBytes = int64_t(4) << 20;
  /// Of what goes to one of them, however many there are.
  static constexpr int64_t fewestElements = 1024;

  AllReduceWork(int64_t elementBytes, std::span<const int64_t> elements, int64_t world)
      : width(elementBytes), world(world) {
    for (int64_t count : elements)
      part += (count + world - 1) / world;
    block = std::min(part, std::max(fewestElements, blockBytes / (width * world)));
  }

  /// Elements of a part, zeros behind the ends of tensors included, and of a block of it: 0 where
  /// there is nothing to add.
  int64_t part = 0, block = 0;
  /// Bytes for a piece for each rank, one from each, and the sum.
  int64_t staging() const { return world > 1 ? block * width * (2 * world + 1) : 0; }
  /// Bytes that a rank sends to others, and as many that it gets: pieces, then sums.
  int64_t sent() const { return 2 * (world - 1) * part * width; }

private:
  int64_t width, world;
};

} // namespace trainrt

#endif // TRAINRT_FORMAT_MEMORY_ALLREDUCEWORK_H
