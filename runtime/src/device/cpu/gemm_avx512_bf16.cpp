// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// GEMM inner loops for AVX512-BF16: AVX-512's tiles, of which a lane is a pair of bf16 instead of a
// float.
#include "device/cpu/gemm_kernels.h"
#include "format/memory/gemm_problem.h"

#if defined(__x86_64__)
#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(                                                                      \
    __attribute__((target("avx512bf16,avx512f,avx512bw,avx512vl,avx2,fma"))), apply_to = function)
#else
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized" // _mm512_undefined_ps, GCC bug 105593
#pragma GCC push_options
#pragma GCC target("avx512bf16,avx512f,avx512bw,avx512vl,avx2,fma")
#endif

namespace trainrt {
namespace {

#include "device/cpu/gemm_avx512_vector.h"

struct V : Avx512Vector {
  static Vec accumulate(Vec a, Vec b, Vec sum) {
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
  }
  /// The first of `even` in lower halves of lanes, those of `odd` in upper ones.
  static Vec pair(const uint16_t *even, const uint16_t *odd, int evens, int odds) {
    const __m512i low = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(first(evens), even)),
                  high = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(first(odds), odd));
    return _mm512_castsi512_ps(_mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
  }
  /// The first n elements, two in a lane.
  static Vec loadPairs(const uint16_t *from, int n) {
    const auto mask = n < 2 * lanes ? __mmask32((1u << n) - 1) : __mmask32(-1);
    return _mm512_castsi512_ps(_mm512_maskz_loadu_epi16(mask, from));
  }
};

#include "device/cpu/gemm_kernels_impl.h"

#include "device/cpu/gemm_pack_bf16_impl.h"

/// A row of the panel is a pair (gemm_pack_bf16_impl.h).
struct Pairs {
  static int64_t rows(int64_t k) { return (k + 1) / 2; }
  static int order(int row) { return row; }
  static V::Vec across(const uint16_t *src, int64_t srcK, int64_t row, int64_t k, int count) {
    const uint16_t *even = src + 2 * row * srcK;
    return V::pair(even, even + srcK, count, 2 * row + 1 < k ? count : 0);
  }
  static V::Vec along(const uint16_t *src, int64_t row, int64_t k) {
    const int64_t left = k - 2 * row;
    return V::loadPairs(src + 2 * row, left < 2 * V::lanes ? int(left) : 2 * V::lanes);
  }
  static uint32_t at(const uint16_t *src, int64_t srcK, int64_t row, int64_t k) {
    const uint32_t even = src[2 * row * srcK];
    return even | (2 * row + 1 < k ? uint32_t(src[(2 * row + 1) * srcK]) << 16 : 0);
  }
};

#define TILE avx512Tile
#define HEIGHTS(each)                                                                              \
  each(1), each(2), each(3), each(4), each(5), each(6), each(7), each(8), each(9), each(10),       \
      each(11), each(12), each(13), each(14)
#include "device/cpu/gemm_table_impl.h"

constexpr GemmKernels kernels = productKernels("avx512-bf16", packBF16<Pairs>, 1);

} // namespace
} // namespace trainrt

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

const trainrt::GemmKernels *trainrt::gemmBF16KernelsAvx512BF16() { return &kernels; }
#else
const trainrt::GemmKernels *trainrt::gemmBF16KernelsAvx512BF16() { return nullptr; }
#endif
