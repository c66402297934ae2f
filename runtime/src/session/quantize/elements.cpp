// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One loop for each type.

#include "session/quantize/elements.h"
#include "io/convert.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace trainrt {

namespace {

/// Elements need not be aligned.
template <float (*widen)(uint16_t)>
void widenAll(const unsigned char *from, int64_t count, float *to) {
  for (int64_t i = 0; i < count; ++i) {
    uint16_t bits;
    std::memcpy(&bits, from + i * 2, 2);
    to[i] = widen(bits);
  }
}

template <uint16_t (*round)(float)>
void roundAll(const float *from, int64_t count, unsigned char *to) {
  for (int64_t i = 0; i < count; ++i) {
    const uint16_t bits = round(from[i]);
    std::memcpy(to + i * 2, &bits, 2);
  }
}

float widenBfloat(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }

} // namespace

/// The caller keeps the data.
Elements elementsOf(const void *data, DType dtype) {
  auto *bytes = static_cast<const unsigned char *>(data);
  switch (dtype) {
  case DType::BF16:
    return [bytes](int64_t begin, int64_t end, float *to) {
      widenAll<widenBfloat>(bytes + begin * 2, end - begin, to);
    };
  case DType::F16:
    return [bytes](int64_t begin, int64_t end, float *to) {
      widenAll<halfToFloat>(bytes + begin * 2, end - begin, to);
    };
  default:
    return [bytes](int64_t begin, int64_t end, float *to) {
      std::memcpy(to, bytes + begin * 4, size_t(end - begin) * 4);
    };
  }
}

uint16_t floatToBfloat(float value) {
  // To nearest, ties to even; a NaN stays one.
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value))
    return uint16_t(bits >> 16 | 0x40);
  return uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

uint16_t floatToHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = uint16_t(bits >> 16 & 0x8000);
  const float magnitude = std::fabs(value);
  if (std::isnan(value))
    return sign | 0x7e00;
  if (magnitude >= 65520.0f) // halfway between the largest and what would follow it
    return sign | 0x7c00;
  if (magnitude < 0x1p-14f) { // subnormal: the sum rounds at its last bit
    const float shifted = magnitude + 0.5f;
    return sign | uint16_t(std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(0.5f));
  }
  // The exponent is moved from f32's bias to f16's; a carry rounds up into it.
  const uint32_t rebased = (bits & 0x7fffffff) - (112u << 23);
  return sign | uint16_t((rebased + 0xfff + ((rebased >> 13) & 1)) >> 13);
}

void roundElements(const float *from, int64_t count, DType dtype, void *to) {
  auto *bytes = static_cast<unsigned char *>(to);
  if (dtype == DType::BF16)
    roundAll<floatToBfloat>(from, count, bytes);
  else if (dtype == DType::F16)
    roundAll<floatToHalf>(from, count, bytes);
  else if (count)
    std::memcpy(to, from, size_t(count) * 4);
}

} // namespace trainrt
