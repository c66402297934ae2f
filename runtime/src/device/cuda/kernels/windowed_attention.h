// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The gradient of attention whose rows see a window of columns, of samples or of segments of any
// length. A thread block takes 64 rows of q (for their gradient) or of k and v (for theirs), a warp
// a tile of 16, and walks over those rows of the others that are within the window, 64 at a time;
// of these each warp takes the tiles that it sees. So the time follows the window, every sum is one
// warp's, in the order of rows (of heads that share one of k and v: head after head), and nothing
// but two numbers for each row of q is written beside the results.
#ifndef TRAINRT_DEVICE_CUDA_KERNELS_WINDOWED_ATTENTION_H
#define TRAINRT_DEVICE_CUDA_KERNELS_WINDOWED_ATTENTION_H

#include "device/cuda/kernels/attention_gradients.h"

namespace trainrt::cuda::device {

/// One sample's arguments.
TRAINRT_DEVICE Arguments ofSample(Arguments args, int number) {
  auto move = [number](HeadMatrices &m) { m.address += uint64_t(number * m.sample); };
  move(args.q), move(args.k), move(args.v), move(args.o);
  move(args.dO), move(args.dQ), move(args.dK), move(args.dV);
  args.stats += uint64_t(number * args.statsSample * 4);
  if (!args.offsets) {
    const uint64_t before = uint64_t(number) * uint64_t(args.heads) * uint64_t(args.rows) * 4;
    args.logs += before;
    args.dots += before;
  }
  return args;
}
TRAINRT_DEVICE Segment sampleOrSegment(const Arguments &args, int number) {
  return args.offsets ? segment(args, number) : Segment{number, 0, args.rows};
}

/// What a thread block does: number blockX of those of a segment.
template <typename T, int Columns> struct Window {
  using M = Tiles<T, Columns>;
  static constexpr int blockTiles = windowRows / tileRows;
  static constexpr uint32_t matrixBytes = windowRows * M::rowBytes;
  static constexpr uint32_t numberBytes = windowRows * 4;

  const Arguments args;
  const Segment segment;
  const int block, tile; ///< the warp's own

  TRAINRT_DEVICE Window(const Arguments &all, int number)
      : args(ofSample(all, number)), segment(sampleOrSegment(all, number)),
        block(int(warp::blockX())), tile(block * blockTiles + int(warp::thread()) / 32) {}

  TRAINRT_DEVICE bool isEmpty() const { return block * windowRows >= segment.length; }
  /// The blocks of rows with something that some row of this one sees, as `Segment::firstTile`.
  TRAINRT_DEVICE int firstBlock(int back) const {
    const int row = block * windowRows - back;
    return row > 0 ? row / windowRows : 0;
  }
  TRAINRT_DEVICE int endBlock(int on) const {
    const int end = (block + 1) * windowRows + on;
    return ((end < segment.length ? end : segment.length) + windowRows - 1) / windowRows;
  }
  /// The tiles that this warp sees of a block: those from `first` to before `end`.
  TRAINRT_DEVICE void tilesOf(int other, int back, int on, int &first, int &end) const {
    first = segment.firstTile(tile, back), end = segment.endTile(tile, on);
    const int begin = other * blockTiles;
    first = first > begin ? first : begin;
    end = end < begin + blockTiles ? end : begin + blockTiles;
    if (tile >= segment.tiles())
      end = first;
  }
  TRAINRT_DEVICE int64_t numberOf(int head, int row) const {
    return int64_t(head) * args.rows + segment.begin + row;
  }

  TRAINRT_DEVICE void queries(int head) const {
    const int keyHead = args.group == 1 ? head : head / args.group;
    const int last = endBlock(args.after);
    int other = firstBlock(args.before);
    auto place = [&](int stage) {
      return warp::sharedMemory() + uint32_t(stage % 2) * 2 * matrixBytes;
    };
    auto copy = [&](int stage) {
      M::copy(place(stage), args.k, place(stage) + matrixBytes, args.v, keyHead, segment,
              stage * windowRows, windowRows, args.columns);
    };
    copy(other);
    uint32_t q[Columns / 16][4], slopes[Columns / 16][4], results[Columns / 16][4];
    M::left(slopes, args.dO, head, segment, tile, args.columns);
    M::left(results, args.o, head, segment, tile, args.columns);
    M::left(q, args.q, head, segment, tile, args.columns);
    float log[2], dot[2];
    multiplyRowsOf<T, Columns>(dot, slopes, results, args.columns);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Lane lane = thisLane();
      const int row = tile * tileRows + lane.row + half * 8;
      const bool isRow = row < segment.length;
      log[half] = negativeLog2(reinterpret_cast<const float *>(
          args.stats)[(segment.begin + (isRow ? row : 0)) * args.statsRow + head * args.statsHead]);
      if (isRow && lane.pair == 0) {
        reinterpret_cast<float *>(args.logs)[numberOf(head, row)] = log[half];
        reinterpret_cast<float *>(args.dots)[numberOf(head, row)] = dot[half];
      }
    }
    M::arrange(slopes);
    M::arrange(q);
    const Gradients<T, Columns> gradients(args, segment, head);
    float dQ[M::chunks][4] = {};
    for (; other < last; ++other) {
      warp::copied();
      warp::barrier();
      if (other + 1 < last)
        copy(other + 1);
      int keyTile, end;
      for (tilesOf(other, args.before, args.after, keyTile, end); keyTile < end; ++keyTile) {
        const uint32_t k = place(other) + uint32_t((keyTile - other * blockTiles) * M::tileBytes);
        gradients.ofQueries(dQ, q, slopes, log, dot, k, k + matrixBytes, tile, keyTile);
      }
    }
    M::store(args.dQ, head, segment, tile, args.columns, dQ, args.scale, args.scale);
  }

  TRAINRT_DEVICE void loadOwn(KeysInRegisters<Columns> &own, int keyHead, uint32_t) const {
    M::left(own.kTile, args.k, keyHead, segment, tile, args.columns);
    M::left(own.vTile, args.v, keyHead, segment, tile, args.columns);
    M::arrange(own.kTile);
    M::arrange(own.vTile);
  }
  TRAINRT_DEVICE void loadOwn(KeysInShared<T, Columns> &own, int keyHead, uint32_t to) const {
    M::copy(to, args.k, to + matrixBytes, args.v, keyHead, segment, block * windowRows, windowRows,
            args.columns);
    own.kTile = to + uint32_t((tile - block * blockTiles) * M::tileBytes);
    own.vTile = own.kTile + matrixBytes;
  }

  template <typename Own> TRAINRT_DEVICE void keys(int keyHead) const {
    constexpr uint32_t stageBytes = 2 * matrixBytes + 2 * numberBytes;
    const int first = firstBlock(args.after), blocks = endBlock(args.before) - first;
    // Where a stage is: q, dO, and of each row of q its two numbers.
    auto place = [&](int stage) { return warp::sharedMemory() + uint32_t(stage % 2) * stageBytes; };
    auto copy = [&](int stage, int head, int other) {
      const uint32_t to = place(stage);
      M::copy(to, args.q, to + matrixBytes, args.dO, head, segment, other * windowRows, windowRows,
              args.columns);
      static_assert(windowThreads == 2 * windowRows, "a number each");
      const int thread = int(warp::thread()), own = thread % windowRows,
                row = other * windowRows + own;
      const auto *numbers =
          reinterpret_cast<const float *>(thread < windowRows ? args.logs : args.dots);
      // Where there is no row all is 0, and adds nothing.
      warp::copyWord(to + 2 * matrixBytes + uint32_t(thread) * 4, numbers + numberOf(head, row),
                     row < segment.length);
    };
    int head = keyHead * args.group, other = first;
    const int stages = args.group * blocks;
    copy(0, head, other);
    Own own;
    loadOwn(own, keyHead, warp::sharedMemory() + 2 * stageBytes);
    float dK[M::chunks][4] = {}, dV[M::chunks][4] = {};
    for (int stage = 0; stage < stages; ++stage) {
      warp::copied();
      warp::barrier();
      const Gradients<T, Columns> gradients(args, segment, head);
      const int here = other;
      if (++other == first + blocks)
        other = first, ++head;
      if (stage + 1 < stages)
        copy(stage + 1, head, other);
      int queryTile, end;
      for (tilesOf(here, args.after, args.before, queryTile, end); queryTile < end; ++queryTile) {
        const int number = queryTile - here * blockTiles;
        const uint32_t q = place(stage) + uint32_t(number * M::tileBytes),
                       logs = place(stage) + 2 * matrixBytes + uint32_t(number * tileRows) * 4;
        gradients.ofKeys(dK, dV, own, q, q + matrixBytes, logs, logs + numberBytes, queryTile,
                         tile);
      }
    }
    M::store(args.dK, keyHead, segment, tile, args.columns, dK, args.scale, args.scale);
    M::store(args.dV, keyHead, segment, tile, args.columns, dV, args.kept, args.kept);
  }
};

/// The gradient of q, and the numbers of its rows. A grid of [blocks of rows, heads, segments, and
/// one for the rows behind them].
template <typename T, int Columns> TRAINRT_DEVICE void windowQueries(const Arguments &args) {
  const int head = int(warp::blockY()), number = int(warp::blockZ());
  if (number >= args.segments) {
    Tiles<T, Columns>::clear(args, args.dQ, head, int(warp::blockX()));
    return;
  }
  const Window<T, Columns> window(args, number);
  if (!window.isEmpty())
    window.queries(head);
}

/// The gradients of k and v, after that of q. A grid as above, with the heads of k.
template <typename T, int Columns> TRAINRT_DEVICE void windowKeys(const Arguments &args) {
  const int keyHead = int(warp::blockY()), number = int(warp::blockZ());
  if (number >= args.segments) {
    Tiles<T, Columns>::clear(args, args.dK, keyHead, int(warp::blockX()));
    Tiles<T, Columns>::clear(args, args.dV, keyHead, int(warp::blockX()));
    return;
  }
  const Window<T, Columns> window(args, number);
  if (window.isEmpty())
    return;
  if constexpr (Columns > windowColumnsInRegisters)
    window.template keys<KeysInShared<T, Columns>>(keyHead);
  else
    window.template keys<KeysInRegisters<Columns>>(keyHead);
}

} // namespace trainrt::cuda::device

#endif // TRAINRT_DEVICE_CUDA_KERNELS_WINDOWED_ATTENTION_H
