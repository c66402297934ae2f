// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One pass over a row; numbers that ascend, as documents' do, need no search for equal ones.

#include "plan/runs.h"

#include <algorithm>
#include <type_traits>

namespace trainrt {

namespace {

template <typename T>
void find(const void *data, int64_t begin, int64_t count, int64_t padding, std::vector<Run> &runs) {
  const T *values = static_cast<const T *>(data) + begin;
  const T none = static_cast<T>(padding);
  // No element is a number that it cannot hold.
  const bool can =
      (!std::is_unsigned_v<T> || padding >= 0) && static_cast<int64_t>(none) == padding;
  for (int64_t i = 0; i < count; ++i) {
    if (can && values[i] == none)
      continue;
    const auto bits = static_cast<uint64_t>(values[i]);
    if (runs.empty() || runs.back().value != bits)
      runs.push_back({bits, 0});
    ++runs.back().length;
  }
}

/// As the graph does it, in the type of the elements.
template <typename T>
void count(const void *data, int64_t begin, int64_t columns, int64_t &number, int64_t &longest) {
  // In unsigned arithmetic, where the difference wraps as the graph's does.
  using Bits = std::make_unsigned_t<T>;
  const Bits *values = static_cast<const Bits *>(data) + begin;
  // A sequence ends where the next number is not one more; the end of the row ends the last one.
  int64_t first = 0;
  for (int64_t i = 1; i <= columns; ++i) {
    if (i < columns && Bits(values[i] - values[i - 1]) == 1)
      continue;
    ++number;
    longest = std::max(longest, i - first);
    first = i;
  }
}

} // namespace

/// By the bits of integers of any sign: only differences matter.
void countSequences(const ArrayView &array, int64_t row, int64_t &number, int64_t &longest) {
  const int64_t columns = array.shape[1], begin = row * columns;
  switch (sizeOf(array.dtype)) {
  case 1:
    return count<uint8_t>(array.data, begin, columns, number, longest);
  case 2:
    return count<uint16_t>(array.data, begin, columns, number, longest);
  case 4:
    return count<uint32_t>(array.data, begin, columns, number, longest);
  default: // readProgram refuses floats
    return count<uint64_t>(array.data, begin, columns, number, longest);
  }
}

/// Runs of one row; equal numbers that do not lie together are several runs.
void findRuns(const ArrayView &array, int64_t row, int64_t padding, std::vector<Run> &runs) {
  runs.clear();
  const int64_t columns = array.shape[1], begin = row * columns;
  // readProgram refuses floats.
  visitInteger(array.dtype,
               [&]<typename T>(T) { find<T>(array.data, begin, columns, padding, runs); });
}

/// Whether equal numbers lie together. Ascending ones do, in one pass; else sorted copies show
/// twins.
bool hasWholeRuns(const std::vector<Run> &runs) {
  const auto less = [](const Run &a, const Run &b) { return a.value < b.value; };
  const auto notLess = [](const Run &a, const Run &b) { return a.value >= b.value; };
  if (std::adjacent_find(runs.begin(), runs.end(), notLess) == runs.end())
    return true;
  std::vector<Run> sorted = runs;
  std::sort(sorted.begin(), sorted.end(), less);
  // Twins are equal, neither less: `notLess` finds them between sorted neighbours.
  return std::adjacent_find(sorted.begin(), sorted.end(), notLess) == sorted.end();
}

} // namespace trainrt
