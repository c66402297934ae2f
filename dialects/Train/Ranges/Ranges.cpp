// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranges of whatever op: what it says itself, within what its type can hold.

#include "dialects/Train/Ranges/Ranges.h"
#include "dialects/Train/Reorder/Formula.h"

#include "dialects/Train/TrainDialect.h"
#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace trainc::train;

#include "dialects/Train/TrainRanges.cpp.inc"

/// What f32 still holds.
static constexpr double kLarge = 1e38;

Range Range::number(double x) { return std::isnan(x) ? Range{0, 0, true} : Range{x, x, false}; }

Range Range::unite(const Range &other) const {
  return {std::min(lo, other.lo), std::max(hi, other.hi), nan || other.nan};
}

Range trainc::train::rangeOfType(Type element) {
  if (isa<FloatType>(element))
    return Range::anything();
  return element.isInteger(1) ? Range{0, 1} : Range::finite();
}

/// The formula at the one point that there is.
static std::optional<double> evaluate(Operation *op, ArrayRef<Range> operands) {
  auto pointwise = dyn_cast<PointwiseOpInterface>(op);
  if (!pointwise)
    return std::nullopt;
  SmallVector<double> elements;
  for (const Range &operand : operands) {
    if (!operand.isNumber())
      return std::nullopt;
    elements.push_back(operand.lo);
  }
  if (dependsOnPlace(pointwise))
    return std::nullopt;
  SmallVector<int64_t> index(getRank(op->getResult(0)), 0);
  return pointwise.evaluateScalar(elements, index);
}

Range trainc::train::inferRange(Operation *op, unsigned result, ArrayRef<Range> operands) {
  Type element = getElementType(op->getResult(result));
  auto known = dyn_cast<RangeOpInterface>(op);
  if (!known) {
    // In double, so a float is not known to its last bit: only that it is next to this.
    std::optional<double> value = isa<FloatType>(element) ? std::nullopt : evaluate(op, operands);
    return value ? Range::number(*value) : rangeOfType(element);
  }
  Range range = known.getRange(result, operands);
  Range all = rangeOfType(element);
  // How far an overflow would reach is not known.
  if (range.lo == Range::kUnbounded)
    range.lo = kLarge;
  if (range.hi == -Range::kUnbounded)
    range.hi = -kLarge;
  return {std::max(range.lo, all.lo), std::min(range.hi, all.hi), range.nan && all.nan};
}
