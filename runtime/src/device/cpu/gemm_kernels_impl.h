// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The GEMM's inner loops, written once over the type `V` of a vector. Included inside an anonymous
// namespace, after the instruction set has been switched on for the file: nothing here may be
// shared between translation units, else the linker could keep the AVX-512 copy for every machine.
// For the same reason nothing from the standard library is used.
//
// V: Vec, lanes, load, store, loadFirst, storeFirst (only the first n lanes are touched), zero,
// set1, fma(a, b, c) = a * b + c, accumulate(a, b, sum), the sum of the products with this one,
// mul, transpose (lanes x lanes).

/// Row i of A at position p: a[p * aStride + i], or a[i * aStride + p] with `byRows`.
template <int rows, int vectors, int panelVectors, bool byRows>
void microKernel(int64_t k, const float *a, int64_t aStride, const float *b, float *c, int64_t ldc,
                 int tail, float alpha, float beta) {
  using Vec = V::Vec;
  Vec acc[rows][vectors];
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v)
      acc[i][v] = V::zero();
  for (int i = 0; i < rows; ++i)
    for (int v = 0; v < vectors; ++v)
      __builtin_prefetch(c + i * ldc + v * V::lanes, 1, 3);

  // Three rows share a base register, else there would be more pointers than registers.
  const float *base[(rows + 2) / 3];
  for (int i = 0; i < rows; i += 3)
    base[i / 3] = a + i * aStride;
  // The tile behind this one reads the rows behind these, a line of each at the same time.
  const float *next = a + rows * aStride;
#pragma GCC unroll 4
  for (int64_t p = 0; p < k; ++p) {
    if (byRows && p % 16 == 0)
#pragma GCC unroll 16
      for (int i = 0; i < rows; ++i)
        __builtin_prefetch(next + i * aStride + p, 0, 3);
    Vec bv[vectors];
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v)
      bv[v] = V::load(b + v * V::lanes);
#pragma GCC unroll 2
    for (int v = 0; v < panelVectors; ++v)
      __builtin_prefetch(b + (V::prefetchDistance * panelVectors + v) * V::lanes, 0, 3);
    if (!byRows) { // rows read in place are too far apart for the hardware to foresee them
      constexpr int ahead = 24;
      __builtin_prefetch(a + ahead * aStride, 0, 3);
      __builtin_prefetch(a + ahead * aStride + rows - 1, 0, 3);
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) {
      Vec av = V::set1(byRows ? base[i / 3][i % 3 * aStride + p] : a[i]);
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v)
        acc[i][v] = V::accumulate(av, bv[v], acc[i][v]);
    }
    a += byRows ? 0 : aStride;
    b += panelVectors * V::lanes;
    if (byRows)
      __asm__ volatile("" ::: "memory"); // else loads of A are moved ahead until registers spill
  }

  Vec scale = V::set1(alpha), keep = V::set1(beta);
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) {
      float *to = c + i * ldc + v * V::lanes;
      Vec value = V::mul(scale, acc[i][v]);
      if (v + 1 < vectors || tail == V::lanes) {
        if (beta != 0.0f)
          value = V::fma(keep, V::load(to), value);
        V::store(to, value);
      } else {
        if (beta != 0.0f)
          value = V::fma(keep, V::loadFirst(to, tail), value);
        V::storeFirst(to, value, tail);
      }
    }
}

/// Stores the first `count` lanes, by a whole vector where that stays in front of `end`: what it
/// writes too much is overwritten by the stores that follow.
inline void storeAhead(float *to, V::Vec value, int count, const float *end) {
  if (count == V::lanes || to + V::lanes <= end)
    V::store(to, value);
  else
    V::storeFirst(to, value, count);
}

[[maybe_unused]] void packPanel(float *dst, const void *source, int64_t srcMinor, int64_t srcK,
                                int count, int width, int64_t k) {
  constexpr int lanes = V::lanes;
  auto *src = static_cast<const float *>(source);
  const float *end = dst + k * width;
  if (srcMinor == 1 || count == 1) {
    constexpr int ahead = 16; // rows; they are too far apart for the hardware to foresee them
    if (count == 2 * lanes && width == 2 * lanes) {
      for (int64_t p = 0; p < k; ++p, src += srcK, dst += width) {
        __builtin_prefetch(src + ahead * srcK);
        __builtin_prefetch(src + ahead * srcK + lanes);
        V::store(dst, V::load(src));
        V::store(dst + lanes, V::load(src + lanes));
      }
      return;
    }
    if (count <= lanes && width <= lanes) {
      for (int64_t p = 0; p < k; ++p, src += srcK, dst += width) {
        __builtin_prefetch(src + ahead * srcK);
        storeAhead(dst, V::loadFirst(src, count), width, end);
      }
      return;
    }
    for (int64_t p = 0; p < k; ++p, src += srcK, dst += width)
      for (int i = 0; i < count; i += lanes) {
        int valid = count - i < lanes ? count - i : lanes;
        int room = width - i < lanes ? width - i : lanes;
        storeAhead(dst + i, V::loadFirst(src + i, valid), room, end);
      }
    return;
  }
  if (srcK == 1) {
    for (int64_t p = 0; p < k; p += lanes) {
      int depth = k - p < lanes ? int(k - p) : lanes;
      for (int i = 0; i < count; i += lanes) {
        int valid = count - i < lanes ? count - i : lanes;
        int room = width - i < lanes ? width - i : lanes;
        V::Vec rows[lanes];
#pragma GCC unroll 16
        for (int r = 0; r < lanes; ++r) {
          const float *from = src + (i + r) * srcMinor + p;
          if (r >= valid)
            rows[r] = V::zero();
          else if (depth == lanes)
            rows[r] = V::load(from);
          else
            rows[r] = V::loadFirst(from, depth);
        }
        V::transpose(rows);
        float *to = dst + p * width + i;
#pragma GCC unroll 16
        for (int r = 0; r < lanes; ++r)
          if (r < depth)
            storeAhead(to + r * width, rows[r], room, end);
      }
    }
    return;
  }
  for (int64_t p = 0; p < k; ++p) {
    float *to = dst + p * width;
    for (int i = 0; i < width; ++i)
      to[i] = i < count ? src[i * srcMinor + p * srcK] : 0.0f;
  }
}
