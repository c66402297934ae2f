// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One loop per pair of types, chosen by a double dispatch over the source and the target type.

#include "io/convert.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>

namespace trainrt {

float halfToFloat(uint16_t bits) {
  // Infinities and NaNs keep sign and payload; 112 is the difference of the exponents' biases.
  uint32_t sign = uint32_t(bits & 0x8000) << 16, exponent = (bits >> 10) & 31,
           mantissa = bits & 1023;
  if (exponent == 31)
    return std::bit_cast<float>(sign | 0x7f800000 | mantissa << 13);
  if (exponent != 0)
    return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  float value = float(mantissa) * 0x1p-24f; // subnormal: exact
  return sign ? -value : value;
}

float bfloatToFloat(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }

/// Every value of `from` is one of `to`. F16 and BF16 are not parts of each other.
bool convertsExactly(DType from, DType to) {
  if (from == to)
    return true;
  if (isFloat(from))
    return (to == DType::F32 && sizeOf(from) == 2) || to == DType::F64;
  if (isFloat(to) || to == DType::Bool)
    return false;
  if (from == DType::Bool)
    return true;
  // Unsigned ones fit into wider signed types as well.
  if (isSigned(from))
    return isSigned(to) && sizeOf(to) > sizeOf(from);
  return sizeOf(to) > sizeOf(from);
}

/// Types of their own, so that one template serves them: both convert through f32, exactly.
namespace {

struct Half {
  uint16_t bits;
  operator double() const { return halfToFloat(bits); }
};
struct Bfloat {
  uint16_t bits;
  operator double() const { return bfloatToFloat(bits); }
};

/// memcpy of one element at a time: neither side needs to be aligned.
template <typename From, typename To> void loop(const void *from, void *to, int64_t count) {
  auto *source = static_cast<const unsigned char *>(from);
  auto *target = static_cast<unsigned char *>(to);
  for (int64_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, source + i * int64_t(sizeof(From)), sizeof(From));
    To result = static_cast<To>(value);
    std::memcpy(target + i * int64_t(sizeof(To)), &result, sizeof(To));
  }
}

/// F64, I64 and U64 are no part of any other type, so they do not come here.
template <typename To> void dispatch(const void *from, DType type, void *to, int64_t count) {
  switch (type) {
  case DType::F32:
    return loop<float, To>(from, to, count);
  case DType::F16:
    return loop<Half, To>(from, to, count);
  case DType::BF16:
    return loop<Bfloat, To>(from, to, count);
  case DType::I8:
    return loop<int8_t, To>(from, to, count);
  case DType::I16:
    return loop<int16_t, To>(from, to, count);
  case DType::I32:
    return loop<int32_t, To>(from, to, count);
  // A byte of a boolean is read as a number.
  case DType::U8:
  case DType::Bool:
    return loop<uint8_t, To>(from, to, count);
  case DType::U16:
    return loop<uint16_t, To>(from, to, count);
  case DType::U32:
    return loop<uint32_t, To>(from, to, count);
  default:
    assert(false && "the 64-bit types are never narrower than a target");
    return;
  }
}

} // namespace

void convertElements(const void *from, DType fromType, void *to, DType toType, int64_t count) {
  if (fromType == toType) {
    if (count)
      std::memcpy(to, from, size_t(count) * sizeOf(toType));
    return;
  }
  switch (toType) {
  case DType::F32:
    return dispatch<float>(from, fromType, to, count);
  case DType::F64:
    return dispatch<double>(from, fromType, to, count);
  case DType::I8:
    return dispatch<int8_t>(from, fromType, to, count);
  case DType::I16:
    return dispatch<int16_t>(from, fromType, to, count);
  case DType::I32:
    return dispatch<int32_t>(from, fromType, to, count);
  case DType::I64:
    return dispatch<int64_t>(from, fromType, to, count);
  case DType::U8:
    return dispatch<uint8_t>(from, fromType, to, count);
  case DType::U16:
    return dispatch<uint16_t>(from, fromType, to, count);
  case DType::U32:
    return dispatch<uint32_t>(from, fromType, to, count);
  case DType::U64:
    return dispatch<uint64_t>(from, fromType, to, count);
  default:
    assert(false && "nothing else is wider than another type");
    return;
  }
}

template <typename Bits>
static bool holdsNoNumber(const unsigned char *from, int64_t count, Bits exponent,
                          Bits negativeInfinity) {
  // In blocks, whose loops have no way out and so are vectorized.
  // All bits of the exponent set, that is infinite or NaN; negative infinity is allowed, since
  // masks are made of it.
  constexpr int64_t block = 4096;
  for (int64_t begin = 0; begin < count; begin += block) {
    bool found = false;
    for (int64_t i = begin; i < std::min(count, begin + block); ++i) {
      Bits bits;
      std::memcpy(&bits, from + i * int64_t(sizeof bits), sizeof bits);
      found |= (bits & exponent) == exponent && bits != negativeInfinity;
    }
    if (found)
      return true;
  }
  return false;
}

bool holdsNoNumber(DType dtype, const void *values, int64_t count) {
  auto *from = static_cast<const unsigned char *>(values);
  switch (dtype) {
  case DType::F64:
    return holdsNoNumber<uint64_t>(from, count, 0x7ff0000000000000, 0xfff0000000000000);
  case DType::F32:
    return holdsNoNumber<uint32_t>(from, count, 0x7f800000, 0xff800000);
  case DType::F16:
    return holdsNoNumber<uint16_t>(from, count, 0x7c00, 0xfc00);
  case DType::BF16:
    return holdsNoNumber<uint16_t>(from, count, 0x7f80, 0xff80);
  default:
    return false;
  }
}

} // namespace trainrt
