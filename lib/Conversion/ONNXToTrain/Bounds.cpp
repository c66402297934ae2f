// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Interval arithmetic on size expressions. Unknown stays unknown: nothing here ever guesses.

#include "trainc/Conversion/ONNXToTrain/Bounds.h"

#include "lib/Conversion/ONNXToTrain/Sizes/LinearSize.h"
#include "llvm/Support/MathExtras.h"
#include <limits>

using namespace mlir;
using namespace trainc;
using namespace trainc::legalize;
using trainc::train::DimFnAttr;
using trainc::train::DimFnKind;

namespace {

/// An end that is not known, or beyond 64 bits, is none.
std::optional<int64_t> addEnds(std::optional<int64_t> a, std::optional<int64_t> b) {
  int64_t sum;
  if (!a || !b || llvm::AddOverflow(*a, *b, sum))
    return std::nullopt;
  return sum;
}

std::optional<int64_t> mulEnds(std::optional<int64_t> a, std::optional<int64_t> b) {
  int64_t product;
  if (!a || !b || llvm::MulOverflow(*a, *b, product))
    return std::nullopt;
  return product;
}

/// Product of two intervals that are not negative; anything else with an open end is unknown.
Interval multiply(const Interval &a, const Interval &b) {
  // The usual case: sizes. Their ends multiply, even if one is open.
  if (a.low && b.low && *a.low >= 0 && *b.low >= 0)
    return {mulEnds(a.low, b.low), mulEnds(a.high, b.high)};
  if (!a.low || !a.high || !b.low || !b.high)
    return {};
  // Any pair of ends may be the least or the largest.
  std::optional<int64_t> ends[] = {mulEnds(a.low, b.low), mulEnds(a.low, b.high),
                                   mulEnds(a.high, b.low), mulEnds(a.high, b.high)};
  Interval result = {ends[0], ends[0]};
  for (auto end : ends) {
    if (!end)
      return {};
    result.low = std::min(*result.low, *end);
    result.high = std::max(*result.high, *end);
  }
  return result;
}

/// A negative factor swaps the ends.
Interval scale(const Interval &a, int64_t factor) {
  if (factor >= 0)
    return {mulEnds(a.low, factor), mulEnds(a.high, factor)};
  return {mulEnds(a.high, factor), mulEnds(a.low, factor)};
}

} // namespace

Interval Bounds::interval(DimAttr dim) const {
  // A size is at least 0; one without an entry has no other bounds.
  auto atom = [&](Attribute attr) -> Interval {
    if (auto name = dyn_cast<StringAttr>(attr)) {
      auto it = symbols.find(name);
      return it == symbols.end() ? Interval{0, std::nullopt}
                                 : Interval{it->second.min, it->second.max};
    }
    auto fn = cast<DimFnAttr>(attr);
    Interval a = interval(cast<DimAttr>(fn.getLhs())), b = interval(cast<DimAttr>(fn.getRhs()));
    // Only where the divisor is positive: anything else is unknown.
    switch (fn.getKind()) {
    case DimFnKind::floordiv:
      if (!b.low || *b.low < 1 || !a.low || *a.low < 0)
        return {};
      return {b.high ? *a.low / *b.high : 0,
              a.high ? std::optional<int64_t>(*a.high / *b.low) : std::nullopt};
    case DimFnKind::mod:
      if (!b.low || *b.low < 1)
        return {};
      return {0, b.high ? std::optional<int64_t>(*b.high - 1) : std::nullopt};
    case DimFnKind::max:
      // One known end is enough where the other argument can only move the result away from it.
      return {a.low && b.low ? std::optional<int64_t>(std::max(*a.low, *b.low))
                             : (a.low ? a.low : b.low),
              a.high && b.high ? std::optional<int64_t>(std::max(*a.high, *b.high)) : std::nullopt};
    case DimFnKind::min:
      return {a.low && b.low ? std::optional<int64_t>(std::min(*a.low, *b.low)) : std::nullopt,
              a.high && b.high ? std::optional<int64_t>(std::min(*a.high, *b.high))
                               : (a.high ? a.high : b.high)};
    }
    return {};
  };
  // Terms are independent: the interval may be wider than the values, never narrower.
  Interval sum = {0, 0};
  for (auto [coefficient, monomial] : llvm::zip_equal(dim.getCoefficients(), dim.getMonomials())) {
    Interval product = {1, 1};
    for (Attribute factor : monomial)
      product = multiply(product, atom(factor));
    product = scale(product, coefficient);
    sum = {addEnds(sum.low, product.low), addEnds(sum.high, product.high)};
  }
  return sum;
}

bool Bounds::atMost(DimAttr a, DimAttr b) const {
  // By the difference, in which equal terms have vanished.
  std::optional<int64_t> low = interval(b - a).low;
  if (low && *low >= 0)
    return true;
  // min(x, y) is at most what x or y is at most.
  // More than that is not tried; unknown is false.
  auto monomials = a.getMonomials();
  auto fn = monomials.size() == 1 && monomials[0].size() == 1 && a.getCoefficients()[0] == 1
                ? dyn_cast<DimFnAttr>(monomials[0][0])
                : DimFnAttr();
  return fn && fn.getKind() == DimFnKind::min &&
         (atMost(cast<DimAttr>(fn.getLhs()), b) || atMost(cast<DimAttr>(fn.getRhs()), b));
}

/// A name of its own only where neither is known to be the smaller.
DimAttr Bounds::min(DimAttr a, DimAttr b) const {
  return atMost(a, b) ? a : atMost(b, a) ? b : train::minDim(a, b);
}

DimAttr Bounds::max(DimAttr a, DimAttr b) const {
  return atMost(a, b) ? b : atMost(b, a) ? a : train::maxDim(a, b);
}

/// The argument and divisor of factor * floor(argument / divisor) + offset, with numbers for all
/// but the argument; a null attribute for other sizes.
static DimFnAttr floorOf(DimAttr expr, int64_t &factor, int64_t &offset, int64_t &divisor) {
  DimFnAttr found;
  factor = offset = 0;
  for (auto [coefficient, monomial] : llvm::zip_equal(expr.getCoefficients(), expr.getMonomials()))
    if (monomial.empty()) {
      offset = coefficient;
    } else {
      auto fn = monomial.size() == 1 ? dyn_cast<DimFnAttr>(monomial[0]) : DimFnAttr();
      if (found || !fn || fn.getKind() != DimFnKind::floordiv)
        return {};
      found = fn;
      factor = coefficient;
    }
  divisor = found ? cast<DimAttr>(found.getRhs()).getConstant().value_or(0) : 0;
  return divisor > 0 && factor != std::numeric_limits<int64_t>::min() ? found : DimFnAttr();
}

/// Of the form factor * symbol + constant, or such a size's floor in its place; others stay as they
/// are.
bool Bounds::demandAtMost(DimAttr expr, int64_t limit) {
  int64_t scale, added, divisor, most, end;
  if (DimFnAttr floor = floorOf(expr, scale, added, divisor)) {
    auto size = cast<DimAttr>(floor.getLhs());
    constexpr int64_t least = std::numeric_limits<int64_t>::min();
    if (llvm::SubOverflow(limit, added, most) || most == least)
      return false;
    // floor(x / d) is at most m where x is at most m * d + d - 1, and at least m where x is at
    // least m * d.
    const int64_t m =
        scale > 0 ? llvm::divideFloorSigned(most, scale) : -llvm::divideFloorSigned(most, -scale);
    if (llvm::MulOverflow(m, divisor, end) || end == least ||
        (scale > 0 && llvm::AddOverflow(end, divisor, end)))
      return false;
    return scale > 0 ? demandAtMost(size, end - 1)
                     : demandAtMost(DimAttr::constant(size.getContext(), 0) - size, -end);
  }
  const std::optional<LinearSize> linear = asLinear(expr);
  auto it = linear ? symbols.find(linear->symbol) : symbols.end();
  // The bound moves only inward, and never past the other one.
  int64_t room;
  if (it == symbols.end() || linear->factor == std::numeric_limits<int64_t>::min() ||
      llvm::SubOverflow(limit, linear->offset, room))
    return false;
  const int64_t factor = linear->factor;
  SymbolInfo &info = it->second;
  if (factor > 0) {
    int64_t max = llvm::divideFloorSigned(room, factor);
    if (max < info.min)
      return false;
    info.max = info.max ? std::min(*info.max, max) : max;
    return true;
  }
  // Only the sizes of inputs are checked against their minimum when they come.
  int64_t min = -llvm::divideFloorSigned(room, -factor);
  if (info.input.empty() || (info.max && *info.max < min))
    return false;
  info.min = std::max(info.min, min);
  return true;
}
