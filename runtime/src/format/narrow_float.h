// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Numbers of 16 bits that are read as f32, exactly; also on GPUs, and whatever a thread does to
// denormals.
#ifndef TRAINRT_FORMAT_NARROW_FLOAT_H
#define TRAINRT_FORMAT_NARROW_FLOAT_H

#include <stdint.h>

namespace trainrt {

struct BFloat16 {
  uint16_t bits;
  constexpr operator float() const { return __builtin_bit_cast(float, uint32_t(bits) << 16); }
};

struct Float16 {
  uint16_t bits;
  constexpr operator float() const {
#ifdef __CUDA__
    return float(__builtin_bit_cast(_Float16, bits));
#else
    const uint32_t sign = uint32_t(bits & 0x8000) << 16, rest = bits & 0x7fff;
    // Below the normal ones all are multiples of the smallest one.
    const uint32_t small = __builtin_bit_cast(uint32_t, float(rest) * 0x1p-24f);
    const uint32_t exponent = rest < 0x7c00 ? 127 - 15 : 255 - 31;
    return __builtin_bit_cast(float,
                              sign | (rest < 0x400 ? small : (rest << 13) + (exponent << 23)));
#endif
  }
};

} // namespace trainrt

#endif // TRAINRT_FORMAT_NARROW_FLOAT_H
