// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention over segments in single precision and its gradient, the CPU target's library call: see
// the table Attention in program.fbs.
#ifndef TRAINRT_DEVICE_CPU_ATTENTION_H
#define TRAINRT_DEVICE_CPU_ATTENTION_H

#include "format/attention_band.h"

#include <cstdint>

namespace trainrt {

class ThreadPool;

/// A matrix [rows, columns] for each head: the columns lie side by side.
template <typename T> struct AttentionMatrix {
  T *data = nullptr;
  int64_t head = 0, row = 0; ///< strides in elements

  T *at(int64_t h, int64_t t) const { return data + h * head + t * row; }
};

struct AttentionArgs {
  int64_t heads = 0, keyHeads = 0; ///< the latter divide the former
  int64_t rows = 0, depth = 0, width = 0;
  AttentionMatrix<const float> q, k, v;
  int64_t segments = 0, longest = 0;
  const int32_t *offsets = nullptr;   ///< [segments + 1]
  const int32_t *positions = nullptr; ///< [2, rows]: samples and positions in them, or null
  float scale = 1;
  double dropout = 0;
  const int64_t *seed = nullptr; ///< of which the first is the key; where there is dropout
  AttentionBand band;
};

struct AttentionForward : AttentionArgs {
  AttentionMatrix<float> o;
  float *stats = nullptr; ///< [rows, heads]; may be null
};

struct AttentionBackward : AttentionArgs {
  const float *stats = nullptr; ///< those of the forward
  AttentionMatrix<const float> dO;
  AttentionMatrix<float> dQ, dK, dV;
};

/// Compute the results for all segments and clear the rows behind the last one. An element's bits
/// depend on the operands of its segment (and head) alone: not on other segments, strides,
/// instruction set or threads. Weights are dropped as `train.dropout` drops the elements of
/// [samples, heads, positions, positions]; without `positions` a segment is a sample. They give the
/// index of the first offset that is not in order, within the rows or near enough to the next one,
/// and compute nothing then; else -1. Errors as those of gemmF32.
int64_t attentionForwardF32(const AttentionForward &args, ThreadPool &pool);
int64_t attentionBackwardF32(const AttentionBackward &args, ThreadPool &pool);

} // namespace trainrt

#endif // TRAINRT_DEVICE_CPU_ATTENTION_H
