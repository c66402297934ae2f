// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a tile of scores gives to the gradients of attention: its weights are computed again from
// the logarithms of their sums. For one warp.
#ifndef TRAINRT_DEVICE_CUDA_KERNELS_ATTENTION_GRADIENTS_H
#define TRAINRT_DEVICE_CUDA_KERNELS_ATTENTION_GRADIENTS_H

#include "device/cuda/kernels/attention_tiles.h"

namespace trainrt::cuda::device {

/// Of a row's logarithm of its weights' sum: weights are 2^(score + it). A row that has no weights
/// gets none.
TRAINRT_DEVICE float negativeLog2(float log) { return log == -infinity ? log : log * -log2e; }

/// dots[i] = sum of dO times o of the lane's two rows, of which there are fragments that are not
/// arranged.
template <typename T, int Columns>
TRAINRT_DEVICE void multiplyRowsOf(float (&dots)[2], const uint32_t (&slopes)[Columns / 16][4],
                                   const uint32_t (&results)[Columns / 16][4], int columns) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float dot = 0;
#pragma unroll
    for (int four = 0; four < Columns / 32; ++four) {
      float sum = 0;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float a, b, c, d;
        warp::unpack(T(), slopes[four * 2 + i / 2][half + i % 2 * 2], a, b);
        warp::unpack(T(), results[four * 2 + i / 2][half + i % 2 * 2], c, d);
        sum += a * c;
        sum += b * d;
      }
      dot += (four * 4 + thisLane().pair / 2) * 8 < columns ? sum : 0;
    }
    dots[half] = sumOfQuad(dot);
  }
}

/// A warp's tile of k and v, as left operands.
template <typename T, int Columns> struct KeysInShared {
  uint32_t kTile, vTile;
  TRAINRT_DEVICE void get(uint32_t (&k)[4], uint32_t (&v)[4], int part) const {
    Tiles<T, Columns>::left(k, kTile, part);
    Tiles<T, Columns>::left(v, vTile, part);
  }
};
template <int Columns> struct KeysInRegisters {
  uint32_t kTile[Columns / 16][4], vTile[Columns / 16][4];
  TRAINRT_DEVICE void get(uint32_t (&k)[4], uint32_t (&v)[4], int part) const {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      k[i] = kTile[part][i], v[i] = vTile[part][i];
  }
};

/// Of rows of q there are the negative logarithm (to base 2) of their weights' sum, and the product
/// of dO and o, which is the sum of the weights' gradients times the weights.
template <typename T, int Columns> struct Gradients {
  using M = Tiles<T, Columns>;
  const Arguments &args;
  const Segment &segment;
  const Dropout dropout;
  const float scale; ///< to base 2

  TRAINRT_DEVICE Gradients(const Arguments &args, const Segment &segment, int head)
      : args(args), segment(segment), dropout(args, segment.number, head),
        scale(args.scale * log2e) {}

  /// Of a weight and its gradient, the gradient of the score, and the weight as it was used.
  TRAINRT_DEVICE void differentiate(float &p, float &dP, float dot, bool keeps) const {
    dP = p * ((keeps ? dP : 0) * args.kept - dot);
    p = keeps ? p : 0;
  }

  /// Adds what a tile of k and v gives to the gradient of a tile of q, which is there with its dO
  /// (`slopes`).
  TRAINRT_DEVICE void ofQueries(float (&dQ)[M::chunks][4], const uint32_t (&q)[Columns / 16][4],
                                const uint32_t (&slopes)[Columns / 16][4], const float (&log)[2],
                                const float (&dot)[2], uint32_t k, uint32_t v, int tile,
                                int keyTile) const {
    const Lane lane = thisLane();
    float p[2][4] = {}, dP[2][4] = {};
    M::multiplyRows(p, q, k);
    M::multiplyRows(dP, slopes, v);
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
    M::multiply(dQ, dS, k);
  }

  /// Adds what a tile of q gives to the gradients of a tile of k and v; `logs` and `dots` are those
  /// of its rows. The tile of scores is a transposed one.
  template <typename Keys>
  TRAINRT_DEVICE void ofKeys(float (&dK)[M::chunks][4], float (&dV)[M::chunks][4], const Keys &own,
                             uint32_t q, uint32_t dO, uint32_t logs, uint32_t dots, int queryTile,
                             int tile) const {
    const Lane lane = thisLane();
    float p[2][4] = {}, dP[2][4] = {};
#pragma unroll
    for (int part = 0; part < Columns / 16; ++part) {
      uint32_t left[4], values[4];
      own.get(left, values, part);
      M::multiplyRows(p, left, q, part);
      M::multiplyRows(dP, values, dO, part);
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
      const uint32_t column = uint32_t(n * 8 + lane.pair);
      warp::loadShared(logs + column * 4, log[0], log[1]);
      warp::loadShared(dots + column * 4, dot[0], dot[1]);
#pragma unroll
      for (int i = 0; i < 4; ++i)
        p[n][i] = warp::exp2(p[n][i] * scale + log[i % 2]);
      if (!segment.seesAll(args, queryTile, tile))
#pragma unroll
        for (int i = 0; i < 4; ++i)
          if (!segment.sees(args, queryTile, tile, n * 8 + lane.pair + i % 2, i / 2 * 8 + lane.row))
            p[n][i] = 0;
#pragma unroll
      for (int i = 0; i < 4; ++i)
        differentiate(p[n][i], dP[n][i], dot[i % 2],
                      !dropout.limit || dropout.keeps(words[n * 2 + i / 2], i % 2));
    }
    uint32_t weights[4], dS[4];
    M::round(weights, p);
    M::multiply(dV, weights, dO);
    M::round(dS, dP);
    M::multiply(dK, dS, q);
  }
};

} // namespace trainrt::cuda::device

#endif // TRAINRT_DEVICE_CUDA_KERNELS_ATTENTION_GRADIENTS_H
