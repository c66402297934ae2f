// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The sum over ranks, of a GPU and, in tests, of the host: 0 + that of rank 0 + that of rank 1 +
// ..., as accumulators add up micro-batches.
#ifndef TRAINRT_DEVICE_CUDA_KERNELS_RANK_SUMS_H
#define TRAINRT_DEVICE_CUDA_KERNELS_RANK_SUMS_H

#include <stdint.h>

namespace trainrt::cuda::device {

/// Of `world` pieces, `stride` elements behind each other, the elements first, first + step, ...
/// below `count`; the sums come over the first piece.
template <typename T>
constexpr void addRanks(T *pieces, int64_t stride, int64_t count, int64_t world, int64_t first,
                        int64_t step) {
  for (int64_t i = first; i < count; i += step) {
    T sum = 0;
    for (int64_t rank = 0; rank < world; ++rank)
      sum += pieces[rank * stride + i];
    pieces[i] = sum;
  }
}

} // namespace trainrt::cuda::device

#endif // TRAINRT_DEVICE_CUDA_KERNELS_RANK_SUMS_H
