// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Intervals: which numbers the elements of a value may be, proved from the ops that make it.
#ifndef TRAINC_DIALECTS_TRAIN_RANGES_H
#define TRAINC_DIALECTS_TRAIN_RANGES_H

#include "dialects/Train/Interfaces.h"
#include <limits>

namespace trainc::train {

/// lo <= x <= hi, or NaN where `nan`. An infinite bound says that infinity itself may occur; a
/// bound of kUnbounded is finite and of any size: that a result overflows the element type is not
/// looked at. Booleans are 0 and 1.
struct Range {
  static constexpr double kUnbounded = std::numeric_limits<double>::max();
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  double lo = -kUnbounded, hi = kUnbounded;
  bool nan = false;

  static Range number(double x);
  /// Finite numbers.
  static Range finite() { return {}; }
  /// Finite, infinite or no number at all.
  static Range anything() { return {-kInfinity, kInfinity, true}; }

  bool isNumber() const { return lo == hi && !nan; }
  bool isNumber(double x) const { return isNumber() && lo == x; }
  bool contains(double x) const { return lo <= x && x <= hi; }
  bool hasInfinity() const { return lo == -kInfinity || hi == kInfinity; }
  bool isFinite() const { return !nan && !hasInfinity(); }
  bool isUnbounded() const { return lo <= -kUnbounded && hi >= kUnbounded; }
  Range unite(const Range &other) const;
  bool operator==(const Range &other) const = default;
};

/// Elements along some axes compete: one that is more than `margin` below the largest (above the
/// least, where `least`) has no influence on any other element or on what is computed of them.
struct Contest {
  llvm::SmallVector<int64_t> axes;
  double margin;
  bool least = false;
  /// What the result holds in such an element's place, if it has one.
  Range loser = Range::anything();
};

} // namespace trainc::train

#include "dialects/Train/TrainRanges.h.inc"

namespace trainc::train {

/// The range of one result. An op without RangeOpInterface gives a number where all its operands
/// are numbers and it is a pointwise formula of them, else anything of its type.
Range inferRange(mlir::Operation *op, unsigned result, llvm::ArrayRef<Range> operands);
/// All elements of this type.
Range rangeOfType(mlir::Type element);

namespace detail {
/// Gives the ops that have it their RangeOpInterface.
void attachRangeInterfaces(mlir::MLIRContext *context);
} // namespace detail

} // namespace trainc::train

#endif // TRAINC_DIALECTS_TRAIN_RANGES_H
