// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The arithmetic of bitsandbytes' CUDA kernels, which made the checkpoints that there are. They are
// compiled with fast math, so subnormal operands and results are zero: a block of subnormals has an
// absmax of 0, and one beyond 2^126 has a reciprocal of 0. Their reciprocal is the hardware's
// approximation, within one unit of the last place of the rounded one here. That is the same code
// unless a quotient is so close to a threshold: in NF4 none of two bf16 values is, two of f16 are,
// and of f32 values about one in a million; in FP4 also quotients at thresholds that are multiples
// of 1/24. What bitsandbytes does on a CPU differs: zero blocks, remainders of blocks (division in
// place of the reciprocal), thresholds of FP4, a table of 65536 entries for statistics.
#ifndef TRAINRT_SESSION_QUANTIZE_ARITHMETIC_H
#define TRAINRT_SESSION_QUANTIZE_ARITHMETIC_H

#include <atomic>
#include <cmath>
#include <cstdint>

namespace trainrt {

inline float withoutSubnormals(float value) {
  return std::fabs(value) < 0x1p-126f ? std::copysign(0.0f, value) : value;
}

/// Infinite for 0.
inline float scaleOf(float absmax) { return withoutSubnormals(1.0f / absmax); }

/// An element divided by the absmax that `scale` is of; NaN if the absmax is 0.
inline float scaled(float value, float scale) {
  const float product = withoutSubnormals(value) * scale;
  return withoutSubnormals(product);
}

/// The smallest of the indices that threads report.
class FirstIndex {
public:
  void report(int64_t index) {
    int64_t known = least.load(std::memory_order_relaxed);
    while (index < known && !least.compare_exchange_weak(known, index, std::memory_order_relaxed))
      ;
  }
  bool any() const { return least.load() != INT64_MAX; }
  int64_t get() const { return least.load(); }

private:
  std::atomic<int64_t> least{INT64_MAX};
};

} // namespace trainrt

#endif // TRAINRT_SESSION_QUANTIZE_ARITHMETIC_H
