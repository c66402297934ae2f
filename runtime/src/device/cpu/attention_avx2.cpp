// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention's rows for AVX2: 16 floats are two registers.
#include "device/cpu/attention_kernels.h"

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
  struct Row {
    __m256 low, high;
  };
  static Row load(const float *from) { return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)}; }
  static void store(float *to, Row value) {
    _mm256_storeu_ps(to, value.low);
    _mm256_storeu_ps(to + 8, value.high);
  }
  static Row set1(float value) { return {_mm256_set1_ps(value), _mm256_set1_ps(value)}; }
  static Row add(Row a, Row b) {
    return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
  }
  static Row sub(Row a, Row b) {
    return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
  }
  static Row mul(Row a, Row b) {
    return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
  }
  static Row fma(Row a, Row b, Row c) {
    return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
  }
  static Row max(Row a, Row b) {
    return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
  }
  static Row round(Row x) {
    constexpr int mode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return {_mm256_round_ps(x.low, mode), _mm256_round_ps(x.high, mode)};
  }
  static __m256 exponential8(__m256 n) {
    __m256i bits = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(bits, 23));
  }
  static Row exponential(Row n) { return {exponential8(n.low), exponential8(n.high)}; }
  static Row keepFrom(Row x, Row limit, Row y) {
    return {_mm256_and_ps(_mm256_cmp_ps(x.low, limit.low, _CMP_NLT_UQ), y.low),
            _mm256_and_ps(_mm256_cmp_ps(x.high, limit.high, _CMP_NLT_UQ), y.high)};
  }
  static __m256 keepWords8(const uint32_t *words, uint32_t threshold, __m256 y) {
    __m256i w = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(words));
    __m256i kept = _mm256_cmpeq_epi32(_mm256_max_epu32(w, _mm256_set1_epi32(int(threshold))), w);
    return _mm256_and_ps(_mm256_castsi256_ps(kept), y);
  }
  static Row keepWords(const uint32_t *words, uint32_t threshold, Row y) {
    return {keepWords8(words, threshold, y.low), keepWords8(words + 8, threshold, y.high)};
  }
  static float sum(Row x) { return sum8(_mm256_add_ps(x.low, x.high)); }
  static float largest(Row x) { return largest8(_mm256_max_ps(x.low, x.high)); }
#include "device/cpu/attention_lanes.h"
};

#include "device/cpu/attention_kernels_impl.h"

constexpr AttentionKernels kernels = {"avx2", weightsOfRow, gradientOfRow, randomWords};

} // namespace
} // namespace trainrt

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

const trainrt::AttentionKernels *trainrt::attentionKernelsAvx2() { return &kernels; }
#else
const trainrt::AttentionKernels *trainrt::attentionKernelsAvx2() { return nullptr; }
#endif
