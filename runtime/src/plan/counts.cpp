// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Buckets, and counting in one pass that vectorizes.

#include "plan/counts.h"
#include "plan/runs.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <limits>
#include <type_traits>

namespace trainrt {

namespace {

/// The next multiple, or the largest one that there is.
/// Needs value >= 0 and multiple > 0.
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
  // A number that the type cannot hold differs from every element.
  if constexpr (std::is_unsigned_v<T>) {
    if (value < 0 || static_cast<uint64_t>(value) != static_cast<uint64_t>(same))
      return count;
  } else if (static_cast<int64_t>(same) != value) {
    return count;
  }
  // No branch, one addition: vectorized.
  int64_t others = 0;
  for (int64_t i = 0; i < count; ++i)
    others += values[i] != same;
  return others;
}

/// Of floats by their bits: all but +0 and -0.
template <typename Bits> int64_t countNonzero(const void *data, int64_t count) {
  auto *values = static_cast<const Bits *>(data);
  int64_t others = 0;
  // The shift drops the sign, so that both zeros are 0.
  for (int64_t i = 0; i < count; ++i)
    others += static_cast<Bits>(values[i] << 1) != 0;
  return others;
}

} // namespace

/// Monotonic in `needed`: a batch with more of everything never gets less.
int64_t bucketOf(const Symbol &symbol, int64_t needed, int64_t whole) {
  const int64_t divisor = symbol.divisor;
  assert(symbol.counts && divisor > 0 && symbol.min % divisor == 0 &&
         "bounds of counts are checked when the program is read");
  int64_t bucket = divisor;
  if (needed > 0) {
    const auto octave = int64_t(std::bit_floor(uint64_t(needed)));
    const int64_t step = roundedUp(std::max(divisor, octave / 8), divisor);
    bucket = roundedUp(needed, step);
    // Where steps are no parts of an octave, the last one ends with it: more needed, no less given.
    if (octave <= INT64_MAX / 4)
      bucket = std::min(bucket, roundedUp(2 * octave, divisor));
  }
  // Beyond all elements nothing can count.
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
  default:
    [[maybe_unused]] const bool isInteger = visitInteger(
        array.dtype, [&]<typename T>(T) { count = countOther<T>(array.data, count, value); });
    assert(isInteger && "the floats are above");
    return count;
  }
}

int64_t countOf(const Symbol &symbol, const ArrayView &array) {
  // Linear in the array; its shape was checked when it was bound.
  if (symbol.what == Symbol::What::Elements)
    return countDiffering(array, symbol.differs);
  int64_t elements, number = 0, longest = 0;
  if (!array.data || !countElements(array.shape.data(), array.shape.size(), elements) || !elements)
    return 0;
  assert(array.shape.size() == 2 && "runs are of rows: checked when the program is read");
  if (symbol.what == Symbol::What::Sequences || symbol.what == Symbol::What::LongestSequence) {
    for (int64_t row = 0; row < array.shape[0]; ++row)
      countSequences(array, row, number, longest);
    return symbol.what == Symbol::What::Sequences ? number : longest;
  }
  std::vector<Run> runs;
  for (int64_t row = 0; row < array.shape[0]; ++row) {
    findRuns(array, row, symbol.differs, runs);
    number += int64_t(runs.size());
    for (const Run &run : runs)
      longest = std::max(longest, run.length);
  }
  return symbol.what == Symbol::What::Runs ? number : longest;
}

int64_t mostOf(const Symbol &symbol, const std::vector<int64_t> &shape) {
  if (symbol.what == Symbol::What::LongestRun || symbol.what == Symbol::What::LongestSequence)
    return shape[1];
  int64_t elements = 0;
  countElements(shape.data(), shape.size(), elements);
  return elements;
}

/// For plans without a batch: the most that each count can be for the sizes that are known. Symbols
/// that depend on an unknown one stay unknown.
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
    int64_t elements;
    if (!countElements(shape.data(), shape.size(), elements))
      continue;
    const int64_t whole = mostOf(symbol, shape);
    symbols[i] = bucketOf(symbol, whole, whole);
    known[i] = true;
  }
}

} // namespace trainrt
