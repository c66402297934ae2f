// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The most memory that calls of NVIDIA's libraries ask for beside their operands, as far as it is
// known without them.
#ifndef TRAINRT_CUDA_WORKSPACE_BOUNDS_H
#define TRAINRT_CUDA_WORKSPACE_BOUNDS_H

#include <cstdint>

namespace trainrt::cuda {

/// Most that a matrix product may ask for.
inline constexpr uint64_t gemmWorkspaceLimit = uint64_t(32) << 20;

/// Sizes of a fused attention; with segments, `batch` is their number, `rows` and `keys` the length
/// of the longest.
struct AttentionSizes {
  int64_t batch, heads, kvHeads, rows, keys, columns, valueColumns;
  bool backward, segmented;
};

/// Sums of the gradient of q in f32 and two numbers a row, rows in tiles of 128; gradients of k and
/// v by head of q, where several share one.
inline constexpr int64_t attentionWorkspaceLimit(const AttentionSizes &s) {
  constexpr int64_t fixed = 1 << 20, tile = 128;
  if (!s.backward)
    return fixed;
  const int64_t rows = (s.rows + tile - 1) / tile * tile, keys = (s.keys + tile - 1) / tile * tile;
  int64_t bytes = s.batch * s.heads * rows * (4 * s.columns + 8);
  if (s.heads != s.kvHeads)
    bytes += s.batch * s.heads * keys * 2 * (s.columns + s.valueColumns);
  return fixed + bytes;
}

} // namespace trainrt::cuda

#endif // TRAINRT_CUDA_WORKSPACE_BOUNDS_H
