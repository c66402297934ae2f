// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One template over the element types.
#include "cli/data/row_values.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <type_traits>

namespace trainrt::run {

namespace {

/// Calls `visit` with a value of the C++ type that has the elements of `type`; of 16-bit floats
/// that is their bits. The result is false for an unknown type.
template <typename Visit> bool withType(trainrt_dtype type, const Visit &visit) {
  switch (type) {
  case TRAINRT_F32:
    return visit(float());
  case TRAINRT_F64:
    return visit(double());
  case TRAINRT_I8:
    return visit(int8_t());
  case TRAINRT_I16:
    return visit(int16_t());
  case TRAINRT_I32:
    return visit(int32_t());
  case TRAINRT_I64:
    return visit(int64_t());
  case TRAINRT_F16:
  case TRAINRT_BF16:
  case TRAINRT_U16:
    return visit(uint16_t());
  case TRAINRT_U32:
    return visit(uint32_t());
  case TRAINRT_U64:
    return visit(uint64_t());
  case TRAINRT_U8:
  case TRAINRT_BOOL:
    return visit(uint8_t());
  default:
    return false;
  }
}

/// Large integers are rounded; callers only compare with 0 and 1, which are exact.
double asDouble(Number number) {
  return std::visit([](auto value) { return double(value); }, number);
}

bool isHalf(trainrt_dtype type) { return type == TRAINRT_F16 || type == TRAINRT_BF16; }

/// The element's bits of a 16-bit float that is 0 or 1.
uint16_t halfBits(trainrt_dtype type, Number number) {
  return asDouble(number) == 0 ? 0 : type == TRAINRT_F16 ? 0x3c00 : 0x3f80;
}

} // namespace

bool canBe(trainrt_dtype type, Number number) {
  const double value = asDouble(number);
  // 16-bit floats and booleans take 0 and 1 only: other numbers would need rounding, and what fills
  // rows (masks, padding) needs no others.
  if (isHalf(type) || type == TRAINRT_BOOL)
    return value == 0 || value == 1;
  return withType(type, [&](auto element) {
    using T = decltype(element);
    if constexpr (std::is_floating_point_v<T>) {
      return true;
    } else {
      // An integer type takes no real, even a whole one: a file that says 1.0 means a real.
      const int64_t *integer = std::get_if<int64_t>(&number);
      if (!integer)
        return false;
      if constexpr (std::is_unsigned_v<T>)
        return *integer >= 0 && uint64_t(*integer) <= std::numeric_limits<T>::max();
      else
        return *integer >= std::numeric_limits<T>::min() &&
               *integer <= std::numeric_limits<T>::max();
    }
  });
}

/// The number fits the type (`canBe`). Writes `count` elements, maybe none.
void fill(Number number, trainrt_dtype type, int64_t count, char *to) {
  assert(count >= 0);
  withType(type, [&](auto element) {
    using T = decltype(element);
    if (isHalf(type))
      element = T(halfBits(type, number));
    else
      element = std::visit([](auto value) { return T(value); }, number);
    // `to` is the place of an element in a batch's buffer, aligned as such.
    std::fill_n(reinterpret_cast<T *>(to), count, element);
    return true;
  });
}

} // namespace trainrt::run
