// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Numbers of 16 bits that ranks add up in f32, and their sums.
#ifndef TRAINRT_TESTS_NARROW_NUMBERS_H
#define TRAINRT_TESTS_NARROW_NUMBERS_H

#include "format/narrow_float.h"
#include "format/sum_types.h"

#include <type_traits>
#include <vector>

namespace trainrt {

template <typename Narrow>
inline constexpr DType narrowType = std::is_same_v<Narrow, BFloat16> ? DType::BF16 : DType::F16;

/// Of a tensor of a rank an element: of either sign and of many magnitudes, with zeros and, of f16,
/// those below the normal ones, so that sums depend on the order.
template <typename Narrow> Narrow narrowNumber(int rank, size_t tensor, int64_t i) {
  const uint32_t mixed =
      (uint32_t(rank) * 7919 + uint32_t(tensor) * 104729 + uint32_t(i) * 31 + 1) * 2654435761u;
  const uint32_t sign = mixed >> 31 << 15;
  if (mixed % 61 == 0)
    return {uint16_t(sign)};
  if (std::is_same_v<Narrow, BFloat16>)
    return {uint16_t(sign | (110 + (mixed >> 8) % 24) << 7 | (mixed >> 16 & 0x7f))};
  return {uint16_t(sign | (mixed >> 8) % 20 << 10 | (mixed >> 16 & 0x3ff))};
}
template <typename Narrow>
std::vector<Narrow> narrowNumbers(int rank, size_t tensor, int64_t count) {
  std::vector<Narrow> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(narrowNumber<Narrow>(rank, tensor, i));
  return values;
}
template <typename Narrow> float narrowSum(int world, size_t tensor, int64_t i) {
  float sum = 0;
  for (int rank = 0; rank < world; ++rank)
    sum += float(narrowNumber<Narrow>(rank, tensor, i));
  return sum;
}

} // namespace trainrt

#endif // TRAINRT_TESTS_NARROW_NUMBERS_H
