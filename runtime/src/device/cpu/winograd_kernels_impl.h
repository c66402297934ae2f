// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The transforms of Winograd's convolutions, written once over the type `V` of a vector and
// included as the inner loops of the GEMM are (gemm_kernels_impl.h). Each is a small matrix along
// both axes of a tile; a vector runs along channels.

/// Positions of a tile: the transpose of B.
struct WinogradPositions {
  static constexpr int from = 4, to = 4;
  static void along(const V::Vec *x, V::Vec *y) {
    y[0] = V::sub(x[0], x[2]);
    y[1] = V::add(x[1], x[2]);
    y[2] = V::sub(x[2], x[1]);
    y[3] = V::sub(x[1], x[3]);
  }
};

/// Taps of a filter: G.
struct WinogradTaps {
  static constexpr int from = 3, to = 4;
  static void along(const V::Vec *x, V::Vec *y) {
    const V::Vec half = V::set1(0.5f), outer = V::add(x[0], x[2]);
    y[0] = x[0];
    y[1] = V::mul(half, V::add(outer, x[1]));
    y[2] = V::mul(half, V::sub(outer, x[1]));
    y[3] = x[2];
  }
};

/// Products to results: the transpose of A.
struct WinogradResults {
  static constexpr int from = 4, to = 2;
  static void along(const V::Vec *x, V::Vec *y) {
    y[0] = V::add(V::add(x[0], x[1]), x[2]);
    y[1] = V::sub(V::sub(x[1], x[2]), x[3]);
  }
};

/// Gradients of results to those of products: A.
struct WinogradOutputs {
  static constexpr int from = 2, to = 4;
  static void along(const V::Vec *x, V::Vec *y) {
    y[0] = x[0];
    y[1] = V::add(x[0], x[1]);
    y[2] = V::sub(x[0], x[1]);
    y[3] = V::sub(V::zero(), x[1]);
  }
};

/// Sums of products to taps: the transpose of G.
struct WinogradTapSums {
  static constexpr int from = 4, to = 3;
  static void along(const V::Vec *x, V::Vec *y) {
    const V::Vec half = V::set1(0.5f), both = V::mul(half, V::add(x[1], x[2]));
    y[0] = V::add(x[0], both);
    y[1] = V::mul(half, V::sub(x[1], x[2]));
    y[2] = V::add(both, x[3]);
  }
};

template <typename T, bool whole>
inline void winogradVector(const float *const *from, float *const *to, int64_t x, int n) {
  V::Vec columns[T::from][T::to];
#pragma GCC unroll 4
  for (int j = 0; j < T::from; ++j) {
    V::Vec column[T::from];
#pragma GCC unroll 4
    for (int i = 0; i < T::from; ++i) {
      const float *at = from[i * T::from + j] + x;
      column[i] = whole ? V::load(at) : V::loadFirst(at, n);
    }
    T::along(column, columns[j]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < T::to; ++i) {
    V::Vec row[T::from], results[T::to];
#pragma GCC unroll 4
    for (int j = 0; j < T::from; ++j)
      row[j] = columns[j][i];
    T::along(row, results);
#pragma GCC unroll 4
    for (int j = 0; j < T::to; ++j) {
      float *at = to[i * T::to + j] + x;
      if (whole)
        V::store(at, results[j]);
      else
        V::storeFirst(at, results[j], n);
    }
  }
}

template <typename T> void winograd(const float *const *from, float *const *to, int64_t n) {
  int64_t x = 0;
  for (; x + V::lanes <= n; x += V::lanes)
    winogradVector<T, true>(from, to, x, V::lanes);
  if (x < n)
    winogradVector<T, false>(from, to, x, int(n - x));
}
