// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// GEMM inner loops for AVX2 with FMA: tiles of 6 x 16, that is 12 accumulators, two vectors of B
// and one broadcast of A: 15 of the 16 registers.
#include "device/cpu/gemm_kernels.h"
#include "format/memory/gemm_problem.h"

#if defined(__x86_64__)
#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif

namespace trainrt {
namespace {

struct V {
  using Vec = __m256;
  static constexpr int lanes = 8, prefetchDistance = 8;
  static __m256i first(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static Vec load(const float *from) { return _mm256_loadu_ps(from); }
  static void store(float *to, Vec value) { _mm256_storeu_ps(to, value); }
  static Vec loadFirst(const float *from, int n) { return _mm256_maskload_ps(from, first(n)); }
  static void storeFirst(float *to, Vec value, int n) { _mm256_maskstore_ps(to, first(n), value); }
  static Vec zero() { return _mm256_setzero_ps(); }
  static Vec set1(float value) { return _mm256_set1_ps(value); }
  static Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
  static Vec accumulate(Vec a, Vec b, Vec sum) { return fma(a, b, sum); }
  static Vec widenFirst(const uint16_t *from, int n) {
    uint16_t some[lanes] = {};
    if (n < lanes) {
      for (int i = 0; i < n; ++i)
        some[i] = from[i];
      from = some;
    }
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i *>(from));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
  static Vec mul(Vec a, Vec b) { return _mm256_mul_ps(a, b); }
  static Vec add(Vec a, Vec b) { return _mm256_add_ps(a, b); }
  static Vec sub(Vec a, Vec b) { return _mm256_sub_ps(a, b); }

  /// In three rounds: 2x2 and 4x4 within 128-bit lanes, then the lanes themselves.
  static void transpose(Vec (&r)[8]) {
    __m256 t[8];
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) {
      __m256 a = _mm256_unpacklo_ps(r[i], r[i + 1]), b = _mm256_unpackhi_ps(r[i], r[i + 1]);
      __m256 c = _mm256_unpacklo_ps(r[i + 2], r[i + 3]), d = _mm256_unpackhi_ps(r[i + 2], r[i + 3]);
      t[i] = _mm256_shuffle_ps(a, c, 0x44);
      t[i + 1] = _mm256_shuffle_ps(a, c, 0xee);
      t[i + 2] = _mm256_shuffle_ps(b, d, 0x44);
      t[i + 3] = _mm256_shuffle_ps(b, d, 0xee);
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      r[j] = _mm256_permute2f128_ps(t[j], t[4 + j], 0x20);
      r[4 + j] = _mm256_permute2f128_ps(t[j], t[4 + j], 0x31);
    }
  }
};

#include "device/cpu/gemm_kernels_impl.h"

#include "device/cpu/convolution_kernels_impl.h"

#include "device/cpu/winograd_kernels_impl.h"

#include "device/cpu/gemm_pack_bf16_impl.h"

#define NAME "avx2"
#define TILE avx2Tile
#define HEIGHTS(each) each(1), each(2), each(3), each(4), each(5), each(6)
#include "device/cpu/gemm_table_impl.h"

} // namespace
} // namespace trainrt

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

const trainrt::GemmKernels *trainrt::gemmKernelsAvx2() { return &kernels; }
const trainrt::GemmKernels *trainrt::gemmBF16KernelsAvx2() { return &widenedKernels; }
#else
const trainrt::GemmKernels *trainrt::gemmKernelsAvx2() { return nullptr; }
const trainrt::GemmKernels *trainrt::gemmBF16KernelsAvx2() { return nullptr; }
#endif
