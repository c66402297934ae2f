// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The only parameter of the kernels for attention, and how they cut it up, which host and device
// agree on.
#ifndef TRAINRT_DEVICE_CUDA_KERNELS_ATTENTION_ARGUMENTS_H
#define TRAINRT_DEVICE_CUDA_KERNELS_ATTENTION_ARGUMENTS_H

#include <stdint.h>

namespace trainrt::cuda {

/// A matrix [rows, columns] for each head; addresses and strides are multiples of 16 bytes.
struct HeadMatrices {
  uint64_t address = 0;
  int64_t row = 0, head = 0; ///< strides in bytes
  int64_t sample = 0;        ///< where there are no segments
};

struct AttentionArguments {
  HeadMatrices q, k, v, o;
  HeadMatrices dO, dQ, dK, dV; ///< of the backward
  uint64_t stats = 0;          ///< f32[rows, heads]; 0: none are wanted
  uint64_t offsets = 0;        ///< i32[segments + 1]; 0: `segments` samples of `rows` rows each
  uint64_t seed = 0;           ///< i64[2]
  int32_t segments = 0, rows = 0;
  /// A multiple of 16, for which there is shared memory. Longer segments are cut off.
  int32_t longest = 0;
  int32_t heads = 0;
  int32_t group = 1;    ///< heads that share one of k and v
  int32_t columns = 0;  ///< a multiple of 8, of all matrices
  int32_t clearing = 0; ///< thread blocks of a head that clear the rows behind the segments
  /// Row i sees the columns from i - before to i + after; none is more than `longest`.
  int32_t before = 0, after = 0;
  uint32_t dropped = 0; ///< weights are dropped with the probability dropped / 65536
  float kept = 1;       ///< what the others are multiplied with
  float scale = 1;

  /// Of windows: strides of `stats`, in elements; that of samples is 0 where there are segments.
  int64_t statsRow = 0, statsHead = 0, statsSample = 0;
  /// Of windows, two numbers for each row of q that the gradient of q leaves for those of k and v:
  /// f32[samples, heads, rows] each, with segments f32[heads, rows].
  uint64_t logs = 0, dots = 0;
  /// Of warpgroups with dropout, what the gradient of q leaves for those of k and v.
  uint64_t mask = 0;
};

/// Rows of q (or of k and v) that a thread block for a window computes, a tile of 16 for each of
/// its warps; and rows of the others that are in shared memory at a time.
inline constexpr int windowRows = 64, windowThreads = windowRows / 16 * 32;
/// Of more columns a warp's rows of k and v stay in shared memory.
inline constexpr int windowColumnsInRegisters = 64;
/// Bytes of shared memory: the next rows of two matrices come while those before are used. For the
/// gradients of k and v the rows of q have their numbers.
inline constexpr int windowSharedBytes(int columns, bool keys) {
  const int matrix = windowRows * columns * 2;
  return 2 * (2 * matrix + (keys ? windowRows * 8 : 0)) +
         (keys && columns > windowColumnsInRegisters ? 2 * matrix : 0);
}

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_KERNELS_ATTENTION_ARGUMENTS_H
