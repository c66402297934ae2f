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

/// A thread sums up a row of taps of some channels, over some rows of the output; the input's
/// positions that a row of taps reaches are in registers. Grid: (parts, channels), blocks of
/// `lanes` x `Taps` threads.
template <typename T, int Taps>
TRAINRT_DEVICE void depthwiseSums(const DepthwiseSumsArguments &args) {
  constexpr int V = depthwiseSumVector;
  using Vector = Packed<T, V>;
  const uint32_t lanes = uint32_t(args.lanes), tapRow = warp::thread() / lanes;
  const uint32_t first = (warp::blockY() * lanes + warp::thread() % lanes) * V;
  if (first >= uint32_t(args.channels))
    return;
  float sums[Taps][V];
  TRAINRT_UNROLL
  for (int t = 0; t < Taps; ++t)
    TRAINRT_UNROLL
  for (int v = 0; v < V; ++v)
    sums[t][v] = 0;
  const int64_t step = int64_t(args.channels) * Vector::bytes;
  const uint64_t offset = uint64_t(first) * Vector::bytes;
  const int32_t begin = int32_t(warp::blockX()) * args.rows;
  const int32_t end = begin + args.rows < args.allRows ? begin + args.rows : args.allRows;
  for (int32_t row = begin; row < end; ++row) {
    const int32_t image = row / args.outputRows;
    const int32_t inputRow = row - image * args.outputRows + int32_t(tapRow) - args.padRows;
    if (uint32_t(inputRow) >= uint32_t(args.inputRows))
      continue;
    const uint64_t input =
        args.input + offset +
        uint64_t((int64_t(image) * args.inputRows + inputRow) * args.inputColumns * step);
    const uint64_t output = args.output + offset + uint64_t(row * (args.outputColumns * step));
    // Of the column whose tap is the last one.
    auto loadInput = [&](int32_t column, Vector &x) {
      const int32_t at = column + Taps - 1 - args.padColumns;
      warp::loadConstant(input + uint64_t(at * step), uint32_t(at) < uint32_t(args.inputColumns),
                         x.data);
    };
    float window[Taps][V];
    TRAINRT_UNROLL
    for (int t = 0; t < Taps - 1; ++t) {
      Vector x;
      loadInput(t - (Taps - 1), x);
      x.unpack(window[t]);
    }
    for (int32_t base = 0; base < args.outputColumns; base += Taps) {
      Vector in[Taps], out[Taps];
      TRAINRT_UNROLL
      for (int i = 0; i < Taps; ++i) {
        const bool there = base + i < args.outputColumns;
        loadInput(base + i, in[i]);
        warp::loadConstant(output + uint64_t((base + i) * step), there, out[i].data);
      }
      TRAINRT_UNROLL
      for (int i = 0; i < Taps; ++i) {
        // Behind the last column nothing is added, whatever the input has there.
        if (base + i < args.outputColumns) {
          float y[V];
          in[i].unpack(window[(i + Taps - 1) % Taps]);
          out[i].unpack(y);
          TRAINRT_UNROLL
          for (int t = 0; t < Taps; ++t)
            TRAINRT_UNROLL
          for (int v = 0; v < V; ++v)
            sums[t][v] = __builtin_fmaf(window[(i + t) % Taps][v], y[v], sums[t][v]);
        }
      }
    }
  }
  TRAINRT_UNROLL
  for (int t = 0; t < Taps; ++t) {
    Packed<F32, V> packed;
    packed.pack(sums[t]);
    const uint64_t tap = (uint64_t(warp::blockX()) * Taps + tapRow) * Taps + uint64_t(t);
    warp::storeWords(args.sums + (tap * uint64_t(args.channels) + first) * 4, packed.data);
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
