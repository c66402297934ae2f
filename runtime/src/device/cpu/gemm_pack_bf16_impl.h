// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Panels of bf16, written once over the type `V` of a vector and included as gemm_kernels_impl.h
// is, for its reasons.
//
// The sum of a product of two bf16 by hardware takes two elements of k at a time, the odd one
// before the even one, each rounded as a fused multiply-add. Panels have either such pairs
// (`Pairs`), or the elements as floats in that order (`Widened`), so that the bits are the same.
// Behind an odd k there is a zero.
//
// V, besides: widenFirst(from, n), the first n of bf16 as floats, zeros behind them.

/// A row of the panel is an element.
struct Widened {
  static int64_t rows(int64_t k) { return (k + 1) / 2 * 2; }
  /// Which of the rows' elements, as they lie, belongs into row `row`.
  static int order(int row) { return row ^ 1; }
  /// Of `row`: `count` columns, neighbours.
  static V::Vec across(const uint16_t *src, int64_t srcK, int64_t row, int64_t k, int count) {
    const int64_t element = row ^ 1;
    return element < k ? V::widenFirst(src + element * srcK, count) : V::zero();
  }
  /// Of a column: rows from `row` on, which are neighbours, in the order of the elements.
  static V::Vec along(const uint16_t *src, int64_t row, int64_t k) {
    return V::widenFirst(src + row, k - row < V::lanes ? int(k - row) : V::lanes);
  }
  static uint32_t at(const uint16_t *src, int64_t srcK, int64_t row, int64_t k) {
    const int64_t element = row ^ 1;
    return element < k ? uint32_t(src[element * srcK]) << 16 : 0;
  }
};

/// As GemmPack; S: Widened or Pairs.
template <typename S>
void packBF16(float *dst, const void *from, int64_t srcMinor, int64_t srcK, int count, int width,
              int64_t k) {
  constexpr int lanes = V::lanes;
  auto *src = static_cast<const uint16_t *>(from);
  const int64_t rows = S::rows(k);
  const float *end = dst + rows * width;
  if (srcMinor == 1 || count == 1) {
    constexpr int ahead = 16; // as packPanel
    for (int64_t row = 0; row < rows; ++row) {
      __builtin_prefetch(src + (row + ahead) * srcK);
      for (int i = 0; i < count; i += lanes) {
        const int valid = count - i < lanes ? count - i : lanes;
        const int room = width - i < lanes ? width - i : lanes;
        storeAhead(dst + row * width + i, S::across(src + i, srcK, row, k, valid), room, end);
      }
    }
    return;
  }
  if (srcK == 1) {
    for (int64_t row = 0; row < rows; row += lanes) {
      const int depth = rows - row < lanes ? int(rows - row) : lanes;
      for (int i = 0; i < count; i += lanes) {
        const int valid = count - i < lanes ? count - i : lanes;
        const int room = width - i < lanes ? width - i : lanes;
        V::Vec block[lanes];
#pragma GCC unroll 16
        for (int r = 0; r < lanes; ++r)
          block[r] = r < valid ? S::along(src + (i + r) * srcMinor, row, k) : V::zero();
        V::transpose(block);
        float *to = dst + row * width + i;
#pragma GCC unroll 16
        for (int r = 0; r < lanes; ++r)
          if (r < depth)
            storeAhead(to + r * width, block[S::order(r)], room, end);
      }
    }
    return;
  }
  for (int64_t row = 0; row < rows; ++row)
    for (int i = 0; i < width; ++i) {
      const uint32_t bits = i < count ? S::at(src + i * srcMinor, srcK, row, k) : 0;
      __builtin_memcpy(dst + row * width + i, &bits, sizeof(bits));
    }
}
