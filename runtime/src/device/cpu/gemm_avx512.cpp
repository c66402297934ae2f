// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// GEMM inner loops for AVX-512: tiles of 14 x 32, that is 28 accumulators, two vectors of B and one
// broadcast of A: 31 of the 32 registers.
#include "device/cpu/gemm_kernels.h"
#include "format/memory/gemm_problem.h"

#if defined(__x86_64__)
#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512vl,avx2,fma"))),                 \
                             apply_to = function)
#else
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized" // _mm512_undefined_ps, GCC bug 105593
#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx2,fma")
#endif

namespace trainrt {
namespace {

struct V {
  using Vec = __m512;
  static constexpr int lanes = 16, prefetchDistance = 8;
  static __mmask16 first(int n) { return __mmask16((1u << n) - 1); }
  static Vec load(const float *from) { return _mm512_loadu_ps(from); }
  static void store(float *to, Vec value) { _mm512_storeu_ps(to, value); }
  static Vec loadFirst(const float *from, int n) { return _mm512_maskz_loadu_ps(first(n), from); }
  static void storeFirst(float *to, Vec value, int n) {
    _mm512_mask_storeu_ps(to, first(n), value);
  }
  static Vec zero() { return _mm512_setzero_ps(); }
  static Vec set1(float value) { return _mm512_set1_ps(value); }
  static Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
  static Vec mul(Vec a, Vec b) { return _mm512_mul_ps(a, b); }

  /// In three rounds: 2x2 and 4x4 within 128-bit lanes, then the lanes themselves.
  static void transpose(Vec (&r)[16]) {
    __m512 t[16];
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4) {
      __m512 a = _mm512_unpacklo_ps(r[i], r[i + 1]), b = _mm512_unpackhi_ps(r[i], r[i + 1]);
      __m512 c = _mm512_unpacklo_ps(r[i + 2], r[i + 3]), d = _mm512_unpackhi_ps(r[i + 2], r[i + 3]);
      t[i] = _mm512_shuffle_ps(a, c, 0x44);
      t[i + 1] = _mm512_shuffle_ps(a, c, 0xee);
      t[i + 2] = _mm512_shuffle_ps(b, d, 0x44);
      t[i + 3] = _mm512_shuffle_ps(b, d, 0xee);
    }
    // t[4 * q + j] holds, in its 128-bit lane l, column 4 * l + j of the rows 4 * q .. 4 * q + 3.
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      __m512 a = _mm512_shuffle_f32x4(t[j], t[4 + j], 0x44);
      __m512 b = _mm512_shuffle_f32x4(t[j], t[4 + j], 0xee);
      __m512 c = _mm512_shuffle_f32x4(t[8 + j], t[12 + j], 0x44);
      __m512 d = _mm512_shuffle_f32x4(t[8 + j], t[12 + j], 0xee);
      r[j] = _mm512_shuffle_f32x4(a, c, 0x88);
      r[4 + j] = _mm512_shuffle_f32x4(a, c, 0xdd);
      r[8 + j] = _mm512_shuffle_f32x4(b, d, 0x88);
      r[12 + j] = _mm512_shuffle_f32x4(b, d, 0xdd);
    }
  }
};

#include "device/cpu/gemm_kernels_impl.h"

#include "device/cpu/convolution_kernels_impl.h"

#define NAME "avx512"
#define TILE avx512Tile
#define HEIGHTS(each)                                                                              \
  each(1), each(2), each(3), each(4), each(5), each(6), each(7), each(8), each(9), each(10),       \
      each(11), each(12), each(13), each(14)
#include "device/cpu/gemm_table_impl.h"

} // namespace
} // namespace trainrt

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

const trainrt::GemmKernels *trainrt::gemmKernelsAvx512() { return &kernels; }
#else
const trainrt::GemmKernels *trainrt::gemmKernelsAvx512() { return nullptr; }
#endif
