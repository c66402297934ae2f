// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Wave quantization: a matmul takes as many waves as its tiles fill, the last one rounded up.

#include "lib/Transforms/MergeProjections/MatmulTiles.h"

#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <limits>

using namespace trainc;

namespace {
/// Smaller tiles read more for each number that they compute: `share` of the unit's speed is left.
struct Tile {
  int64_t rows, columns;
  double share;
};
} // namespace

static constexpr Tile kTiles[] = {
    {128, 256, 1}, {256, 128, 1}, {128, 128, 0.85}, {64, 128, 0.65}, {128, 64, 0.65}};

double MatmulTiles::seconds(int64_t m, int64_t n, int64_t k) const {
  double best = std::numeric_limits<double>::infinity();
  for (const Tile &tile : kTiles) {
    const int64_t tiles =
        llvm::divideCeil(uint64_t(m), tile.rows) * llvm::divideCeil(uint64_t(n), tile.columns);
    const double whole =
        2.0 * double(tile.rows * tile.columns) * double(k) / (flops / double(units) * tile.share);
    for (int64_t parts : {1, 2, 4, 8}) {
      const double waves = double(llvm::divideCeil(uint64_t(tiles * parts), units));
      // Parts are in f32, written and read.
      const double sums = parts > 1 ? 8.0 * double(parts) * double(m) * double(n) / bytes : 0;
      best = std::min(best, waves * whole / double(parts) + sums);
    }
  }
  return begin + best;
}
