// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How long a library's matmuls take by the waves of tiles that they are computed in.
#ifndef TRAINC_TRANSFORMS_MERGEPROJECTIONS_MATMULTILES_H
#define TRAINC_TRANSFORMS_MERGEPROJECTIONS_MATMULTILES_H

#include <cstdint>

namespace trainc {

/// A processor that computes a matmul tile by tile: each of its `units` one at a time.
struct MatmulTiles {
  int64_t units;
  /// Of all units in a second, and bytes that they move.
  double flops, bytes;
  /// Seconds until the first tile is computed and behind the last one.
  double begin;

  /// Of a matmul of [m, k] and [k, n] in the best of the usual tiles. The last wave takes as long
  /// as others, however few tiles it has. Where sums are long, parts of a sum are computed as tiles
  /// of their own and are added up from memory, if that is quicker.
  double seconds(int64_t m, int64_t n, int64_t k) const;
};

} // namespace trainc

#endif // TRAINC_TRANSFORMS_MERGEPROJECTIONS_MATMULTILES_H
