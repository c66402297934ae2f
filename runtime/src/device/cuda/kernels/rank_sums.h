// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The sum over ranks, of a GPU and, in tests, of the host: 0 + that of rank 0 + that of rank 1 +
// ..., as accumulators add up micro-batches.
#ifndef TRAINRT_DEVICE_CUDA_KERNELS_RANK_SUMS_H
#define TRAINRT_DEVICE_CUDA_KERNELS_RANK_SUMS_H

#include <stdint.h>

namespace trainrt::cuda {

/// What a launch adds up: this rank's elements lie where gradients do, in ranges; of each other
/// rank there is a piece, `stride` elements behind that of the rank before.
struct RankSumsArguments {
  static constexpr int mostRanges = 64;
  uint64_t pieces;
  int64_t stride;
  int32_t world, rank;
  struct Range {
    uint64_t own, sums;      ///< which may be one
    int64_t begin, elements; ///< in the pieces
  } ranges[mostRanges];
};

/// The slots of commands that may have met a bad index (`ErrorSlot`), and the number that tells the
/// other ranks of it.
struct VerdictArguments {
  static constexpr int wordsOfSlot = 4;
  uint64_t slots;
  int64_t count;
  uint64_t verdict;
};

namespace device {

/// Looks at the slots first, first + step, ...
constexpr void judge(const int64_t *slots, int64_t count, float *verdict, int64_t first,
                     int64_t step) {
  for (int64_t i = first; i < count; i += step)
    if (slots[i * VerdictArguments::wordsOfSlot])
      *verdict = 1;
}

/// Of one range the elements first, first + step, ...
template <typename T>
constexpr void addRanks(const T *pieces, int64_t stride, int32_t world, int32_t rank, const T *own,
                        T *sums, int64_t begin, int64_t elements, int64_t first, int64_t step) {
  for (int64_t i = first; i < elements; i += step) {
    T sum = 0;
    for (int32_t other = 0; other < world; ++other)
      sum += other == rank ? own[i] : pieces[(other - (other > rank)) * stride + begin + i];
    sums[i] = sum;
  }
}

} // namespace device
} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_KERNELS_RANK_SUMS_H
