// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attention over short segments and its gradient, as kernels for a GPU. A thread block computes a
// segment and a head, whose matrices fit into shared memory as a whole; each of its warps takes
// tiles of 16 rows, and loops over as many tiles of the others as the segment has. So the time
// follows the lengths, nothing is added by more than one warp, and the order of additions depends
// on the segment's length only.
//
// What it uses of a GPU is in namespace `warp`, which whoever includes this defines first: for
// devices "warp.h", for a test of the arithmetic on the host an emulation.
#ifndef TRAINRT_CUDA_DEVICE_SEGMENT_ATTENTION_H
#define TRAINRT_CUDA_DEVICE_SEGMENT_ATTENTION_H

#include "cuda/device/segment_attention_arguments.h"

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

/// Philox4x32-10 (Salmon et al., 2011).
TRAINRT_DEVICE void philox(uint32_t (&c)[4], uint32_t key0, uint32_t key1) {
#pragma unroll
  for (int round = 0; round < 10; ++round) {
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
};
TRAINRT_DEVICE int clamped(int x, int most) { return x < 0 ? 0 : x > most ? most : x; }
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
  uint32_t dropped;

  TRAINRT_DEVICE Dropout(const Arguments &args, int segment, int head) : dropped(args.dropped) {
    if (!dropped)
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
    return (second ? word >> 16 : word & 0xffff) >= dropped;
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

  /// Starts to copy the rows of the segment's tiles, with zeros where it has none.
  TRAINRT_DEVICE static void copy(uint32_t to, const HeadMatrices &from, int head,
                                  const Segment &segment, int columns) {
    const int all = segment.tiles() * tileRows * chunks;
    for (int i = int(warp::thread()); i < all; i += int(warp::threads())) {
      const int row = i / chunks, chunk = i % chunks;
      const bool valid = row < segment.length && chunk * 8 < columns;
      warp::copy(place(to, row, chunk),
                 rowOf(from, head, segment.begin + (valid ? row : 0)) + (valid ? chunk * 16 : 0),
                 valid);
    }
  }

  /// The left operand of products, a tile of rows: from shared memory.
  TRAINRT_DEVICE static void left(uint32_t (&a)[4], uint32_t tile, int part) {
    warp::loadMatrices(a, (tile + down()) ^ uint32_t(part * 32));
  }
  /// All of it from global memory.
  TRAINRT_DEVICE static void left(uint32_t (&a)[Columns / 16][4], const HeadMatrices &from,
                                  int head, const Segment &segment, int tile, int columns) {
    const Lane lane = thisLane();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = tile * tileRows + lane.row + half * 8;
      const char *at = rowOf(from, head, segment.begin + row);
#pragma unroll
      for (int four = 0; four < chunks / 4; ++four) {
        const int chunk = four * 4 + lane.pair / 2;
        warp::Chunk loaded = {};
        if (row < segment.length && chunk * 8 < columns)
          loaded = warp::load(at + chunk * 16);
        transposeQuad(loaded.words);
#pragma unroll
        for (int i = 0; i < 4; ++i)
          a[four * 2 + i / 2][half + i % 2 * 2] = loaded.words[i];
      }
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
  /// A result of products as the left operand of others.
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
  constexpr int blockTiles = Columns > 64 ? 2 : 4; // tiles of keys whose scores are there at a time
  const int head = int(warp::block()) % args.heads, number = int(warp::block()) / args.heads;
  float *stats = reinterpret_cast<float *>(args.stats);
  if (number >= args.segments) {
    M::clear(args, args.o, head, number - args.segments);
    return;
  }
  const Segment segment = device::segment(args, number);
  const int keyHead = head / (args.heads / args.kvHeads), tiles = segment.tiles();
  const uint32_t k = warp::sharedMemory(), v = k + uint32_t(args.longest * M::rowBytes);
  M::copy(k, args.k, keyHead, segment, args.columns);
  M::copy(v, args.v, keyHead, segment, args.columns);
  const Dropout dropout(args, number, head);
  const float scale = args.scale * log2e;
  const Lane lane = thisLane();
  bool waiting = true;

  for (int tile = int(warp::thread()) / 32; tile < tiles || waiting;
       tile += int(warp::threads()) / 32) {
    uint32_t q[Columns / 16][4] = {};
    if (tile < tiles)
      M::left(q, args.q, head, segment, tile, args.columns);
    if (waiting) {
      waiting = false;
      warp::copied();
      warp::barrier();
      if (tile >= tiles)
        return;
    }
    float o[M::chunks][4] = {}, highest[2] = {-infinity, -infinity}, sum[2] = {};
    const int keyTiles = args.causal ? tile + 1 : tiles;
    for (int first = 0; first < keyTiles; first += blockTiles) {
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
        for (int i = 0; i < 8; ++i) {
          const int key = keyTile * tileRows + i / 4 * 8 + lane.pair + i % 2;
          const int query = tile * tileRows + i / 2 % 2 * 8 + lane.row;
          float &x = s[j][i / 4][i % 4];
          x *= scale;
          if (key >= segment.length || (args.causal && key > query))
            x = -infinity;
          top[i / 2 % 2] = __builtin_fmaxf(top[i / 2 % 2], x);
        }
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
        if (dropout.dropped) {
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
  }
}

/// Shared memory: q, dO, k, v, then of each row of q the logarithm (to base 2) of its weights' sum,
/// and the product of its dO and o, which is the sum of its weights' gradients times the weights.
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

  /// Starts to copy what a head of q has, and waits for all copies.
  TRAINRT_DEVICE void load(int head) const {
    M::copy(q, args.q, head, segment, args.columns);
    const int threads = int(warp::threads()), rows = segment.tiles() * tileRows;
    auto *stats = reinterpret_cast<const float *>(args.stats);
    for (int row = int(warp::thread()); row < rows; row += threads) {
      float log = infinity; // of a row that has no weights
      if (row < segment.length)
        log = stats[int64_t(segment.begin + row) * args.heads + head] * log2e;
      warp::storeShared(logs + uint32_t(row) * 4, log == -infinity ? infinity : log);
    }
    constexpr int inFlight = 4;
    const int all = rows * M::chunks;
    for (int first = int(warp::thread()); first < all; first += inFlight * threads) {
      warp::Chunk slopes[inFlight], results[inFlight];
#pragma unroll
      for (int j = 0; j < inFlight; ++j) {
        const int i = first + j * threads, row = i / M::chunks, chunk = i % M::chunks;
        slopes[j] = results[j] = {};
        if (row < segment.length && chunk * 8 < args.columns) {
          slopes[j] = warp::load(M::rowOf(args.dO, head, segment.begin + row) + chunk * 16);
          results[j] = warp::load(M::rowOf(args.o, head, segment.begin + row) + chunk * 16);
        }
      }
#pragma unroll
      for (int j = 0; j < inFlight; ++j) {
        const int i = first + j * threads, row = i / M::chunks, chunk = i % M::chunks;
        if (i >= all) // whole warps
          break;
        warp::storeShared(M::place(dO, row, chunk), slopes[j]);
        float dot = 0;
#pragma unroll
        for (int w = 0; w < 4; ++w) {
          float a, b, c, d;
          warp::unpack(T(), slopes[j].words[w], a, b);
          warp::unpack(T(), results[j].words[w], c, d);
          dot += a * c;
          dot += b * d;
        }
#pragma unroll
        for (int mask = 1; mask < M::chunks; mask *= 2)
          dot += warp::exchange(dot, uint32_t(mask));
        if (chunk == 0)
          warp::storeShared(dots + uint32_t(row) * 4, dot);
      }
    }
    warp::copied();
    warp::barrier();
  }

  /// The weights and the gradients of the scores, from the scores and the weights' gradients, for
  /// one element: `p` becomes the weight as it was used.
  TRAINRT_DEVICE void differentiate(float &p, float &dP, float log, float dot, bool visible,
                                    bool keeps) const {
    const float power = warp::exp2(p * scale - log), weight = visible ? power : 0;
    dP = weight * ((keeps ? dP * args.kept : 0) - dot);
    p = keeps ? weight : 0;
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
    const int keyTiles = args.causal ? tile + 1 : segment.tiles();
    for (int keyTile = 0; keyTile < keyTiles; ++keyTile) {
      float p[2][4] = {}, dP[2][4] = {};
      const uint32_t at = uint32_t(keyTile * M::tileBytes);
      M::multiplyRows(p, left, k + at);
      M::multiplyRows(dP, slopes, v + at);
      uint32_t words[4];
      if (dropout.dropped)
        dropout.draw(words, tile, keyTile);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const int key = keyTile * tileRows + i / 4 * 8 + lane.pair + i % 2;
        const int query = tile * tileRows + i / 2 % 2 * 8 + lane.row;
        differentiate(p[i / 4][i % 4], dP[i / 4][i % 4], log[i / 2 % 2], dot[i / 2 % 2],
                      key < segment.length && !(args.causal && key > query),
                      !dropout.dropped || dropout.keeps(words[i / 2], i % 2));
      }
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
    constexpr bool keep = Columns <= 64; // registers suffice
    const uint32_t kTile = k + uint32_t(tile * M::tileBytes),
                   vTile = v + uint32_t(tile * M::tileBytes);
    uint32_t left[keep ? Columns / 16 : 1][4], values[keep ? Columns / 16 : 1][4];
    if constexpr (keep)
#pragma unroll
      for (int part = 0; part < Columns / 16; ++part) {
        M::left(left[part], kTile, part);
        M::left(values[part], vTile, part);
      }
    for (int queryTile = args.causal ? tile : 0; queryTile < segment.tiles(); ++queryTile) {
      float p[2][4] = {}, dP[2][4] = {};
      const uint32_t at = uint32_t(queryTile * M::tileBytes);
#pragma unroll
      for (int part = 0; part < Columns / 16; ++part) {
        if constexpr (!keep) {
          M::left(left[0], kTile, part);
          M::left(values[0], vTile, part);
        }
        M::multiplyRows(p, left[keep ? part : 0], q + at, part);
        M::multiplyRows(dP, values[keep ? part : 0], dO + at, part);
      }
      uint32_t words[4];
      if (dropout.dropped) {
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
        for (int i = 0; i < 4; ++i) {
          const int query = int(column) + i % 2;
          const int key = tile * tileRows + i / 2 * 8 + lane.row;
          differentiate(p[n][i], dP[n][i], log[i % 2], dot[i % 2], !(args.causal && key > query),
                        !dropout.dropped || dropout.keeps(words[n * 2 + i / 2], i % 2));
        }
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
  const int keyHead = int(warp::block()) % args.kvHeads, number = int(warp::block()) / args.kvHeads;
  const int group = args.heads / args.kvHeads;
  if (number >= args.segments) {
    M::clear(args, args.dK, keyHead, number - args.segments);
    M::clear(args, args.dV, keyHead, number - args.segments);
    for (int head = keyHead * group; head < (keyHead + 1) * group; ++head)
      M::clear(args, args.dQ, head, number - args.segments);
    return;
  }
  const Segment segment = device::segment(args, number);
  const Backward<T, Columns> work(args, segment);
  M::copy(work.k, args.k, keyHead, segment, args.columns);
  M::copy(work.v, args.v, keyHead, segment, args.columns);
  const int warps = int(warp::threads()) / 32, own = int(warp::thread()) / 32,
            tiles = segment.tiles();
  // One head of q stays loaded; of several each is loaded again for every round of tiles.
  auto loads = [&](bool first, int head) {
    if (!first && group > 1)
      warp::barrier();
    if (first || group > 1)
      work.load(head);
  };
  for (int first = 0; first < tiles; first += warps) {
    const int tile = first + own;
    float dK[M::chunks][4] = {}, dV[M::chunks][4] = {};
    for (int head = keyHead * group; head < (keyHead + 1) * group; ++head) {
      loads(first == 0 && head == keyHead * group, head);
      if (tile < tiles)
        work.keys(head, tile, dK, dV);
    }
    if (tile < tiles) {
      M::store(args.dK, keyHead, segment, tile, args.columns, dK, args.scale, args.scale);
      M::store(args.dV, keyHead, segment, tile, args.columns, dV, args.kept, args.kept);
    }
  }
  for (int head = keyHead * group; head < (keyHead + 1) * group; ++head) {
    loads(false, head);
    // Warps that had a tile of keys less begin.
    for (int tile = (own + warps - tiles % warps) % warps; tile < tiles; tile += warps)
      work.queries(head, tile);
  }
}

} // namespace trainrt::cuda::device

#endif // TRAINRT_CUDA_DEVICE_SEGMENT_ATTENTION_H
