// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What kernels for attention have in common: tiles of 16 rows that a warp multiplies, how they come
// into shared memory and registers, which rows see which, the mask of dropout.
//
// What it uses of a GPU is in namespace `warp`, which whoever includes this defines first: for
// devices "warp.h", for a test of the arithmetic on the host an emulation.
#ifndef TRAINRT_DEVICE_CUDA_KERNELS_ATTENTION_TILES_H
#define TRAINRT_DEVICE_CUDA_KERNELS_ATTENTION_TILES_H

#include "device/cuda/kernels/attention_arguments.h"

namespace trainrt::cuda::device {

using Arguments = AttentionArguments;

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

  /// Starts to copy `rows` rows of the segment from row `first` on, both multiples of a tile's,
  /// with zeros where it has none.
  TRAINRT_DEVICE static void copy(uint32_t to, const HeadMatrices &from, uint32_t otherTo,
                                  const HeadMatrices &otherFrom, int head, const Segment &segment,
                                  int first, int rows, int columns) {
    const int chunk = ownChunk();
    const int last = chunk * 8 < columns ? segment.length - first : 0;
    const char *at = rowOf(from, head, segment.begin + first + ownRow()) + chunk * 16,
               *otherAt = rowOf(otherFrom, head, segment.begin + first + ownRow()) + chunk * 16;
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

} // namespace trainrt::cuda::device

#endif // TRAINRT_DEVICE_CUDA_KERNELS_ATTENTION_TILES_H
