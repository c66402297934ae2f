// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attention over short segments and its gradient, as kernels for a GPU. A thread block computes a
// segment and a head, whose matrices fit into shared memory as a whole; each of its warps takes
// tiles of 16 rows, and loops over as many tiles of the others as the segment has. So the time
// follows the lengths, nothing is added by more than one warp, and the order of additions depends
// on the segment's length only.
//
// What it uses of a GPU is in namespace `warp`, which whoever includes this defines first: for
// devices "warp.h", for a test of the arithmetic on the host an emulation.
#ifndef TRAINRT_DEVICE_CUDA_KERNELS_SEGMENT_ATTENTION_H
#define TRAINRT_DEVICE_CUDA_KERNELS_SEGMENT_ATTENTION_H

#include "device/cuda/kernels/segment_attention_arguments.h"

namespace trainrt::cuda::device {

using Arguments = SegmentAttentionArguments;

inline constexpr int tileRows = 16;
inline constexpr float log2e = 1.44269504088896340736f, ln2 = 0.69314718055994530942f;
inline constexpr float infinity = __builtin_inff();

/// A thread's share of fragments: `row` and the two elements from `pair` on, those 8 rows or
/// columns further, too.
struct Lane {
  int row, pair;
};
TRAINRT_DEVICE int laneNumber() { return int(warp::thread() % 32); }
TRAINRT_DEVICE Lane thisLane() { return {laneNumber() / 4, laneNumber() % 4 * 2}; }

/// In quads of lanes: lane i's value j becomes lane j's value i.
TRAINRT_DEVICE void transposeQuad(uint32_t (&x)[4]) {
  const bool odd = warp::thread() & 1, high = warp::thread() & 2;
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const uint32_t other = warp::exchange(odd ? x[i] : x[i + 1], 1);
    (odd ? x[i] : x[i + 1]) = other;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const uint32_t other = warp::exchange(high ? x[i] : x[i + 2], 2);
    (high ? x[i] : x[i + 2]) = other;
  }
}

TRAINRT_DEVICE float sumOfQuad(float x) {
  x += warp::exchange(x, 1);
  return x + warp::exchange(x, 2);
}
TRAINRT_DEVICE float maximumOfQuad(float x) {
  x = __builtin_fmaxf(x, warp::exchange(x, 1));
  return __builtin_fmaxf(x, warp::exchange(x, 2));
}

/// Philox4x32-7 (Salmon et al., 2011).
TRAINRT_DEVICE void philox(uint32_t (&c)[4], uint32_t key0, uint32_t key1) {
#pragma unroll
  for (int round = 0; round < 7; ++round) {
    const uint64_t x = uint64_t(0xD2511F53u) * c[0], y = uint64_t(0xCD9E8D57u) * c[2];
    const uint32_t c1 = c[1], c3 = c[3];
    c[0] = uint32_t(y >> 32) ^ c1 ^ key0;
    c[1] = uint32_t(y);
    c[2] = uint32_t(x >> 32) ^ c3 ^ key1;
    c[3] = uint32_t(x);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
}

/// Where a segment's rows are. Offsets are taken as ascending and within the rows, whatever they
/// are: nothing else is written.
struct Segment {
  int number, begin, length;
  TRAINRT_DEVICE int tiles() const { return (length + tileRows - 1) / tileRows; }
  TRAINRT_DEVICE bool sees(const Arguments &args, int queryTile, int keyTile, int query,
                           int key) const {
    query += queryTile * tileRows, key += keyTile * tileRows;
    return key < length && query - key <= args.before && key - query <= args.after;
  }
  /// The tiles with something that some row of a tile sees: of keys where `back` and `on` are how
  /// far a query sees, of queries where they are how far a key is seen.
  TRAINRT_DEVICE int firstTile(int tile, int back) const {
    const int row = tile * tileRows - back;
    return row > 0 ? row / tileRows : 0;
  }
  TRAINRT_DEVICE int endTile(int tile, int on) const {
    const int end = ((tile + 1) * tileRows - 1 + on) / tileRows + 1;
    return end < tiles() ? end : tiles();
  }
  /// Whether every row of a tile of queries sees all of a tile of keys.
  TRAINRT_DEVICE bool seesAll(const Arguments &args, int queryTile, int keyTile) const {
    const int apart = (queryTile - keyTile) * tileRows;
    return (keyTile + 1) * tileRows <= length && apart + tileRows - 1 <= args.before &&
           tileRows - 1 - apart <= args.after;
  }
};
TRAINRT_DEVICE int clamped(int x, int most) { return x < 0 ? 0 : x > most ? most : x; }
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
TRAINRT_DEVICE Segment segment(const Arguments &args, int number) {
  auto *offsets = reinterpret_cast<const int32_t *>(args.offsets);
  const int begin = clamped(offsets[number], args.rows),
            end = clamped(offsets[number + 1], args.rows);
  return {number, begin, clamped(end - begin, args.longest)};
}

/// Random numbers of 16 bits for the weights of a tile, two a word, as the elements of fragments
/// are spread over a warp. A function of the seed, the segment, the head and the tile.
struct Dropout {
  uint32_t key0 = 0, key1 = 0, offset0 = 0, offset1 = 0, place = 0;
  const uint32_t limit; ///< words below it, in their upper half, are dropped

  TRAINRT_DEVICE Dropout(const Arguments &args, int segment, int head) : limit(args.dropped << 16) {
    if (!limit)
      return;
    auto *seed = reinterpret_cast<const uint32_t *>(args.seed);
    key0 = seed[0], key1 = seed[1], offset0 = seed[2], offset1 = seed[3];
    place = uint32_t(segment) * uint32_t(args.heads) + uint32_t(head);
  }
  TRAINRT_DEVICE void draw(uint32_t (&words)[4], int queryTile, int keyTile) const {
    words[0] = (uint32_t(queryTile) << 12 | uint32_t(keyTile)) << 5 | uint32_t(laneNumber());
    words[1] = place, words[2] = offset0, words[3] = offset1;
    philox(words, warp::opaque(key0), warp::opaque(key1));
  }
  TRAINRT_DEVICE bool keeps(uint32_t word, bool second) const {
    return (second ? word : word << 16) >= limit;
  }
};

/// Matrices of `Columns` elements a row in shared memory, in chunks of 16 bytes. Those of
/// neighbouring rows are permuted so that 8 rows' chunks of one column lie in different banks.
template <typename T, int Columns> struct Tiles {
  static constexpr int chunks = Columns / 8, rowBytes = Columns * 2;
  static constexpr int tileBytes = tileRows * rowBytes;

  TRAINRT_DEVICE static int permutation(int row) { return chunks == 4 ? row / 2 % 4 : row % 8; }
  TRAINRT_DEVICE static uint32_t place(uint32_t matrix, int row, int chunk) {
    return matrix + uint32_t(row * rowBytes + (chunk ^ permutation(row)) * 16);
  }

  /// What this lane names of a tile when four 8 x 8 matrices are loaded, the second one below or
  /// beside the first one. The chunks `2 part` further are at `^ 32 part`.
  TRAINRT_DEVICE static uint32_t down() { return place(0, laneNumber() % 16, laneNumber() / 16); }
  TRAINRT_DEVICE static uint32_t across() {
    return place(0, laneNumber() % 8 + laneNumber() / 16 * 8, laneNumber() / 8 % 2);
  }

  TRAINRT_DEVICE static const char *rowOf(const HeadMatrices &m, int head, int row) {
    return reinterpret_cast<const char *>(m.address) + head * m.head + row * m.row;
  }

  /// How threads share the chunks of rows: each has the same chunk of every `step`th row, which has
  /// the same permutation.
  TRAINRT_DEVICE static int ownChunk() { return int(warp::thread()) % chunks; }
  TRAINRT_DEVICE static int ownRow() { return int(warp::thread()) / chunks; }
  TRAINRT_DEVICE static int step() { return int(warp::threads()) / chunks; }

  /// Starts to copy the rows of the segment's tiles, with zeros where it has none.
  TRAINRT_DEVICE static void copy(uint32_t to, const HeadMatrices &from, uint32_t otherTo,
                                  const HeadMatrices &otherFrom, int head, const Segment &segment,
                                  int columns) {
    const int chunk = ownChunk(), rows = segment.tiles() * tileRows;
    const int last = chunk * 8 < columns ? segment.length : 0;
    const char *at = rowOf(from, head, segment.begin + ownRow()) + chunk * 16,
               *otherAt = rowOf(otherFrom, head, segment.begin + ownRow()) + chunk * 16;
    uint32_t place = Tiles::place(0, ownRow(), chunk);
    for (int row = ownRow(); row < rows; row += step()) {
      warp::copy(to + place, at, row < last);
      warp::copy(otherTo + place, otherAt, row < last);
      place += uint32_t(step() * rowBytes);
      at += step() * from.row;
      otherAt += step() * otherFrom.row;
    }
  }

  /// A chunk of the segment's, or where it has none another one, so that there is no branch. What
  /// comes of rows that are not the segment's is not stored, and columns that are none meet zeros.
  TRAINRT_DEVICE static warp::Chunk load(const HeadMatrices &from, int head, const Segment &segment,
                                         int row, int chunk, int columns) {
    return warp::load(rowOf(from, head, segment.begin + (row < segment.length ? row : 0)) +
                      (chunk * 8 < columns ? chunk * 16 : 0));
  }

  /// The left operand of matmuls, a tile of rows: from shared memory.
  TRAINRT_DEVICE static void left(uint32_t (&a)[4], uint32_t tile, int part) {
    warp::loadMatrices(a, (tile + down()) ^ uint32_t(part * 32));
  }
  /// All of it from global memory; to be arranged.
  TRAINRT_DEVICE static void left(uint32_t (&a)[Columns / 16][4], const HeadMatrices &from,
                                  int head, const Segment &segment, int tile, int columns) {
    const Lane lane = thisLane();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = tile * tileRows + lane.row + half * 8;
#pragma unroll
      for (int four = 0; four < chunks / 4; ++four) {
        const warp::Chunk loaded =
            load(from, head, segment, row, four * 4 + lane.pair / 2, columns);
#pragma unroll
        for (int i = 0; i < 4; ++i)
          a[four * 2 + i / 2][half + i % 2 * 2] = loaded.words[i];
      }
    }
  }
  /// As matmuls take it: loads are not waited for before.
  TRAINRT_DEVICE static void arrange(uint32_t (&a)[Columns / 16][4]) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int four = 0; four < chunks / 4; ++four) {
        uint32_t words[4];
#pragma unroll
        for (int i = 0; i < 4; ++i)
          words[i] = a[four * 2 + i / 2][half + i % 2 * 2];
        transposeQuad(words);
#pragma unroll
        for (int i = 0; i < 4; ++i)
          a[four * 2 + i / 2][half + i % 2 * 2] = words[i];
      }
  }

  /// c[16, 16] += a b^T, with b the rows of a tile.
  TRAINRT_DEVICE static void multiplyRows(float (&c)[2][4], const uint32_t (&a)[4], uint32_t tile,
                                          int part) {
    uint32_t b[4];
    warp::loadMatrices(b, (tile + across()) ^ uint32_t(part * 32));
    warp::multiply(T(), c[0], a, b[0], b[1]);
    warp::multiply(T(), c[1], a, b[2], b[3]);
  }
  TRAINRT_DEVICE static void multiplyRows(float (&c)[2][4], const uint32_t (&a)[Columns / 16][4],
                                          uint32_t tile) {
#pragma unroll
    for (int part = 0; part < Columns / 16; ++part)
      multiplyRows(c, a[part], tile, part);
  }
  /// c[16, Columns] += a b, with b the rows of a tile.
  TRAINRT_DEVICE static void multiply(float (&c)[chunks][4], const uint32_t (&a)[4],
                                      uint32_t tile) {
#pragma unroll
    for (int part = 0; part < Columns / 16; ++part) {
      uint32_t b[4];
      warp::loadTransposed(b, (tile + down()) ^ uint32_t(part * 32));
      warp::multiply(T(), c[part * 2], a, b[0], b[1]);
      warp::multiply(T(), c[part * 2 + 1], a, b[2], b[3]);
    }
  }
  /// A result of matmuls as the left operand of others.
  TRAINRT_DEVICE static void round(uint32_t (&a)[4], const float (&c)[2][4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      a[i] = warp::pack(T(), c[i / 2][i % 2 * 2], c[i / 2][i % 2 * 2 + 1]);
  }

  /// Rounds the rows of a tile, times the factors of its upper and its lower rows.
  TRAINRT_DEVICE static void store(const HeadMatrices &to, int head, const Segment &segment,
                                   int tile, int columns, const float (&c)[chunks][4], float upper,
                                   float lower) {
    const Lane lane = thisLane();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = tile * tileRows + lane.row + half * 8;
      char *at = const_cast<char *>(rowOf(to, head, segment.begin + row));
      const float factor = half ? lower : upper;
#pragma unroll
      for (int four = 0; four < chunks / 4; ++four) {
        warp::Chunk rounded;
#pragma unroll
        for (int i = 0; i < 4; ++i)
          rounded.words[i] = warp::pack(T(), c[four * 4 + i][half * 2] * factor,
                                        c[four * 4 + i][half * 2 + 1] * factor);
        transposeQuad(rounded.words);
        const int chunk = four * 4 + lane.pair / 2;
        if (row < segment.length && chunk * 8 < columns)
          warp::store(at + chunk * 16, rounded);
      }
    }
  }

  /// The share of thread block `number` of `args.clearing` in clearing the rows behind the
  /// segments.
  TRAINRT_DEVICE static void clear(const Arguments &args, const HeadMatrices &to, int head,
                                   int number) {
    const int begin =
        clamped(reinterpret_cast<const int32_t *>(args.offsets)[args.segments], args.rows);
    const int threads = int(warp::threads()), chunk = int(warp::thread()) % chunks;
    for (int row = begin + number * (threads / chunks) + int(warp::thread()) / chunks;
         row < args.rows; row += args.clearing * (threads / chunks))
      if (chunk * 8 < args.columns)
        warp::store(const_cast<char *>(rowOf(to, head, row)) + chunk * 16, warp::Chunk{});
  }
};

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
  M::copy(k, args.k, v, args.v, keyHead, segment, args.columns);
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
  const float scale; ///< to base 2

  TRAINRT_DEVICE Backward(const Arguments &args, const Segment &segment)
      : args(args), segment(segment), q(warp::sharedMemory()), dO(q + bytes()), k(dO + bytes()),
        v(k + bytes()), logs(v + bytes()), dots(logs + uint32_t(args.longest) * 4),
        scale(args.scale * log2e) {}
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
          // A row that has no weights, or that is none, gets none.
          const bool any = row < segment.length && log[j] != -infinity;
          warp::storeShared(dots + uint32_t(row) * 4, dot);
          warp::storeShared(logs + uint32_t(row) * 4, any ? log[j] * -log2e : -infinity);
        }
      }
      place += uint32_t(inFlight * step * M::rowBytes);
    }
    warp::copied();
    warp::barrier();
  }

  /// Of a weight and its gradient, the gradient of the score, and the weight as it was used.
  TRAINRT_DEVICE void differentiate(float &p, float &dP, float dot, bool keeps) const {
    dP = p * ((keeps ? dP : 0) * args.kept - dot);
    p = keeps ? p : 0;
  }

  TRAINRT_DEVICE void queries(int head, int tile) const {
    const Lane lane = thisLane();
    const Dropout dropout(args, segment.number, head);
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
      float p[2][4] = {}, dP[2][4] = {};
      const uint32_t at = uint32_t(keyTile * M::tileBytes);
      M::multiplyRows(p, left, k + at);
      M::multiplyRows(dP, slopes, v + at);
      uint32_t words[4];
      if (dropout.limit)
        dropout.draw(words, tile, keyTile);
#pragma unroll
      for (int i = 0; i < 8; ++i)
        p[i / 4][i % 4] = warp::exp2(p[i / 4][i % 4] * scale + log[i / 2 % 2]);
      if (!segment.seesAll(args, tile, keyTile))
#pragma unroll
        for (int i = 0; i < 8; ++i)
          if (!segment.sees(args, tile, keyTile, i / 2 % 2 * 8 + lane.row,
                            i / 4 * 8 + lane.pair + i % 2))
            p[i / 4][i % 4] = 0;
#pragma unroll
      for (int i = 0; i < 8; ++i)
        differentiate(p[i / 4][i % 4], dP[i / 4][i % 4], dot[i / 2 % 2],
                      !dropout.limit || dropout.keeps(words[i / 2], i % 2));
      uint32_t dS[4];
      M::round(dS, dP);
      M::multiply(dQ, dS, k + at);
    }
    M::store(args.dQ, head, segment, tile, args.columns, dQ, args.scale, args.scale);
  }

  /// Adds what a head of q gives to a tile's gradients of k and v. The tiles of scores are
  /// transposed ones.
  TRAINRT_DEVICE void keys(int head, int tile, float (&dK)[M::chunks][4],
                           float (&dV)[M::chunks][4]) const {
    const Lane lane = thisLane();
    const Dropout dropout(args, segment.number, head);
    const uint32_t kTile = k + uint32_t(tile * M::tileBytes),
                   vTile = v + uint32_t(tile * M::tileBytes);
    const int queryTiles = segment.endTile(tile, args.before);
    for (int queryTile = segment.firstTile(tile, args.after); queryTile < queryTiles; ++queryTile) {
      float p[2][4] = {}, dP[2][4] = {};
      const uint32_t at = uint32_t(queryTile * M::tileBytes);
#pragma unroll
      for (int part = 0; part < Columns / 16; ++part) {
        // Loaded again for each tile: registers are scarcer than the time for it.
        uint32_t left[4], values[4];
        M::left(left, kTile, part);
        M::left(values, vTile, part);
        M::multiplyRows(p, left, q + at, part);
        M::multiplyRows(dP, values, dO + at, part);
      }
      uint32_t words[4];
      if (dropout.limit) {
        dropout.draw(words, queryTile, tile);
#pragma unroll
        for (uint32_t &word : words)
          word = warp::transposed(word);
        const uint32_t second = words[1];
        words[1] = words[2], words[2] = second;
      }
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        float log[2], dot[2];
        const uint32_t column = uint32_t(queryTile * tileRows + n * 8 + lane.pair);
        warp::loadShared(logs + column * 4, log[0], log[1]);
        warp::loadShared(dots + column * 4, dot[0], dot[1]);
#pragma unroll
        for (int i = 0; i < 4; ++i)
          p[n][i] = warp::exp2(p[n][i] * scale + log[i % 2]);
        if (!segment.seesAll(args, queryTile, tile))
#pragma unroll
          for (int i = 0; i < 4; ++i)
            if (!segment.sees(args, queryTile, tile, n * 8 + lane.pair + i % 2,
                              i / 2 * 8 + lane.row))
              p[n][i] = 0;
#pragma unroll
        for (int i = 0; i < 4; ++i)
          differentiate(p[n][i], dP[n][i], dot[i % 2],
                        !dropout.limit || dropout.keeps(words[n * 2 + i / 2], i % 2));
      }
      uint32_t weights[4], dS[4];
      M::round(weights, p);
      M::multiply(dV, weights, dO + at);
      M::round(dS, dP);
      M::multiply(dK, dS, q + at);
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
  M::copy(work.k, args.k, work.v, args.v, keyHead, segment, args.columns);
  const int warps = int(warp::threads()) / 32, own = int(warp::thread()) / 32,
            tiles = segment.tiles();
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
