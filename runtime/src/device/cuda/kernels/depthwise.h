// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Convolutions with a filter for each channel, channels last, of elements of 16 bits, by tensor
// cores: a row of the result, 8 columns wide, is a row of the source times a band matrix of taps,
//
//   result[m, n] += source[m, k] * band[k, n],   band[k, n] = taps[k - n],
//
// for 16 such strips, the m. More than half of the products are with zeros, which is cheaper than
// products of the other units. Sums are f32, in an order that depends on sizes alone.
#ifndef TRAINRT_DEVICE_CUDA_KERNELS_DEPTHWISE_H
#define TRAINRT_DEVICE_CUDA_KERNELS_DEPTHWISE_H

#include "device/cuda/kernels/depthwise_strips.h"

namespace trainrt::cuda::device {

/// What a lane has of the band matrices of two channels, a matrix for each row of taps.
template <typename T, int Taps, bool Flipped> struct DepthwiseBands {
  static constexpr int All = Taps * Taps;
  uint32_t words[Taps][2][2];

  /// Filters of all channels of the block lie in shared memory.
  TRAINRT_DEVICE void load(uint32_t filters, uint32_t pair) {
    const int32_t column = int32_t(warp::thread() % 32 / 4), k = int32_t(warp::thread() % 4) * 2;
    TRAINRT_UNROLL
    for (int row = 0; row < Taps; ++row)
      TRAINRT_UNROLL
    for (uint32_t c = 0; c < 2; ++c)
      TRAINRT_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int32_t tap = k + half * 8 - column;
      words[row][c][half] = at(filters, (pair * 2 + c) * All, row, tap) |
                            at(filters, (pair * 2 + c) * All, row, tap + 1) << 16;
    }
  }

private:
  static TRAINRT_DEVICE uint32_t at(uint32_t filters, uint32_t first, int row, int32_t column) {
    if (uint32_t(column) >= uint32_t(Taps))
      return 0;
    const uint32_t tap = uint32_t(row * Taps + column);
    const uint32_t element = first + (Flipped ? All - 1 - tap : tap);
    return warp::loadSharedWord(filters + element / 2 * 4) >> (element % 2 * 16) & 0xffffu;
  }
};

/// Writes a row of the result from shared memory, four channels a thread.
TRAINRT_DEVICE void depthwiseStore(const DepthwiseRow &row, uint32_t step, uint32_t table,
                                   uint32_t results, uint32_t channels) {
  constexpr uint32_t vectors = depthwiseChannels / 4, slots = depthwiseSlots(2);
  const uint32_t vector = warp::thread() % vectors, first = warp::thread() / vectors;
  if (!row.limit || vector * 4 >= channels)
    return;
  const uint64_t to = row.address + vector * 8;
  const uint32_t from = results + (vector * 2 * depthwiseResultPitch + first) * 4;
  table += (first % slots * depthwiseTurns + first / slots) * 4;
  TRAINRT_UNROLL
  for (uint32_t i = 0; i < depthwiseResults; i += depthwiseThreads / vectors) {
    const uint32_t at = warp::loadSharedWord(table + i / slots * 4);
    const uint32_t words[2] = {warp::loadSharedWord(from + i * 4),
                               warp::loadSharedWord(from + (depthwiseResultPitch + i) * 4)};
    if (at < row.limit)
      warp::storeWords(to + uint64_t(at) * step, words);
  }
}

/// Forward, or for the input, with the taps in the other order. A warp has two channels of all
/// strips; of the result's rows those that the source's row reaches are in registers. Grid: (parts,
/// channels and columns).
template <typename T, int Taps, bool Flipped>
TRAINRT_DEVICE void depthwise(const DepthwiseArguments &args) {
  constexpr int All = Taps * Taps, Stages = depthwiseStages(2, false);
  DepthwiseBlock block(args, 2);
  block.prepare<Taps, false>(args, 2);
  const uint32_t pair = warp::thread() / 32, lane = warp::thread() % 32;
  const bool has = pair * 2 < block.channels;
  const uint32_t pitch = block.places + depthwisePadding;
  const uint32_t stageBytes = depthwiseChannels / 2 * pitch * 4;
  const uint32_t results = block.free, stages = results + 2 * depthwiseResultBytes(2);

  DepthwiseBands<T, Taps, Flipped> bands;
  float sums[Taps][2][4];
  depthwiseClear(sums);
  // A lane's first position in the two strips of which it has elements.
  const uint32_t own = (pair * pitch + lane % 4 * 2) * 4;
  const uint32_t strips[2] = {own + depthwiseBegin(args, lane / 4) * 4,
                              own + depthwiseBegin(args, lane / 4 + 8) * 4};
  const uint32_t ownResults = (pair * depthwiseResultPitch + lane * 2) * 4;
  uint32_t now = results, before = results + depthwiseResultBytes(2);

  depthwiseSlide<Taps, Stages>(
      block, stages, stageBytes,
      [&](uint32_t step, uint32_t to) TRAINRT_INLINE {
        depthwiseCopyPairs(DepthwiseRow(step), block.source.step, block.sourceTable, block.places,
                           pitch, to, block.channels);
      },
      [&]() TRAINRT_INLINE {
        block.copyFilters(args.filter, results, All * 2);
        if (has)
          bands.load(results, pair);
      },
      [&](uint32_t step, int phase, uint32_t stage) TRAINRT_INLINE {
        // The row before is whole.
        depthwiseStore(DepthwiseRow(step - depthwiseStepBytes + 16), block.result.step,
                       block.resultTable, before, block.channels);
        const uint32_t last = before;
        before = now;
        now = last;
        if (!has)
          return;
        const DepthwiseRow row(step);
        depthwiseBeginRow(sums, phase, row.isNew);
        if (row.limit) {
          uint32_t words[2][4];
          TRAINRT_UNROLL
          for (int i = 0; i < 4; ++i) {
            uint32_t first, second;
            warp::loadSharedWords(stage + strips[i % 2] + i / 2 * 32, first, second);
            words[0][i] = warp::lows(first, second);
            words[1][i] = warp::highs(first, second);
          }
          TRAINRT_UNROLL
          for (int tap = 0; tap < Taps; ++tap)
            TRAINRT_UNROLL
          for (int c = 0; c < 2; ++c)
            warp::multiply(T(), sums[(phase - tap + Taps) % Taps][c], words[c],
                           bands.words[tap][c][0], bands.words[tap][c][1]);
        }
        // The row that no later one reaches.
        if (!DepthwiseRow(step + 16).limit)
          return;
        const float (&done)[2][4] = sums[(phase + 1) % Taps];
        TRAINRT_UNROLL
        for (int i = 0; i < 4; i += 2)
          warp::storeSharedWords(before + ownResults + i * (4 * depthwiseColumns * 4),
                                 warp::pack(T(), done[0][i], done[1][i]),
                                 warp::pack(T(), done[0][i + 1], done[1][i + 1]));
      });
  warp::barrier();
  depthwiseStore(DepthwiseRow(block.told + block.steps * depthwiseStepBytes + 16),
                 block.result.step, block.resultTable, before, block.channels);
}

/// Adds up the diagonals of two channels' matrices, in the warp's own shared memory; writes the
/// sums of the first channel's first tap to `to`.
template <int Taps>
TRAINRT_DEVICE void depthwiseDiagonals(const DepthwiseArguments &args,
                                       const float (&sums)[Taps][2][4], uint32_t area,
                                       uint64_t to) {
  const uint32_t lane = warp::thread() % 32;
  const uint32_t own = area + (lane / 4 * depthwiseColumns + lane % 4 * 2) * 4;
  const uint32_t c = lane / depthwiseReach, tap = lane % depthwiseReach;
  TRAINRT_UNROLL
  for (int row = 0; row < Taps; ++row) {
    TRAINRT_UNROLL
    for (int i = 0; i < 2; ++i)
      TRAINRT_UNROLL
    for (int half = 0; half < 2; ++half)
      warp::storeSharedWords(own + (i * depthwiseReach + half * 8) * (depthwiseColumns * 4),
                             __builtin_bit_cast(uint32_t, sums[row][i][half * 2]),
                             __builtin_bit_cast(uint32_t, sums[row][i][half * 2 + 1]));
    warp::meet();
    if (tap < uint32_t(Taps)) {
      float sum = 0;
      for (uint32_t n = 0; n < depthwiseColumns; ++n)
        sum += warp::loadShared(area + ((c * depthwiseReach + n + tap) * depthwiseColumns + n) * 4);
      const uint32_t word[1] = {__builtin_bit_cast(uint32_t, sum)};
      warp::storeWords(to + (uint64_t(row * Taps + int(tap)) * uint64_t(args.channels) + c) * 4,
                       word);
    }
    warp::meet();
  }
}

/// The gradient for the filter: with the same strips,
///
///   sums[m, n] += source[k + m] * result[k + n],   of which the filter's are those of m - n,
///
/// a matrix for each row of taps, where k are the strips' first columns. A warp has two channels;
/// the rows of the result that the source's row meets are in registers. Grid: (parts, channels and
/// columns); the columns' blocks are parts, too.
template <typename T, int Taps> TRAINRT_DEVICE void depthwiseSums(const DepthwiseArguments &args) {
  constexpr int All = Taps * Taps, Stages = depthwiseStages(2, true);
  DepthwiseBlock block(args, 2);
  block.prepare<Taps, true>(args, 2);
  const uint32_t pair = warp::thread() / 32, lane = warp::thread() % 32;
  const bool has = pair * 2 < block.channels;
  const uint32_t pitch = block.places + depthwisePadding, stages = block.free;
  const uint32_t resultStage = depthwiseChannels / 2 * pitch * 4;
  const uint32_t stageBytes = resultStage + depthwiseResultBytes(2);

  float sums[Taps][2][4];
  uint32_t window[Taps][2][2];
  depthwiseClear(sums);
  depthwiseClear(window);
  // k = 2 t, 2 t + 1, 2 t + 8, 2 t + 9 of a lane's are the strips t, t + 4, t + 8, t + 12: lanes
  // read columns side by side.
  const uint32_t own = (pair * pitch + lane / 4) * 4;
  uint32_t strips[4];
  TRAINRT_UNROLL
  for (uint32_t i = 0; i < 4; ++i)
    strips[i] = own + depthwiseBegin(args, lane % 4 + i * 4) * 4;
  const uint32_t ownResults =
      resultStage + (pair * depthwiseResultPitch + lane % 4 * depthwiseColumns + lane / 4) * 4;

  depthwiseSlide<Taps, Stages>(
      block, stages, stageBytes,
      [&](uint32_t step, uint32_t to) TRAINRT_INLINE {
        depthwiseCopyPairs(DepthwiseRow(step), block.source.step, block.sourceTable, block.places,
                           pitch, to, block.channels);
        depthwiseCopyPairs(DepthwiseRow(step + 16), block.result.step, block.resultTable,
                           depthwiseResults, depthwiseResultPitch, to + resultStage,
                           block.channels);
      },
      []() {},
      [&](uint32_t step, int phase, uint32_t stage) TRAINRT_INLINE {
        if (!has)
          return;
        const DepthwiseRow row(step);
        if (row.isNew)
          depthwiseClear(window);
        // Behind the part's last row are zeros: other parts have those.
        uint32_t words[4] = {};
        if (DepthwiseRow(step + 16).limit)
          TRAINRT_UNROLL
        for (uint32_t i = 0; i < 4; ++i)
          words[i] = warp::loadSharedWord(stage + ownResults + i * (4 * depthwiseColumns * 4));
        TRAINRT_UNROLL
        for (int half = 0; half < 2; ++half) {
          window[phase][0][half] = warp::lows(words[half * 2], words[half * 2 + 1]);
          window[phase][1][half] = warp::highs(words[half * 2], words[half * 2 + 1]);
        }
        if (!row.limit)
          return;
        uint32_t matrix[2][4];
        TRAINRT_UNROLL
        for (int i = 0; i < 4; ++i) {
          const uint32_t begin = stage + i % 2 * 32;
          const uint32_t first = warp::loadSharedWord(begin + strips[i / 2 * 2]);
          const uint32_t second = warp::loadSharedWord(begin + strips[i / 2 * 2 + 1]);
          matrix[0][i] = warp::lows(first, second);
          matrix[1][i] = warp::highs(first, second);
        }
        TRAINRT_UNROLL
        for (int tap = 0; tap < Taps; ++tap)
          TRAINRT_UNROLL
        for (int c = 0; c < 2; ++c) {
          const uint32_t (&of)[2] = window[(phase - tap + Taps) % Taps][c];
          warp::multiply(T(), sums[tap][c], matrix[c], of[0], of[1]);
        }
      });

  warp::barrier();
  if (has)
    depthwiseDiagonals<Taps>(args, sums,
                             stages + pair * (2 * depthwiseReach * depthwiseColumns * 4),
                             block.sumsOf(args, All, pair * 2));
}

} // namespace trainrt::cuda::device

#endif // TRAINRT_DEVICE_CUDA_KERNELS_DEPTHWISE_H
