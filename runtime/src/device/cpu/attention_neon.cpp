// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention's rows for NEON: 16 floats are four registers. Sums and maxima take their steps in the
// order of attention_lanes.h, so that bits are those of x86-64.
#include "device/cpu/attention_kernels.h"

#if defined(__aarch64__)
#include <arm_neon.h>

namespace trainrt {
namespace {

struct V {
  struct Row {
    float32x4_t q[4];
  };
  /// The result of `make` for each register.
  template <typename Make> static Row each(Make make) {
    return {{make(0), make(1), make(2), make(3)}};
  }
  static float32x4_t keep(uint32x4_t kept, float32x4_t y) {
    return vreinterpretq_f32_u32(vandq_u32(kept, vreinterpretq_u32_f32(y)));
  }
  /// The second one where one is a NaN, as x86's; FMAX would give the NaN.
  static float32x4_t max4(float32x4_t a, float32x4_t b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }

  static Row load(const float *from) {
    return each([&](int i) { return vld1q_f32(from + 4 * i); });
  }
  static void store(float *to, Row value) {
    for (int i = 0; i < 4; ++i)
      vst1q_f32(to + 4 * i, value.q[i]);
  }
  static Row set1(float value) {
    return each([&](int) { return vdupq_n_f32(value); });
  }
  static Row add(Row a, Row b) {
    return each([&](int i) { return vaddq_f32(a.q[i], b.q[i]); });
  }
  static Row sub(Row a, Row b) {
    return each([&](int i) { return vsubq_f32(a.q[i], b.q[i]); });
  }
  static Row mul(Row a, Row b) {
    return each([&](int i) { return vmulq_f32(a.q[i], b.q[i]); });
  }
  static Row fma(Row a, Row b, Row c) {
    return each([&](int i) { return vfmaq_f32(c.q[i], a.q[i], b.q[i]); });
  }
  static Row max(Row a, Row b) {
    return each([&](int i) { return max4(a.q[i], b.q[i]); });
  }
  static Row round(Row x) {
    return each([&](int i) { return vrndnq_f32(x.q[i]); });
  }
  static Row exponential(Row n) {
    return each([&](int i) {
      const int32x4_t bits = vaddq_s32(vcvtnq_s32_f32(n.q[i]), vdupq_n_s32(127));
      return vreinterpretq_f32_s32(vshlq_n_s32(bits, 23));
    });
  }
  static Row keepFrom(Row x, Row limit, Row y) {
    return each([&](int i) { return keep(vmvnq_u32(vcltq_f32(x.q[i], limit.q[i])), y.q[i]); });
  }
  static Row keepWords(const uint32_t *words, uint32_t threshold, Row y) {
    return each([&](int i) {
      return keep(vcgeq_u32(vld1q_u32(words + 4 * i), vdupq_n_u32(threshold)), y.q[i]);
    });
  }
  static float sum(Row x) {
    const float32x4_t a = vaddq_f32(vaddq_f32(x.q[0], x.q[2]), vaddq_f32(x.q[1], x.q[3]));
    const float32x2_t b = vadd_f32(vget_low_f32(a), vget_high_f32(a));
    return vget_lane_f32(b, 0) + vget_lane_f32(b, 1);
  }
  static float largest(Row x) {
    float32x4_t a = max4(max4(x.q[0], x.q[2]), max4(x.q[1], x.q[3]));
    a = max4(a, vextq_f32(a, a, 2));
    a = max4(a, vextq_f32(a, a, 1));
    return vgetq_lane_f32(a, 0);
  }
};

#include "device/cpu/attention_kernels_impl.h"

constexpr AttentionKernels kernels = {"neon", weightsOfRow, gradientOfRow, randomWords};

} // namespace
} // namespace trainrt

const trainrt::AttentionKernels *trainrt::attentionKernelsNeon() { return &kernels; }
#else
const trainrt::AttentionKernels *trainrt::attentionKernelsNeon() { return nullptr; }
#endif
