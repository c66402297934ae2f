// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The inner loops of convolutions, written once over the type `V` of a vector and included as those
// of the GEMM are (gemm_kernels_impl.h), behind them.

template <int rows, int vectors, int panelVectors>
void convolutionSum(int64_t lines, int64_t k, const float *a, int64_t aLine, int64_t aStride,
                    const float *b, float *c) {
  using Vec = V::Vec;
  Vec acc[rows][vectors];
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v)
      acc[i][v] = V::load(c + (i * panelVectors + v) * V::lanes);
  for (int64_t line = 0; line < lines; ++line, a += aLine) {
    const float *at = a;
    for (int64_t p = 0; p < k; ++p, at += aStride, b += panelVectors * V::lanes) {
      Vec bv[vectors];
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v)
        bv[v] = V::load(b + v * V::lanes);
#pragma GCC unroll 16
      for (int i = 0; i < rows; ++i) {
        Vec av = V::set1(at[i]);
#pragma GCC unroll 2
        for (int v = 0; v < vectors; ++v)
          acc[i][v] = V::fma(av, bv[v], acc[i][v]);
      }
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v)
      V::store(c + (i * panelVectors + v) * V::lanes, acc[i][v]);
}

/// The first n lanes, those that are there.
template <bool whole> V::Vec depthwiseLoad(const float *from, int n) {
  return whole ? V::load(from) : V::loadFirst(from, n);
}

template <int columns, bool whole>
void depthwiseColumns(const DepthwiseRow &row, int64_t column, int64_t x, int n) {
  V::Vec acc[columns];
#pragma GCC unroll 4
  for (int j = 0; j < columns; ++j)
    acc[j] = V::zero();
  const float *source = row.source + column * row.sourceStride + x;
  for (int64_t t = 0; t < row.taps; ++t) {
    const V::Vec weight = depthwiseLoad<whole>(row.weights + row.weightAt[t] + x, n);
#pragma GCC unroll 4
    for (int j = 0; j < columns; ++j)
      acc[j] = V::fma(depthwiseLoad<whole>(source + j * row.sourceStride + row.at[t], n), weight,
                      acc[j]);
  }
#pragma GCC unroll 4
  for (int j = 0; j < columns; ++j) {
    float *to = row.c + (column + j) * row.cStride + x;
    if (whole)
      V::store(to, acc[j]);
    else
      V::storeFirst(to, acc[j], n);
  }
}

/// What is in memory arrives while the line before is computed, and results' lines before they are
/// stored: taps read several rows in turn, which the hardware does not foresee.
template <int columns>
inline void depthwisePrefetch(const DepthwiseRow &row, int64_t column, int64_t x) {
  // Of what stands for the columns, the part that x is of all channels.
  const int64_t floats = columns * row.nextStride * V::lanes / row.channels;
  for (int i = 0; i < row.nextRows; ++i) {
    const float *at = row.next[i] + column * row.nextStride + x / V::lanes * floats;
    for (int64_t done = 0; done < floats; done += 16)
      __builtin_prefetch(at + done, 0, 2);
  }
#pragma GCC unroll 4
  for (int j = 0; j < columns; ++j)
    __builtin_prefetch(row.c + (column + columns + j) * row.cStride + x, 1, 3);
}

template <int columns> void depthwiseChannelsOf(const DepthwiseRow &row, int64_t column) {
  int64_t x = 0;
  for (; x + V::lanes <= row.channels; x += V::lanes) {
    if (columns > 1)
      depthwisePrefetch<columns>(row, column, x);
    depthwiseColumns<columns, true>(row, column, x, V::lanes);
  }
  if (x < row.channels)
    depthwiseColumns<columns, false>(row, column, x, int(row.channels - x));
}

/// Four columns share a vector of weights.
void depthwiseRow(const DepthwiseRow &row) {
  int64_t column = 0;
  for (; column + 4 <= row.columns; column += 4)
    depthwiseChannelsOf<4>(row, column);
  for (; column < row.columns; ++column)
    depthwiseChannelsOf<1>(row, column);
}

template <int taps, int vectors, bool whole>
void depthwiseSumsOf(int64_t columns, const float *a, int64_t aStride, int64_t aTap, const float *b,
                     int64_t bStride, int n, float *sums, int64_t sumStride) {
  V::Vec acc[taps][vectors];
#pragma GCC unroll 7
  for (int t = 0; t < taps; ++t)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v)
      acc[t][v] = depthwiseLoad<whole>(sums + t * sumStride + v * V::lanes, n);
  for (int64_t j = 0; j < columns; ++j, a += aStride, b += bStride) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      const V::Vec bv = depthwiseLoad<whole>(b + v * V::lanes, n);
#pragma GCC unroll 7
      for (int t = 0; t < taps; ++t)
        acc[t][v] = V::fma(depthwiseLoad<whole>(a + t * aTap + v * V::lanes, n), bv, acc[t][v]);
    }
  }
#pragma GCC unroll 7
  for (int t = 0; t < taps; ++t)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v)
      if (whole)
        V::store(sums + t * sumStride + v * V::lanes, acc[t][v]);
      else
        V::storeFirst(sums + t * sumStride + v * V::lanes, acc[t][v], n);
}

template <int taps>
void depthwiseSum(int64_t columns, const float *a, int64_t aStride, int64_t aTap, const float *b,
                  int64_t bStride, int64_t channels, float *sums, int64_t sumStride) {
  // As many chains as there are registers for.
  constexpr int vectors = taps <= 3 ? 4 : V::lanes >= 16 ? 2 : 1;
  int64_t x = 0;
  for (; x + vectors * V::lanes <= channels; x += vectors * V::lanes)
    depthwiseSumsOf<taps, vectors, true>(columns, a + x, aStride, aTap, b + x, bStride, V::lanes,
                                         sums + x, sumStride);
  for (; x + V::lanes <= channels; x += V::lanes)
    depthwiseSumsOf<taps, 1, true>(columns, a + x, aStride, aTap, b + x, bStride, V::lanes,
                                   sums + x, sumStride);
  if (x < channels)
    depthwiseSumsOf<taps, 1, false>(columns, a + x, aStride, aTap, b + x, bStride,
                                    int(channels - x), sums + x, sumStride);
}
