// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The most memory that calls of NVIDIA's libraries ask for beside their operands, as far as it is
// known without them.
#ifndef TRAINRT_FORMAT_MEMORY_WORKSPACE_BOUNDS_H
#define TRAINRT_FORMAT_MEMORY_WORKSPACE_BOUNDS_H

#include <algorithm>
#include <cstdint>

namespace trainrt::cuda {

/// Most that a matmul may ask for.
inline constexpr uint64_t gemmWorkspaceLimit = uint64_t(32) << 20;

/// Most that a convolution may ask for: partial sums of its filter's gradient, and operands in the
/// layout of the library's kernel.
inline constexpr int64_t convolutionWorkspaceLimit = int64_t(256) << 20;

/// Sizes of a fused attention; with segments, `batch` is their number, `rows` and `keys` the length
/// of the longest.
struct AttentionSizes {
  int64_t batch, heads, kvHeads, rows, keys, columns, valueColumns;
  bool backward, segmented, dropout, biasGradient;
};

/// The gradients of all scores in 16 bits, rows in tiles: what cuDNN's deterministic backward pass
/// keeps before it sums them up.
inline constexpr int64_t attentionScoreBytes(const AttentionSizes &s) {
  auto tiled = [](int64_t extent, int64_t tile) { return (extent + tile - 1) / tile * tile; };
  return s.batch * s.heads * tiled(s.rows, 64) * tiled(s.keys, 128) * 2;
}

/// In how many calls an attention is done, each of `batch` samples (of the last ones of fewer, some
/// are those of the call before, too, which only segments may) and, of one sample, `kvHeads /
/// heads` of the heads of k and v. Gradients of scores are why; dropout's random numbers are for
/// all of them at once, and a bias of all samples gets one sum.
struct AttentionParts {
  int64_t batches = 1, heads = 1, batch = 0;
};
inline constexpr AttentionParts attentionParts(AttentionSizes s) {
  constexpr int64_t most = int64_t(256) << 20;
  AttentionParts parts{1, 1, s.batch};
  if (!s.backward || s.dropout)
    return parts;
  auto fewest = [&](int64_t extent, auto fits) {
    int64_t found = 1;
    for (int64_t count = 1; count <= extent && attentionScoreBytes(s) / found > most; ++count)
      if (extent % count == 0 && fits(count))
        found = count;
    return found;
  };
  if (s.segmented) {
    // What is computed twice gives the same: any number of parts will do.
    const int64_t each = std::max<int64_t>(attentionScoreBytes(s) / s.batch, 1);
    const int64_t fit = std::clamp<int64_t>(most / each, 1, s.batch);
    parts.batches = (s.batch + fit - 1) / fit;
    parts.batch = (s.batch + parts.batches - 1) / parts.batches;
  } else {
    parts.batches = fewest(s.biasGradient ? 1 : s.batch, [](int64_t) { return true; });
    parts.batch = s.batch / parts.batches;
  }
  s.batch = parts.batch;
  // Statistics of segments have their heads side by side: those of a part begin at 16 bytes.
  if (s.batch == 1)
    parts.heads =
        fewest(s.kvHeads, [&](int64_t count) { return !s.segmented || s.heads / count % 4 == 0; });
  return parts;
}

/// For the gradients of scores, two numbers a row, and gradients of k and v by head of q, where
/// several share one.
inline constexpr int64_t attentionWorkspaceLimit(AttentionSizes s) {
  constexpr int64_t fixed = 1 << 20, tile = 128;
  if (!s.backward)
    return fixed;
  const AttentionParts parts = attentionParts(s);
  s.batch = parts.batch;
  s.heads /= parts.heads;
  s.kvHeads /= parts.heads;
  const int64_t rows = (s.rows + tile - 1) / tile * tile, keys = (s.keys + tile - 1) / tile * tile;
  // Or sums of the gradient of q in f32, which are more for short rows.
  const int64_t sums = s.batch * s.heads * rows * 4 * s.columns;
  int64_t bytes = std::max(attentionScoreBytes(s), sums) + s.batch * s.heads * rows * 8;
  if (s.heads != s.kvHeads)
    bytes += s.batch * s.heads * keys * 2 * (s.columns + s.valueColumns);
  return fixed + bytes;
}

} // namespace trainrt::cuda

#endif // TRAINRT_FORMAT_MEMORY_WORKSPACE_BOUNDS_H
