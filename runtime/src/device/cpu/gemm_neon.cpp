// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// GEMM inner loops for NEON: 8 floats are two registers, tiles are 6 x 16 as AVX2's, that is 24
// accumulators, four registers of B and one broadcast of A: 29 of the 32.
#include "device/cpu/gemm_kernels.h"
#include "format/memory/gemm_problem.h"

#if defined(__aarch64__)
#include <arm_neon.h>

namespace trainrt {
namespace {

struct V {
  struct Vec {
    float32x4_t low, high;
  };
  static constexpr int lanes = 8, prefetchDistance = 8;

  static Vec load(const float *from) { return {vld1q_f32(from), vld1q_f32(from + 4)}; }
  static void store(float *to, Vec value) {
    vst1q_f32(to, value.low);
    vst1q_f32(to + 4, value.high);
  }
  /// There are no masked loads: the lanes one by one, for n < 4.
  static float32x4_t first4(const float *from, int n) {
    float32x4_t value = vdupq_n_f32(0);
    if (n > 0)
      value = vld1q_lane_f32(from, value, 0);
    if (n > 1)
      value = vld1q_lane_f32(from + 1, value, 1);
    if (n > 2)
      value = vld1q_lane_f32(from + 2, value, 2);
    return value;
  }
  static void storeFirst4(float *to, float32x4_t value, int n) {
    if (n > 0)
      vst1q_lane_f32(to, value, 0);
    if (n > 1)
      vst1q_lane_f32(to + 1, value, 1);
    if (n > 2)
      vst1q_lane_f32(to + 2, value, 2);
  }
  static Vec loadFirst(const float *from, int n) {
    if (n >= lanes)
      return load(from);
    if (n < 4)
      return {first4(from, n), vdupq_n_f32(0)};
    return {vld1q_f32(from), first4(from + 4, n - 4)};
  }
  static void storeFirst(float *to, Vec value, int n) {
    if (n >= lanes)
      return store(to, value);
    if (n < 4)
      return storeFirst4(to, value.low, n);
    vst1q_f32(to, value.low);
    storeFirst4(to + 4, value.high, n - 4);
  }
  static Vec zero() { return set1(0); }
  static Vec set1(float value) { return {vdupq_n_f32(value), vdupq_n_f32(value)}; }
  static Vec fma(Vec a, Vec b, Vec c) {
    return {vfmaq_f32(c.low, a.low, b.low), vfmaq_f32(c.high, a.high, b.high)};
  }
  static Vec accumulate(Vec a, Vec b, Vec sum) { return fma(a, b, sum); }
  static Vec widenFirst(const uint16_t *from, int n) {
    uint16_t some[lanes] = {};
    if (n < lanes) {
      for (int i = 0; i < n; ++i)
        some[i] = from[i];
      from = some;
    }
    const uint16x8_t bits = vld1q_u16(from);
    return {vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(bits), 16)),
            vreinterpretq_f32_u32(vshll_n_u16(vget_high_u16(bits), 16))};
  }
  static Vec mul(Vec a, Vec b) { return {vmulq_f32(a.low, b.low), vmulq_f32(a.high, b.high)}; }
  static Vec add(Vec a, Vec b) { return {vaddq_f32(a.low, b.low), vaddq_f32(a.high, b.high)}; }
  static Vec sub(Vec a, Vec b) { return {vsubq_f32(a.low, b.low), vsubq_f32(a.high, b.high)}; }

  static void transpose4(float32x4_t &a, float32x4_t &b, float32x4_t &c, float32x4_t &d) {
    auto pairs = [](float32x4_t x) { return vreinterpretq_f64_f32(x); };
    auto singles = [](float64x2_t x) { return vreinterpretq_f32_f64(x); };
    const float64x2_t ab0 = pairs(vtrn1q_f32(a, b)), ab1 = pairs(vtrn2q_f32(a, b)),
                      cd0 = pairs(vtrn1q_f32(c, d)), cd1 = pairs(vtrn2q_f32(c, d));
    a = singles(vtrn1q_f64(ab0, cd0));
    b = singles(vtrn1q_f64(ab1, cd1));
    c = singles(vtrn2q_f64(ab0, cd0));
    d = singles(vtrn2q_f64(ab1, cd1));
  }
  /// Each quarter, then the two that change places.
  static void transpose(Vec (&r)[8]) {
    for (int i = 0; i < 8; i += 4) {
      transpose4(r[i].low, r[i + 1].low, r[i + 2].low, r[i + 3].low);
      transpose4(r[i].high, r[i + 1].high, r[i + 2].high, r[i + 3].high);
    }
    for (int i = 0; i < 4; ++i) {
      const float32x4_t other = r[i].high;
      r[i].high = r[i + 4].low;
      r[i + 4].low = other;
    }
  }
};

#include "device/cpu/gemm_kernels_impl.h"

#include "device/cpu/convolution_kernels_impl.h"

#include "device/cpu/winograd_kernels_impl.h"

#include "device/cpu/gemm_pack_bf16_impl.h"

#define NAME "neon"
#define TILE neonTile
#define HEIGHTS(each) each(1), each(2), each(3), each(4), each(5), each(6)
#include "device/cpu/gemm_table_impl.h"

} // namespace
} // namespace trainrt

const trainrt::GemmKernels *trainrt::gemmKernelsNeon() { return &kernels; }
const trainrt::GemmKernels *trainrt::gemmBF16KernelsNeon() { return &widenedKernels; }
#else
const trainrt::GemmKernels *trainrt::gemmKernelsNeon() { return nullptr; }
const trainrt::GemmKernels *trainrt::gemmBF16KernelsNeon() { return nullptr; }
#endif
