// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which columns of an attention a row sees around the diagonal.
#ifndef TRAINRT_FORMAT_ATTENTION_BAND_H
#define TRAINRT_FORMAT_ATTENTION_BAND_H

#include <algorithm>
#include <cstdint>

namespace trainrt {

/// Of as many rows as columns: row i sees the columns from i - before to i + after. A causal mask
/// has none after.
struct AttentionBand {
  /// No length of an axis is above it, and sums of a few stay within 64 bits.
  static constexpr int64_t all = INT32_MAX;
  int64_t before = all, after = all;

  /// As a program says it: -1 for all.
  static AttentionBand of(int64_t before, int64_t after) {
    auto reach = [](int64_t columns) { return columns < 0 ? all : std::min(columns, all); };
    return {reach(before), reach(after)};
  }
  int64_t first(int64_t row) const { return std::max<int64_t>(row - before, 0); }
  int64_t end(int64_t row, int64_t columns) const { return std::min(row + after + 1, columns); }
  /// The most columns that some of `rows` rows next to each other see.
  int64_t width(int64_t rows, int64_t columns) const {
    return std::min(before + after + rows, columns);
  }
  /// Pairs of a row and a column that it sees, of as many columns as rows. Lengths are numbers, as
  /// a mean of some need not be whole.
  double pairs(double rows) const {
    return rows * rows - triangle(rows - 1 - double(before)) - triangle(rows - 1 - double(after));
  }
  /// The same of a causal mask over another number of columns: the last row sees all of them.
  static double causalPairs(double rows, double columns) {
    return rows < columns ? rows * columns - triangle(rows - 1) : triangle(columns);
  }
  bool operator==(const AttentionBand &) const = default;

private:
  /// What a diagonal cuts off a square: 1 + 2 + ... + side.
  static double triangle(double side) { return side > 0 ? side * (side + 1) / 2 : 0; }
};

} // namespace trainrt

#endif // TRAINRT_FORMAT_ATTENTION_BAND_H
