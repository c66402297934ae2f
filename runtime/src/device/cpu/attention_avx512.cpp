// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention's rows for AVX-512: 16 floats are a register.
#include "device/cpu/attention_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512vl,avx2,fma"))),                 \
                             apply_to = function)
#else
// _mm512_undefined_ps, GCC bug 105593
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx2,fma")
#endif

namespace trainrt {
namespace {

struct V {
  using Row = __m512;
  static Row load(const float *from) { return _mm512_loadu_ps(from); }
  static void store(float *to, Row value) { _mm512_storeu_ps(to, value); }
  static Row set1(float value) { return _mm512_set1_ps(value); }
  static Row add(Row a, Row b) { return _mm512_add_ps(a, b); }
  static Row sub(Row a, Row b) { return _mm512_sub_ps(a, b); }
  static Row mul(Row a, Row b) { return _mm512_mul_ps(a, b); }
  static Row fma(Row a, Row b, Row c) { return _mm512_fmadd_ps(a, b, c); }
  static Row max(Row a, Row b) { return _mm512_max_ps(a, b); }
  static Row round(Row x) {
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  static Row exponential(Row n) {
    __m512i bits = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));
    return _mm512_castsi512_ps(_mm512_slli_epi32(bits, 23));
  }
  static Row keepFrom(Row x, Row limit, Row y) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, limit, _CMP_NLT_UQ), y);
  }
  static Row keepWords(const uint32_t *words, uint32_t threshold, Row y) {
    return _mm512_maskz_mov_ps(
        _mm512_cmpge_epu32_mask(_mm512_loadu_si512(words), _mm512_set1_epi32(int(threshold))), y);
  }
  static __m256 upper(Row x) {
    return _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(x), 1));
  }
  static float sum(Row x) { return sum8(_mm256_add_ps(_mm512_castps512_ps256(x), upper(x))); }
  static float largest(Row x) {
    return largest8(_mm256_max_ps(_mm512_castps512_ps256(x), upper(x)));
  }
#include "device/cpu/attention_lanes.h"
};

#include "device/cpu/attention_kernels_impl.h"

constexpr AttentionKernels kernels = {"avx512", weightsOfRow, gradientOfRow, randomWords};

} // namespace
} // namespace trainrt

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

const trainrt::AttentionKernels *trainrt::attentionKernelsAvx512() { return &kernels; }
#else
const trainrt::AttentionKernels *trainrt::attentionKernelsAvx512() { return nullptr; }
#endif
