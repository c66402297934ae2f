// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Convolutions with a filter for each channel, channels last, as they are at the speed of memory.
// Included behind warp.h, or its emulation. Numbers are multiplied and added in f32, in an order
// that depends on sizes alone.
#ifndef TRAINRT_DEVICE_CUDA_KERNELS_DEPTHWISE_H
#define TRAINRT_DEVICE_CUDA_KERNELS_DEPTHWISE_H

#include "device/cuda/kernels/depthwise_arguments.h"

#define TRAINRT_UNROLL _Pragma("clang loop unroll(full)")

namespace trainrt::cuda::device {

struct F32 {};

/// V elements of a type as they lie in memory.
template <typename T, int V> struct Packed {
  static constexpr int bytes = 2, words = V / 2;
  uint32_t data[words];

  TRAINRT_DEVICE void unpack(float (&x)[V]) const {
    TRAINRT_UNROLL
    for (int i = 0; i < words; ++i)
      warp::unpack(T(), data[i], x[2 * i], x[2 * i + 1]);
  }
  TRAINRT_DEVICE void pack(const float (&x)[V]) {
    TRAINRT_UNROLL
    for (int i = 0; i < words; ++i)
      data[i] = warp::pack(T(), x[2 * i], x[2 * i + 1]);
  }
};
template <int V> struct Packed<F32, V> {
  static constexpr int bytes = 4, words = V;
  uint32_t data[words];

  TRAINRT_DEVICE void unpack(float (&x)[V]) const {
    TRAINRT_UNROLL
    for (int i = 0; i < V; ++i)
      x[i] = __builtin_bit_cast(float, data[i]);
  }
  TRAINRT_DEVICE void pack(const float (&x)[V]) {
    TRAINRT_UNROLL
    for (int i = 0; i < V; ++i)
      data[i] = __builtin_bit_cast(uint32_t, x[i]);
  }
};

/// A thread slides down `rows` rows of the result, `depthwiseColumns` columns wide. Of the result's
/// rows those that the source's row reaches are in registers, `Taps` of them. `Flipped`: the taps
/// in the other order. Grid: (images x chunks, columns and channels).
template <typename T, int Taps, bool Flipped>
TRAINRT_DEVICE void depthwise(const DepthwiseArguments &args) {
  constexpr int V = depthwiseVector(Taps), Columns = depthwiseColumns, All = Taps * Taps;
  constexpr int Positions = Columns + Taps - 1;
  using Vector = Packed<T, V>;
  constexpr uint32_t words = uint32_t(V * All * Vector::bytes / 4);
  const uint32_t vectors = uint32_t(args.channels) / V, begins = warp::blockY() * warp::threads();
  const uint32_t index = begins + warp::thread();
  const uint32_t tile = index / vectors, vector = index % vectors, first = vector * V;
  const int32_t image = int32_t(warp::blockX()) / args.chunks;
  const int32_t begin = int32_t(warp::blockX()) % args.chunks * args.rows;
  const int32_t end = begin + args.rows < args.resultRows ? begin + args.rows : args.resultRows;

  // The filters of V channels lie together: they are read side by side by the block, and taken by
  // each thread from shared memory.
  const bool all = vectors < warp::threads();
  const uint32_t shared = warp::sharedMemory();
  for (uint32_t i = warp::thread(); i < (all ? vectors : warp::threads()) * words;
       i += warp::threads()) {
    const uint32_t of = all ? i / words : (begins + i / words) % vectors;
    uint32_t word[1];
    warp::loadConstant(args.filter + (uint64_t(of) * words + i % words) * 4, true, word);
    warp::storeShared(shared + i * 4, __builtin_bit_cast(float, word[0]));
  }
  warp::barrier();
  if (int32_t(tile) * Columns >= args.resultColumns)
    return;
  float filter[V * All];
  {
    Packed<T, V * All> packed;
    const uint32_t own = shared + (all ? vector : warp::thread()) * words * 4;
    TRAINRT_UNROLL
    for (uint32_t i = 0; i < words; ++i)
      packed.data[i] = __builtin_bit_cast(uint32_t, warp::loadShared(own + i * 4));
    packed.unpack(filter);
  }
  float sums[Taps][Columns][V];
  TRAINRT_UNROLL
  for (int i = 0; i < Taps; ++i)
    TRAINRT_UNROLL
  for (int c = 0; c < Columns; ++c)
    TRAINRT_UNROLL
  for (int v = 0; v < V; ++v)
    sums[i][c][v] = 0;

  const int32_t column = int32_t(tile) * Columns, left = column - args.padColumns;
  const int64_t step = int64_t(args.channels) * Vector::bytes;
  const int64_t sourceRow = step * args.sourceColumns, resultRow = step * args.resultColumns;
  const uint64_t offset = uint64_t(first) * Vector::bytes;
  const uint64_t source =
      args.source + offset + uint64_t(int64_t(image) * args.sourceRows * sourceRow + left * step);
  uint64_t result =
      args.result + offset +
      uint64_t((int64_t(image) * args.resultRows + begin) * resultRow + column * step);
  bool inside[Positions];
  TRAINRT_UNROLL
  for (int i = 0; i < Positions; ++i)
    inside[i] = uint32_t(left + i) < uint32_t(args.sourceColumns);

  // The next row arrives while one is used.
  Vector next[Positions];
  auto load = [&](int32_t row) {
    const bool there = uint32_t(row) < uint32_t(args.sourceRows);
    const uint64_t from = source + uint64_t(row * sourceRow);
    TRAINRT_UNROLL
    for (int i = 0; i < Positions; ++i)
      warp::loadConstant(from + uint64_t(i * step), there && inside[i], next[i].data);
  };
  const int32_t top = begin - args.padRows, reads = end - begin + Taps - 1;
  load(top);
  for (int32_t base = 0; base < reads; base += Taps) {
    TRAINRT_UNROLL
    for (int phase = 0; phase < Taps; ++phase) {
      const int32_t read = base + phase;
      if (read < reads) {
        Vector now[Positions];
        TRAINRT_UNROLL
        for (int i = 0; i < Positions; ++i)
          now[i] = next[i];
        load(read + 1 < reads ? top + read + 1 : -1);
        TRAINRT_UNROLL
        for (int i = 0; i < Positions; ++i) {
          float x[V];
          now[i].unpack(x);
          TRAINRT_UNROLL
          for (int row = 0; row < Taps; ++row)
            TRAINRT_UNROLL
          for (int c = 0; c < Columns; ++c)
            if (i - c >= 0 && i - c < Taps) {
              const int tap = row * Taps + i - c;
              TRAINRT_UNROLL
              for (int v = 0; v < V; ++v)
                sums[(phase - row + Taps) % Taps][c][v] =
                    __builtin_fmaf(x[v], filter[v * All + (Flipped ? All - 1 - tap : tap)],
                                   sums[(phase - row + Taps) % Taps][c][v]);
            }
        }
        // The row that no later one reaches; before the first one there is none.
        constexpr int Last = Taps - 1;
        const bool whole = read >= Last;
        TRAINRT_UNROLL
        for (int c = 0; c < Columns; ++c) {
          float (&done)[V] = sums[(phase + 1) % Taps][c];
          Vector packed;
          packed.pack(done);
          if (whole && column + c < args.resultColumns)
            warp::storeWords(result + uint64_t(c * step), packed.data);
          TRAINRT_UNROLL
          for (int v = 0; v < V; ++v)
            done[v] = 0;
        }
        if (whole)
          result += uint64_t(resultRow);
      }
    }
  }
}

/// A thread slides down pieces of the output, and sums up all taps of some channels; the rows of
/// the output that the input's row meets are in registers. The threads of a block that have the
/// same channels are added up. Grid: (parts, channels), blocks of some groups of `lanes` threads.
template <typename T, int Taps>
TRAINRT_DEVICE void depthwiseSums(const DepthwiseSumsArguments &args) {
  constexpr int V = depthwiseVector(Taps), Columns = depthwiseColumns, All = Taps * Taps;
  constexpr int Positions = Columns + Taps - 1;
  using Vector = Packed<T, V>;
  const uint32_t lanes = uint32_t(args.lanes), groups = warp::threads() / lanes;
  const uint32_t lane = warp::thread() % lanes, group = warp::thread() / lanes;
  const uint32_t first = (warp::blockY() * lanes + lane) * V;
  const bool there = first < uint32_t(args.channels);
  float sums[All][V];
  TRAINRT_UNROLL
  for (int t = 0; t < All; ++t)
    TRAINRT_UNROLL
  for (int v = 0; v < V; ++v)
    sums[t][v] = 0;
  const int64_t step = int64_t(args.channels) * Vector::bytes;
  const int64_t inputRow = step * args.inputColumns, outputRow = step * args.outputColumns;
  const uint64_t offset = uint64_t(first) * Vector::bytes;
  const int32_t begin = int32_t(warp::blockX()) * args.partPieces;
  const int32_t limit = begin + args.partPieces;
  const int32_t end = !there ? 0 : limit < args.allPieces ? limit : args.allPieces;
  for (int32_t piece = begin + int32_t(group); piece < end; piece += int32_t(groups)) {
    const int32_t column = piece % args.tiles * Columns, of = piece / args.tiles;
    const int32_t image = of / args.chunks, top = of % args.chunks * args.rows;
    const int32_t count = top + args.rows < args.outputRows ? args.rows : args.outputRows - top;
    const int32_t left = column - args.padColumns;
    const uint64_t input =
        args.input + offset +
        uint64_t((int64_t(image) * args.inputRows + top - args.padRows) * inputRow + left * step);
    const uint64_t output =
        args.output + offset +
        uint64_t((int64_t(image) * args.outputRows + top) * outputRow + column * step);
    // What only a column behind the last one would meet is not looked at.
    bool inside[Positions], isColumn[Columns];
    TRAINRT_UNROLL
    for (int c = 0; c < Columns; ++c)
      isColumn[c] = column + c < args.outputColumns;
    TRAINRT_UNROLL
    for (int i = 0; i < Positions; ++i)
      inside[i] = uint32_t(left + i) < uint32_t(args.inputColumns) &&
                  (i < Taps || isColumn[i < Taps ? 0 : i - Taps + 1]);
    Vector nextIn[Positions], nextOut[Columns];
    auto load = [&](int32_t read) {
      const bool row = uint32_t(top - args.padRows + read) < uint32_t(args.inputRows);
      TRAINRT_UNROLL
      for (int i = 0; i < Positions; ++i)
        warp::loadConstant(input + uint64_t(read * inputRow + i * step), row && inside[i],
                           nextIn[i].data);
      TRAINRT_UNROLL
      for (int c = 0; c < Columns; ++c)
        warp::loadConstant(output + uint64_t(read * outputRow + c * step),
                           read < count && isColumn[c], nextOut[c].data);
    };
    // Zeros are the rows of other pieces. What they are multiplied with another row of this one
    // meets, too: if it is not finite, so is a sum of these channels anyway.
    float window[Taps][Columns][V];
    TRAINRT_UNROLL
    for (int t = 0; t < Taps; ++t)
      TRAINRT_UNROLL
    for (int c = 0; c < Columns; ++c)
      TRAINRT_UNROLL
    for (int v = 0; v < V; ++v)
      window[t][c][v] = 0;
    const int32_t reads = count + Taps - 1;
    load(0);
    for (int32_t base = 0; base < reads; base += Taps) {
      TRAINRT_UNROLL
      for (int phase = 0; phase < Taps; ++phase) {
        const int32_t read = base + phase;
        if (read < reads) {
          Vector now[Positions];
          TRAINRT_UNROLL
          for (int i = 0; i < Positions; ++i)
            now[i] = nextIn[i];
          TRAINRT_UNROLL
          for (int c = 0; c < Columns; ++c)
            nextOut[c].unpack(window[phase][c]);
          if (read + 1 < reads)
            load(read + 1);
          TRAINRT_UNROLL
          for (int i = 0; i < Positions; ++i) {
            float x[V];
            now[i].unpack(x);
            TRAINRT_UNROLL
            for (int row = 0; row < Taps; ++row)
              TRAINRT_UNROLL
            for (int c = 0; c < Columns; ++c)
              if (i - c >= 0 && i - c < Taps)
                TRAINRT_UNROLL
            for (int v = 0; v < V; ++v)
              sums[row * Taps + i - c][v] = __builtin_fmaf(
                  x[v], window[(phase - row + Taps) % Taps][c][v], sums[row * Taps + i - c][v]);
          }
        }
      }
    }
  }
  // Group after group.
  const uint32_t shared = warp::sharedMemory() + lane * 4;
  for (uint32_t turn = 0; turn < groups; ++turn) {
    if (group == turn)
      TRAINRT_UNROLL
    for (int t = 0; t < All; ++t)
      TRAINRT_UNROLL
    for (int v = 0; v < V; ++v) {
      const uint32_t at = shared + uint32_t(t * V + v) * lanes * 4;
      warp::storeShared(at, turn ? warp::loadShared(at) + sums[t][v] : sums[t][v]);
    }
    warp::barrier();
  }
  if (!there)
    return;
  for (uint32_t i = group; i < uint32_t(All * V); i += groups) {
    const uint32_t word[1] = {
        __builtin_bit_cast(uint32_t, warp::loadShared(shared + i * lanes * 4))};
    const uint64_t tap = uint64_t(warp::blockX()) * All + i / V;
    warp::storeWords(args.sums + (tap * uint64_t(args.channels) + first + i % V) * 4, word);
  }
}

/// Grid: (elements of all filters); blocks of depthwiseTotals x depthwiseAdders threads, each of
/// which adds up every depthwiseAdders-th part.
template <typename T> TRAINRT_DEVICE void depthwiseTotal(const DepthwiseTotalArguments &args) {
  const uint32_t elements = uint32_t(args.channels) * uint32_t(args.taps);
  const uint32_t lane = warp::thread() % depthwiseTotals, adder = warp::thread() / depthwiseTotals;
  const uint32_t element = warp::blockX() * depthwiseTotals + lane;
  const uint32_t parts = element < elements ? uint32_t(args.parts) : 0;
  // Four at a time are on their way.
  float sums[4] = {};
  for (uint32_t part = adder; part < parts; part += 4 * depthwiseAdders)
    TRAINRT_UNROLL
  for (uint32_t i = 0; i < 4; ++i) {
    uint32_t word[1];
    const uint32_t at = part + i * depthwiseAdders;
    warp::loadConstant(args.sums + (uint64_t(at) * elements + element) * 4, at < parts, word);
    sums[i] += __builtin_bit_cast(float, word[0]);
  }
  const uint32_t shared = warp::sharedMemory();
  warp::storeShared(shared + warp::thread() * 4, (sums[0] + sums[1]) + (sums[2] + sums[3]));
  warp::barrier();
  if (adder || element >= elements)
    return;
  float total = 0;
  for (uint32_t i = 0; i < depthwiseAdders; ++i)
    total += warp::loadShared(shared + (i * depthwiseTotals + lane) * 4);
  const uint32_t channel = element % uint32_t(args.channels),
                 tap = element / uint32_t(args.channels);
  const uint64_t to = uint64_t(channel) * uint64_t(args.taps) + tap;
  if constexpr (Packed<T, 2>::bytes == 4) {
    const uint32_t word[1] = {__builtin_bit_cast(uint32_t, total)};
    warp::storeWords(args.filter + to * 4, word);
  } else {
    warp::storeHalf(args.filter + to * 2, warp::pack(T(), total, 0));
  }
}

} // namespace trainrt::cuda::device

#undef TRAINRT_UNROLL

#endif // TRAINRT_DEVICE_CUDA_KERNELS_DEPTHWISE_H
