// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attention over short segments and its gradient, as kernels for a GPU. A thread block computes a
// segment and a head, whose matrices fit into shared memory as a whole; each of its warps takes
// tiles of 16 rows, and loops over as many tiles of the others as the segment has. So the time
// follows the lengths, nothing is added by more than one warp, and the order of additions depends
// on the segment's length only.
#ifndef TRAINRT_DEVICE_CUDA_KERNELS_SEGMENT_ATTENTION_H
#define TRAINRT_DEVICE_CUDA_KERNELS_SEGMENT_ATTENTION_H

#include "device/cuda/kernels/attention_gradients.h"

namespace trainrt::cuda::device {

/// The number of a segment by its place in the order of lengths, in tiles, the longest first:
/// thread blocks start in their order, and a long one that starts late is waited for. Each warp
/// finds it alone; of many segments the order does not matter.
TRAINRT_DEVICE int longestFirst(const Arguments &args, int place) {
  constexpr int most = 4; // of a lane
  if (args.segments > most * 32)
    return place;
  auto *offsets = reinterpret_cast<const int32_t *>(args.offsets);
  int tiles[most];
#pragma unroll
  for (int i = 0; i < most; ++i) {
    const int number = i * 32 + laneNumber();
    tiles[i] = -1;
    if (number < args.segments) {
      const int begin = clamped(offsets[number], args.rows),
                end = clamped(offsets[number + 1], args.rows);
      tiles[i] = (clamped(end - begin, args.longest) + tileRows - 1) / tileRows;
    }
  }
  for (int length = args.longest / tileRows; length >= 0; --length)
#pragma unroll
    for (int i = 0; i < most; ++i)
      if (i * 32 < args.segments) {
        const bool here = tiles[i] == length;
        const uint32_t lanes = warp::vote(here);
        const int count = __builtin_popcount(lanes);
        if (place < count) {
          const uint32_t before = lanes & ((1u << laneNumber()) - 1);
          return i * 32 + __builtin_ctz(warp::vote(here && __builtin_popcount(before) == place));
        }
        place -= count;
      }
  return 0; // not reached: each segment has its place
}

/// Shared memory: k, v.
template <typename T, int Columns> TRAINRT_DEVICE void forward(const Arguments &args) {
  using M = Tiles<T, Columns>;
  constexpr int blockTiles = Columns > 64 ? 2 : 3; // tiles of keys whose scores are there at a time
  const int head = int(warp::blockX()), place = int(warp::blockY());
  float *stats = reinterpret_cast<float *>(args.stats);
  if (place >= args.segments) {
    M::clear(args, args.o, head, place - args.segments);
    return;
  }
  const Segment segment = device::segment(args, place);
  const int keyHead = args.group == 1 ? head : head / args.group, tiles = segment.tiles();
  if (tiles == 0)
    return;
  const uint32_t k = warp::sharedMemory(), v = k + uint32_t(args.longest * M::rowBytes);
  M::copy(k, args.k, v, args.v, keyHead, segment, 0, tiles * tileRows, args.columns);
  const float scale = args.scale * log2e;
  const Lane lane = thisLane();
  int tile = int(warp::thread()) / 32;
  uint32_t q[Columns / 16][4];
  M::left(q, args.q, head, segment, tile, args.columns);
  const Dropout dropout(args, segment.number, head);
  warp::copied();
  warp::barrier();
  while (tile < tiles) {
    M::arrange(q);
    float o[M::chunks][4] = {}, highest[2] = {-infinity, -infinity}, sum[2] = {};
    const int keyTiles = segment.endTile(tile, args.after);
    // Each row sees something of the first two tiles.
    for (int first = segment.firstTile(tile, args.before); first < keyTiles; first += blockTiles) {
      float s[blockTiles][2][4];
      float top[2] = {highest[0], highest[1]};
#pragma unroll
      for (int j = 0; j < blockTiles; ++j) {
        const int keyTile = first + j;
        if (keyTile >= keyTiles)
          continue;
#pragma unroll
        for (int i = 0; i < 8; ++i)
          s[j][i / 4][i % 4] = 0;
        M::multiplyRows(s[j], q, k + uint32_t(keyTile * M::tileBytes));
#pragma unroll
        for (int i = 0; i < 8; ++i)
          s[j][i / 4][i % 4] *= scale;
        if (!segment.seesAll(args, tile, keyTile))
#pragma unroll
          for (int i = 0; i < 8; ++i)
            if (!segment.sees(args, tile, keyTile, i / 2 % 2 * 8 + lane.row,
                              i / 4 * 8 + lane.pair + i % 2))
              s[j][i / 4][i % 4] = -infinity;
#pragma unroll
        for (int i = 0; i < 8; ++i)
          top[i / 2 % 2] = __builtin_fmaxf(top[i / 2 % 2], s[j][i / 4][i % 4]);
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        top[half] = maximumOfQuad(top[half]);
        // A row of -inf has no weights.
        const float base = top[half] == -infinity ? 0 : top[half];
        const float factor = warp::exp2(highest[half] - base);
        highest[half] = base;
        sum[half] *= factor;
#pragma unroll
        for (int i = 0; i < M::chunks; ++i) {
          o[i][half * 2] *= factor;
          o[i][half * 2 + 1] *= factor;
        }
      }
#pragma unroll
      for (int j = 0; j < blockTiles; ++j) {
        const int keyTile = first + j;
        if (keyTile >= keyTiles)
          continue;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          float &x = s[j][i / 4][i % 4];
          x = warp::exp2(x - highest[i / 2 % 2]);
          sum[i / 2 % 2] += x;
        }
        if (dropout.limit) {
          uint32_t words[4];
          dropout.draw(words, tile, keyTile);
#pragma unroll
          for (int i = 0; i < 8; ++i)
            if (!dropout.keeps(words[i / 2], i % 2))
              s[j][i / 4][i % 4] = 0;
        }
        uint32_t p[4];
        M::round(p, s[j]);
        M::multiply(o, p, v + uint32_t(keyTile * M::tileBytes));
      }
    }
    float factor[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      sum[half] = sumOfQuad(sum[half]);
      factor[half] = sum[half] == 0 ? 0 : args.kept / sum[half];
      const int row = tile * tileRows + lane.row + half * 8;
      if (stats && lane.pair == 0 && row < segment.length)
        stats[int64_t(segment.begin + row) * args.heads + head] =
            (highest[half] + warp::log2(sum[half])) * ln2;
    }
    M::store(args.o, head, segment, tile, args.columns, o, factor[0], factor[1]);
    tile += int(warp::threads()) / 32;
    if (tile < tiles)
      M::left(q, args.q, head, segment, tile, args.columns);
  }
}

/// Shared memory: q, dO, k, v, then of each row of q the negative logarithm (to base 2) of its
/// weights' sum, and the product of its dO and o, which is the sum of its weights' gradients times
/// the weights.
template <typename T, int Columns> struct Backward {
  using M = Tiles<T, Columns>;
  const Arguments &args;
  const Segment segment;
  const uint32_t q, dO, k, v, logs, dots;

  TRAINRT_DEVICE Backward(const Arguments &args, const Segment &segment)
      : args(args), segment(segment), q(warp::sharedMemory()), dO(q + bytes()), k(dO + bytes()),
        v(k + bytes()), logs(v + bytes()), dots(logs + uint32_t(args.longest) * 4) {}
  TRAINRT_DEVICE uint32_t bytes() const { return uint32_t(args.longest * M::rowBytes); }

  /// Copies what a head of q has, with loads of `inFlight` rows a thread at a time, and waits for
  /// all copies.
  template <int inFlight> TRAINRT_DEVICE void load(int head) const {
    const int rows = segment.tiles() * tileRows, step = M::step(), chunk = M::ownChunk();
    auto *stats = reinterpret_cast<const float *>(args.stats);
    uint32_t place = M::place(0, M::ownRow(), chunk);
    for (int first = M::ownRow(); first < rows; first += inFlight * step) {
      warp::Chunk slopes[inFlight], results[inFlight];
      float log[inFlight];
#pragma unroll
      for (int j = 0; j < inFlight; ++j) {
        const int row = first + j * step;
        if (row < rows) // whole warps
          warp::copy(q + place + uint32_t(j * step * M::rowBytes),
                     M::rowOf(args.q, head, segment.begin + row) + chunk * 16,
                     row < segment.length && chunk * 8 < args.columns);
        log[j] =
            stats[int64_t(segment.begin + (row < segment.length ? row : 0)) * args.heads + head];
        slopes[j] = M::load(args.dO, head, segment, row, chunk, args.columns);
        results[j] = M::load(args.o, head, segment, row, chunk, args.columns);
      }
#pragma unroll
      for (int j = 0; j < inFlight; ++j) {
        const int row = first + j * step;
        if (row >= rows)
          break;
        warp::storeShared(dO + place + uint32_t(j * step * M::rowBytes), slopes[j]);
        float dot = 0;
#pragma unroll
        for (int w = 0; w < 4; ++w) {
          float a, b, c, d;
          warp::unpack(T(), slopes[j].words[w], a, b);
          warp::unpack(T(), results[j].words[w], c, d);
          dot += a * c;
          dot += b * d;
        }
        dot = chunk * 8 < args.columns ? dot : 0;
#pragma unroll
        for (int mask = 1; mask < M::chunks; mask *= 2)
          dot += warp::exchange(dot, uint32_t(mask));
        if (chunk == 0) {
          warp::storeShared(dots + uint32_t(row) * 4, dot);
          warp::storeShared(logs + uint32_t(row) * 4,
                            row < segment.length ? negativeLog2(log[j]) : -infinity);
        }
      }
      place += uint32_t(inFlight * step * M::rowBytes);
    }
    warp::copied();
    warp::barrier();
  }

  TRAINRT_DEVICE void queries(int head, int tile) const {
    const Lane lane = thisLane();
    const Gradients<T, Columns> gradients(args, segment, head);
    float dQ[M::chunks][4] = {}, log[2], dot[2];
    uint32_t left[Columns / 16][4], slopes[Columns / 16][4];
#pragma unroll
    for (int part = 0; part < Columns / 16; ++part) {
      M::left(left[part], q + uint32_t(tile * M::tileBytes), part);
      M::left(slopes[part], dO + uint32_t(tile * M::tileBytes), part);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint32_t row = uint32_t(tile * tileRows + lane.row + half * 8);
      log[half] = warp::loadShared(logs + row * 4);
      dot[half] = warp::loadShared(dots + row * 4);
    }
    const int keyTiles = segment.endTile(tile, args.after);
    for (int keyTile = segment.firstTile(tile, args.before); keyTile < keyTiles; ++keyTile) {
      const uint32_t at = uint32_t(keyTile * M::tileBytes);
      gradients.ofQueries(dQ, left, slopes, log, dot, k + at, v + at, tile, keyTile);
    }
    M::store(args.dQ, head, segment, tile, args.columns, dQ, args.scale, args.scale);
  }

  /// Adds what a head of q gives to a tile's gradients of k and v.
  TRAINRT_DEVICE void keys(int head, int tile, float (&dK)[M::chunks][4],
                           float (&dV)[M::chunks][4]) const {
    const Gradients<T, Columns> gradients(args, segment, head);
    // Loaded again for each tile: registers are scarcer than the time for it.
    const KeysInShared<T, Columns> own = {k + uint32_t(tile * M::tileBytes),
                                          v + uint32_t(tile * M::tileBytes)};
    const int queryTiles = segment.endTile(tile, args.before);
    for (int queryTile = segment.firstTile(tile, args.after); queryTile < queryTiles; ++queryTile) {
      const uint32_t at = uint32_t(queryTile * M::tileBytes), row = uint32_t(queryTile * tileRows);
      gradients.ofKeys(dK, dV, own, q + at, dO + at, logs + row * 4, dots + row * 4, queryTile,
                       tile);
    }
  }
};

template <typename T, int Columns> TRAINRT_DEVICE void backward(const Arguments &args) {
  using M = Tiles<T, Columns>;
  const int keyHead = int(warp::blockX()), place = int(warp::blockY()), group = args.group;
  if (place >= args.segments) {
    M::clear(args, args.dK, keyHead, place - args.segments);
    M::clear(args, args.dV, keyHead, place - args.segments);
    for (int head = keyHead * group; head < (keyHead + 1) * group; ++head)
      M::clear(args, args.dQ, head, place - args.segments);
    return;
  }
  const Segment segment = device::segment(args, longestFirst(args, place));
  if (segment.length == 0)
    return;
  const Backward<T, Columns> work(args, segment);
  const int warps = int(warp::threads()) / 32, own = int(warp::thread()) / 32,
            tiles = segment.tiles();
  M::copy(work.k, args.k, work.v, args.v, keyHead, segment, 0, tiles * tileRows, args.columns);
  const int firstHead = keyHead * group, endHead = firstHead + group;
  work.template load<4>(firstHead);
  // One head of q stays loaded; of several each is loaded again for every round of tiles.
  auto reload = [&](int head) {
    warp::barrier();
    work.template load<1>(head);
  };
  for (int first = 0; first < tiles; first += warps) {
    const int tile = first + own;
    float dK[M::chunks][4] = {}, dV[M::chunks][4] = {};
    for (int head = firstHead; head < endHead; ++head) {
      if (group > 1 && (first > 0 || head > firstHead))
        reload(head);
      if (tile < tiles)
        work.keys(head, tile, dK, dV);
    }
    if (tile < tiles) {
      M::store(args.dK, keyHead, segment, tile, args.columns, dK, args.scale, args.scale);
      M::store(args.dV, keyHead, segment, tile, args.columns, dV, args.kept, args.kept);
    }
  }
  for (int head = firstHead; head < endHead; ++head) {
    if (group > 1)
      reload(head);
    // Warps that had a tile of keys less begin.
    for (int tile = (own + warps - tiles % warps) % warps; tile < tiles; tile += warps)
      work.queries(head, tile);
  }
}

} // namespace trainrt::cuda::device

#endif // TRAINRT_DEVICE_CUDA_KERNELS_SEGMENT_ATTENTION_H
