// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The only parameter of the kernels for attention over short segments, which host and device agree
// on.
#ifndef TRAINRT_DEVICE_CUDA_KERNELS_SEGMENT_ATTENTION_ARGUMENTS_H
#define TRAINRT_DEVICE_CUDA_KERNELS_SEGMENT_ATTENTION_ARGUMENTS_H

#include <stdint.h>

namespace trainrt::cuda {

/// A matrix [rows, columns] for each head; addresses and strides are multiples of 16 bytes.
struct HeadMatrices {
  uint64_t address = 0;
  int64_t row = 0, head = 0; ///< strides in bytes
};

struct SegmentAttentionArguments {
  HeadMatrices q, k, v, o;
  HeadMatrices dO, dQ, dK, dV; ///< of the backward
  uint64_t stats = 0;          ///< f32[rows, heads]; 0: none are wanted
  uint64_t offsets = 0;        ///< i32[segments + 1]
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
};

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_KERNELS_SEGMENT_ATTENTION_ARGUMENTS_H
