// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Convolutions with a filter for each channel, channels last, of f32: a warp has a strip, a lane a
// channel. Included behind warp.h, or its emulation.
#ifndef TRAINRT_DEVICE_CUDA_KERNELS_DEPTHWISE_F32_H
#define TRAINRT_DEVICE_CUDA_KERNELS_DEPTHWISE_F32_H

#include "device/cuda/kernels/depthwise_strips.h"

namespace trainrt::cuda::device {

/// The products of a source's row, of one channel from `from` on, with what it meets:
/// multiply(number, row of taps, column of taps, the strip's column).
template <int Taps, typename Multiply>
TRAINRT_DEVICE void depthwiseProducts(uint32_t from, const Multiply &multiply) {
  TRAINRT_UNROLL
  for (int i = 0; i < depthwiseColumns + Taps - 1; ++i) {
    const float x = warp::loadShared(from + uint32_t(i) * (depthwiseChannels * 4));
    TRAINRT_UNROLL
    for (int tap = 0; tap < Taps; ++tap)
      TRAINRT_UNROLL
    for (int c = 0; c < depthwiseColumns; ++c)
      if (i - c >= 0 && i - c < Taps)
        multiply(x, tap, i - c, c);
  }
}

/// Forward, or for the input, with the taps in the other order. The filter of a lane's channel is
/// in registers, and those of the result's rows that the source's row reaches. Grid: (parts,
/// channels and columns).
template <int Taps, bool Flipped> TRAINRT_DEVICE void depthwiseF32(const DepthwiseArguments &args) {
  constexpr int All = Taps * Taps, Stages = depthwiseStages(4, false), Columns = depthwiseColumns;
  DepthwiseBlock block(args, 4);
  block.prepare<Taps, false>(args, 4);
  const uint32_t strip = warp::thread() / 32, lane = warp::thread() % 32;
  const uint32_t filters = block.free, stages = filters + depthwiseChannels * All * 4;
  const uint32_t stageBytes = depthwiseChannels * block.places * 4;

  // The strip's columns of the result.
  const uint32_t begin = uint32_t(block.column) + strip % (1u << args.tilesShift) * Columns;
  const uint32_t image = strip >> args.tilesShift;
  const uint32_t at = image * uint32_t(args.resultRows * args.resultColumns) + begin;
  const bool has = begin < uint32_t(args.resultColumns);
  const uint32_t columns = uint32_t(args.resultColumns) - begin;
  float filter[All], sums[Taps][Columns];
  depthwiseClear(sums);
  const uint32_t own = (depthwiseBegin(args, strip) * depthwiseChannels + lane) * 4;

  depthwiseSlide<Taps, Stages>(
      block, stages, stageBytes,
      [&](uint32_t step, uint32_t to) TRAINRT_INLINE {
        depthwiseCopyVectors(DepthwiseRow(step), block.source.step, block.sourceTable, block.places,
                             to, block.channels);
      },
      [&]() TRAINRT_INLINE {
        block.copyFilters(args.filter, filters, All * 4);
        TRAINRT_UNROLL
        for (int i = 0; i < All; ++i)
          filter[i] =
              warp::loadShared(filters + (lane * All + uint32_t(Flipped ? All - 1 - i : i)) * 4);
      },
      [&](uint32_t step, int phase, uint32_t stage) TRAINRT_INLINE {
        if (!has)
          return;
        const DepthwiseRow row(step);
        depthwiseBeginRow(sums, phase, row.isNew);
        if (row.limit)
          depthwiseProducts<Taps>(stage + own,
                                  [&](float x, int tap, int column, int c) TRAINRT_INLINE {
                                    float &sum = sums[(phase - tap + Taps) % Taps][c];
                                    sum = __builtin_fmaf(x, filter[tap * Taps + column], sum);
                                  });
        // The row that no later one reaches.
        const DepthwiseRow to(step + 16);
        if (at >= to.limit || lane >= block.channels)
          return;
        uint64_t first = to.address + uint64_t(at) * block.result.step + lane * 4;
        TRAINRT_UNROLL
        for (uint32_t c = 0; c < Columns; ++c) {
          const uint32_t word[1] = {__builtin_bit_cast(uint32_t, sums[(phase + 1) % Taps][c])};
          if (c < columns)
            warp::storeWords(first, word);
          first += block.result.step;
        }
      });
}

/// The gradient for the filter: a lane sums up all taps of its channel; the strip's rows of the
/// result that the source's row meets are in registers. The strips are added up one after the
/// other. Grid: (parts, channels and columns); the columns' blocks are parts, too.
template <int Taps> TRAINRT_DEVICE void depthwiseSumsF32(const DepthwiseArguments &args) {
  constexpr int All = Taps * Taps, Stages = depthwiseStages(4, true), Columns = depthwiseColumns;
  DepthwiseBlock block(args, 4);
  block.prepare<Taps, true>(args, 4);
  const uint32_t strip = warp::thread() / 32, lane = warp::thread() % 32, stages = block.free;
  const uint32_t resultStage = depthwiseChannels * block.places * 4;
  const uint32_t stageBytes = resultStage + depthwiseResultBytes(4);
  const bool has =
      block.column + int32_t(strip % (1u << args.tilesShift)) * Columns < args.resultColumns;
  float sums[All], window[Taps][Columns];
  depthwiseClear(sums);
  depthwiseClear(window);
  const uint32_t own = (depthwiseBegin(args, strip) * depthwiseChannels + lane) * 4;
  const uint32_t ownResults = resultStage + (strip * Columns * depthwiseChannels + lane) * 4;

  depthwiseSlide<Taps, Stages>(
      block, stages, stageBytes,
      [&](uint32_t step, uint32_t to) TRAINRT_INLINE {
        depthwiseCopyVectors(DepthwiseRow(step), block.source.step, block.sourceTable, block.places,
                             to, block.channels);
        depthwiseCopyVectors(DepthwiseRow(step + 16), block.result.step, block.resultTable,
                             depthwiseResults, to + resultStage, block.channels);
      },
      []() {},
      [&](uint32_t step, int phase, uint32_t stage) TRAINRT_INLINE {
        if (!has)
          return;
        // Behind the part's last row are zeros: other parts have those.
        const DepthwiseRow row(step);
        depthwiseBeginRow(window, phase, row.isNew);
        if (DepthwiseRow(step + 16).limit)
          TRAINRT_UNROLL
        for (int c = 0; c < Columns; ++c)
          window[phase][c] =
              warp::loadShared(stage + ownResults + uint32_t(c) * (depthwiseChannels * 4));
        if (row.limit)
          depthwiseProducts<Taps>(
              stage + own, [&](float x, int tap, int column, int c) TRAINRT_INLINE {
                float &sum = sums[tap * Taps + column];
                sum = __builtin_fmaf(x, window[(phase - tap + Taps) % Taps][c], sum);
              });
      });

  const uint64_t first = block.sumsOf(args, All, lane);
  TRAINRT_UNROLL
  for (int row = 0; row < Taps; ++row) {
    warp::barrier();
    TRAINRT_UNROLL
    for (int tap = 0; tap < Taps; ++tap)
      warp::storeShared(stages + ((strip * Taps + tap) * depthwiseChannels + lane) * 4,
                        sums[row * Taps + tap]);
    warp::barrier();
    if (strip < uint32_t(Taps) && lane < block.channels) {
      float sum = 0;
      for (uint32_t i = 0; i < depthwiseStrips; ++i)
        sum += warp::loadShared(stages + ((i * Taps + strip) * depthwiseChannels + lane) * 4);
      const uint32_t word[1] = {__builtin_bit_cast(uint32_t, sum)};
      const uint64_t tap = uint32_t(row * Taps) + strip;
      warp::storeWords(first + tap * uint64_t(args.channels) * 4, word);
    }
  }
}

} // namespace trainrt::cuda::device

#endif // TRAINRT_DEVICE_CUDA_KERNELS_DEPTHWISE_F32_H
