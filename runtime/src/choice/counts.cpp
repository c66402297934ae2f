// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Buckets, and counting in one pass that vectorizes.

#include "choice/counts.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <type_traits>

namespace trainrt {

namespace {

/// The next multiple, or the largest one that there is.
int64_t roundedUp(int64_t value, int64_t multiple) {
  const int64_t rest = value % multiple;
  if (rest == 0)
    return value;
  int64_t result;
  return __builtin_add_overflow(value, multiple - rest, &result) ? value - rest : result;
}

template <typename T> int64_t countOther(const void *data, int64_t count, int64_t value) {
  auto *values = static_cast<const T *>(data);
  const T same = static_cast<T>(value);
  if constexpr (std::is_unsigned_v<T>) {
    if (value < 0 || static_cast<uint64_t>(value) != static_cast<uint64_t>(same))
      return count;
  } else if (static_cast<int64_t>(same) != value) {
    return count;
  }
  int64_t others = 0;
  for (int64_t i = 0; i < count; ++i)
    others += values[i] != same;
  return others;
}

/// Of floats by their bits: all but +0 and -0.
template <typename Bits> int64_t countNonzero(const void *data, int64_t count) {
  auto *values = static_cast<const Bits *>(data);
  int64_t others = 0;
  for (int64_t i = 0; i < count; ++i)
    others += static_cast<Bits>(values[i] << 1) != 0;
  return others;
}

} // namespace

int64_t bucketOf(const Symbol &symbol, int64_t needed, int64_t whole) {
  const int64_t divisor = symbol.divisor;
  int64_t bucket = divisor;
  if (needed > 0) {
    const auto octave = int64_t(std::bit_floor(uint64_t(needed)));
    const int64_t step = roundedUp(std::max(divisor, octave / 8), divisor);
    bucket = roundedUp(needed, step);
    // Where steps are no parts of an octave, the last one ends with it: more needed, no less given.
    if (octave <= INT64_MAX / 4)
      bucket = std::min(bucket, roundedUp(2 * octave, divisor));
  }
  bucket = std::min(bucket, roundedUp(whole, divisor));
  return std::clamp(bucket, symbol.min, symbol.max);
}

int64_t countDiffering(const ArrayView &array, int64_t value) {
  int64_t count;
  if (!array.data || !countElements(array.shape.data(), array.shape.size(), count))
    return 0;
  switch (array.dtype) {
  case DType::F64:
    return countNonzero<uint64_t>(array.data, count);
  case DType::F32:
    return countNonzero<uint32_t>(array.data, count);
  case DType::F16:
  case DType::BF16:
    return countNonzero<uint16_t>(array.data, count);
  case DType::I8:
    return countOther<int8_t>(array.data, count, value);
  case DType::I16:
    return countOther<int16_t>(array.data, count, value);
  case DType::I32:
    return countOther<int32_t>(array.data, count, value);
  case DType::I64:
    return countOther<int64_t>(array.data, count, value);
  case DType::U8:
  case DType::Bool:
    return countOther<uint8_t>(array.data, count, value);
  case DType::U16:
    return countOther<uint16_t>(array.data, count, value);
  case DType::U32:
    return countOther<uint32_t>(array.data, count, value);
  default:
    return countOther<uint64_t>(array.data, count, value);
  }
}

void fillCounts(const Program &program, std::vector<int64_t> &symbols, std::vector<bool> &known) {
  for (size_t i = 0; i < program.symbols.size(); ++i) {
    const Symbol &symbol = program.symbols[i];
    if (known[i] || !symbol.counts)
      continue;
    std::vector<bool> exprs(program.exprs.size()), needed(program.symbols.size());
    const TensorDecl &input = program.inputs[size_t(symbol.input)];
    for (ExprId extent : input.shape)
      program.collect(extent, exprs, needed);
    std::vector<int64_t> values;
    ExprId bad;
    bool all = true;
    for (size_t j = 0; j < needed.size(); ++j)
      all &= !needed[j] || known[j];
    if (!all || !evaluate(program, exprs, symbols, values, bad))
      continue;
    std::vector<int64_t> shape;
    for (ExprId extent : input.shape)
      shape.push_back(values[extent]);
    int64_t whole;
    if (!countElements(shape.data(), shape.size(), whole))
      continue;
    symbols[i] = bucketOf(symbol, whole, whole);
    known[i] = true;
  }
}

} // namespace trainrt
