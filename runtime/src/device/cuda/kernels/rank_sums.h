// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The sum over ranks, of a GPU and, in tests, of the host: 0 + that of rank 0 + that of rank 1 +
// ..., as accumulators add up micro-batches.
#ifndef TRAINRT_DEVICE_CUDA_KERNELS_RANK_SUMS_H
#define TRAINRT_DEVICE_CUDA_KERNELS_RANK_SUMS_H

#include "format/narrow_float.h"

#include <stdint.h>

#ifdef __CUDA__
#define TRAINRT_RANK_SUMS_CODE __attribute__((device)) inline
#else
#define TRAINRT_RANK_SUMS_CODE inline
#endif

namespace trainrt::cuda {

/// What a launch adds up: this rank's elements lie where gradients do, in ranges; of each other
/// rank there is a piece, `stride` elements behind that of the rank before. Elements of bf16 or f16
/// have sums of f32.
struct RankSumsArguments {
  static constexpr int mostRanges = 64;
  uint64_t pieces;
  int64_t stride;
  int32_t world, rank;
  struct Range {
    uint64_t own, sums;      ///< which may be one, where they have one type
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
template <typename T, typename From>
constexpr void addRanks(const From *pieces, int64_t stride, int32_t world, int32_t rank,
                        const From *own, T *sums, int64_t begin, int64_t elements, int64_t first,
                        int64_t step) {
  for (int64_t i = first; i < elements; i += step) {
    T sum = 0;
    for (int32_t other = 0; other < world; ++other)
      sum += T(other == rank ? own[i] : pieces[(other - (other > rank)) * stride + begin + i]);
    sums[i] = sum;
  }
}

/// Numbers that a thread takes at once, so that it asks for as many bytes as others do.
template <typename Number> struct alignas(4 * sizeof(Number)) RankFour {
  Number a, b, c, d;
};

/// The same of narrow numbers, four at a time where all of them are aligned for that.
template <typename From>
TRAINRT_RANK_SUMS_CODE void addNarrowRanks(const RankSumsArguments &args,
                                           const RankSumsArguments::Range &range, int64_t first,
                                           int64_t step) {
  using Four = RankFour<From>;
  using Sums = RankFour<float>;
  const uint64_t pieces = args.pieces + uint64_t(range.begin) * sizeof(From);
  const bool areAligned =
      (range.own | pieces | (uint64_t(args.stride) * sizeof(From))) % alignof(Four) == 0 &&
      range.sums % alignof(Sums) == 0;
  const int64_t fours = areAligned ? range.elements / 4 : 0;
  for (int64_t i = first; i < fours; i += step) {
    Sums sum{};
    for (int32_t other = 0; other < args.world; ++other) {
      const uint64_t from =
          other == args.rank
              ? range.own
              : pieces + uint64_t((other - (other > args.rank)) * args.stride) * sizeof(From);
      const Four four = reinterpret_cast<const Four *>(from)[i];
      sum.a += float(four.a);
      sum.b += float(four.b);
      sum.c += float(four.c);
      sum.d += float(four.d);
    }
    reinterpret_cast<Sums *>(range.sums)[i] = sum;
  }
  addRanks(reinterpret_cast<const From *>(args.pieces), args.stride, args.world, args.rank,
           reinterpret_cast<const From *>(range.own), reinterpret_cast<float *>(range.sums),
           range.begin, range.elements, 4 * fours + first, step);
}

/// And what one rank alone makes of them, which is not the sum: that of -0 is 0.
template <typename From>
TRAINRT_RANK_SUMS_CODE void widenRange(const RankSumsArguments::Range &range, int64_t first,
                                       int64_t step) {
  using Four = RankFour<From>;
  using Wide = RankFour<float>;
  const auto *own = reinterpret_cast<const From *>(range.own);
  auto *to = reinterpret_cast<float *>(range.sums);
  const bool areAligned = range.own % alignof(Four) == 0 && range.sums % alignof(Wide) == 0;
  const int64_t fours = areAligned ? range.elements / 4 : 0;
  for (int64_t i = first; i < fours; i += step) {
    const Four four = reinterpret_cast<const Four *>(own)[i];
    reinterpret_cast<Wide *>(to)[i] = {float(four.a), float(four.b), float(four.c), float(four.d)};
  }
  for (int64_t i = 4 * fours + first; i < range.elements; i += step)
    to[i] = float(own[i]);
}

} // namespace device
} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_KERNELS_RANK_SUMS_H
