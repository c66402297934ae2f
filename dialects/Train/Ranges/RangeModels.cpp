// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Interval arithmetic of the ops. Bounds are computed in double; `rounded` makes room for what any
// float type rounds. Attached from outside of the ops, so that their declarations stay small.

#include "dialects/Train/Convolution/Convolution.h"
#include "dialects/Train/Loops/Loops.h"
#include "dialects/Train/Ranges/LoopRanges.h"
#include "dialects/Train/Ranges/Ranges.h"
#include "dialects/Train/TrainDetail.h"
#include "dialects/Train/TrainDialect.h"
#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace trainc::train;

namespace {
constexpr double kUnbounded = Range::kUnbounded, kInfinity = Range::kInfinity;
/// e^-800 is 0 in every type.
constexpr double kNoWeight = 800;

//===----------------------------------------------------------------------===//
// Bounds
//===----------------------------------------------------------------------===//

/// Overflow is not looked at: what comes of finite numbers is finite.
double finiteUnless(double x, bool infinite) {
  return infinite ? x : std::clamp(x, -kUnbounded, kUnbounded);
}

bool isSmallInteger(double x) { return std::trunc(x) == x && std::fabs(x) <= 256; }

/// Room for the rounding of the narrowest type (bf16) and of approximations; results that every
/// type holds exactly (`exact`: of such operands) stay.
Range rounded(Range range, bool exact = true) {
  constexpr double relative = 1.0 / 64, tiny = 1e-30;
  auto widen = [&](double x, double sign) {
    if (x == 0 || std::isinf(x) || std::fabs(x) == kUnbounded || (exact && isSmallInteger(x)))
      return x;
    double y = x + sign * std::fabs(x) * relative;
    // Below this it may be flushed to zero.
    if (std::fabs(x) < tiny)
      y = sign < 0 ? std::min(y, 0.0) : std::max(y, 0.0);
    // A part of any size is of any size.
    if (sign * y > kUnbounded * 1e-20)
      return sign * kUnbounded;
    return finiteUnless(y, false);
  };
  return {widen(range.lo, -1), widen(range.hi, 1), range.nan};
}

Range roundedIf(bool isFloat, Range range) { return isFloat ? rounded(range) : range; }
bool isFloat(Operation *op) { return isa<FloatType>(getElementType(op->getResult(0))); }

Range negate(const Range &x) { return {-x.hi, -x.lo, x.nan}; }

Range plus(const Range &x, const Range &y) {
  Range sum;
  sum.nan = x.nan || y.nan || (x.hi == kInfinity && y.lo == -kInfinity) ||
            (x.lo == -kInfinity && y.hi == kInfinity);
  auto bound = [](double a, double b, double otherwise) {
    double s = a + b;
    return std::isnan(s) ? otherwise : finiteUnless(s, std::isinf(a) || std::isinf(b));
  };
  sum.lo = bound(x.lo, y.lo, -kInfinity);
  sum.hi = bound(x.hi, y.hi, kInfinity);
  return sum;
}

Range times(const Range &x, const Range &y) {
  Range product;
  product.nan =
      x.nan || y.nan || (x.contains(0) && y.hasInfinity()) || (y.contains(0) && x.hasInfinity());
  product.lo = kInfinity;
  product.hi = -kInfinity;
  for (double a : {x.lo, x.hi})
    for (double b : {y.lo, y.hi}) {
      double p = a == 0 || b == 0 ? 0 : finiteUnless(a * b, std::isinf(a) || std::isinf(b));
      product.lo = std::min(product.lo, p);
      product.hi = std::max(product.hi, p);
    }
  return product;
}

Range square(const Range &x) {
  Range all = times(x, x);
  if (x.contains(0))
    return {0, std::max(all.lo, all.hi), x.nan};
  return {std::min({x.lo * x.lo, x.hi * x.hi, kUnbounded}), all.hi, x.nan};
}

Range over(const Range &x, const Range &y) {
  if (y.contains(0)) {
    bool nan = x.nan || y.nan || x.contains(0) || (x.hasInfinity() && y.hasInfinity());
    if (x.lo == 0 && x.hi == 0 && !y.isNumber(0))
      return {0, 0, true};
    return {-kInfinity, kInfinity, nan};
  }
  Range quotient{kInfinity, -kInfinity, x.nan || y.nan || (x.hasInfinity() && y.hasInfinity())};
  for (double a : {x.lo, x.hi})
    for (double b : {y.lo, y.hi}) {
      double q = a / b;
      q = std::isnan(q) ? 0 : finiteUnless(q, std::isinf(a));
      quotient.lo = std::min(quotient.lo, q);
      quotient.hi = std::max(quotient.hi, q);
    }
  // Between the corners of infinite operands lies everything of their sign.
  if (y.hasInfinity())
    quotient = quotient.unite({0, 0});
  return quotient;
}

/// Of a function that does not descend.
template <typename Fn> Range monotone(const Range &x, Fn fn) {
  auto at = [&](double v) { return finiteUnless(fn(v), std::isinf(v)); };
  return rounded({at(x.lo), at(x.hi), x.nan}, /*exact=*/false);
}

/// Two ranges that touch leave a tie possible, whose gradient is shared: then the result is not
/// one number, though all its elements are.
Range larger(const Range &x, const Range &y, bool isFloat) {
  Range result{std::max(x.lo, y.lo), std::max(x.hi, y.hi), x.nan || y.nan};
  if (isFloat && result.lo == result.hi && !(x.isNumber() && y.isNumber()) &&
      std::isfinite(result.hi) && (x.hi == y.lo || y.hi == x.lo))
    result.hi = std::nextafter(result.hi, kInfinity);
  return result;
}

/// Of sums of one element or more.
Range sumOf(const Range &x) {
  if (x.lo == 0 && x.hi == 0)
    return x;
  double lo = x.lo >= 0 ? x.lo : x.lo == -kInfinity ? -kInfinity : -kUnbounded;
  double hi = x.hi <= 0 ? x.hi : x.hi == kInfinity ? kInfinity : kUnbounded;
  return rounded({lo, hi, x.nan || (x.lo == -kInfinity && x.hi == kInfinity)});
}

bool excludesZero(const Range &x) { return !x.contains(0) && !x.nan; }
bool anyOf(ArrayRef<bool> changed, unsigned begin = 0) {
  return llvm::is_contained(changed.drop_front(begin), true);
}

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

using Ranges = ArrayRef<Range>;

Range rangeOf(NegOp, Ranges x) { return negate(x[0]); }
Range rangeOf(AbsOp, Ranges x) {
  double least = x[0].contains(0) ? 0 : std::min(std::fabs(x[0].lo), std::fabs(x[0].hi));
  return {least, std::max(std::fabs(x[0].lo), std::fabs(x[0].hi)), x[0].nan};
}
Range rangeOf(SignOp, Ranges x) {
  auto sign = [](double v) { return double((v > 0) - (v < 0)); };
  return {sign(x[0].lo), sign(x[0].hi), x[0].nan};
}
Range rangeOf(ExpOp, Ranges x) {
  return monotone(x[0], [](double v) { return std::exp(v); });
}
Range rangeOf(LogOp, Ranges x) {
  if (x[0].isNumber(0))
    return Range::number(-kInfinity);
  if (x[0].lo <= 0)
    return {-kInfinity, x[0].hi == kInfinity ? kInfinity : kUnbounded, x[0].nan || x[0].lo < 0};
  return monotone(x[0], [](double v) { return std::log(v); });
}
Range rangeOf(SqrtOp, Ranges x) {
  Range positive{std::max(x[0].lo, 0.0), std::max(x[0].hi, 0.0), x[0].nan || x[0].lo < 0};
  return monotone(positive, [](double v) { return std::sqrt(v); });
}
Range rangeOf(RsqrtOp, Ranges x) {
  if (x[0].lo <= 0)
    return {-kInfinity, kInfinity, x[0].nan || x[0].lo < 0};
  return rounded({1 / std::sqrt(x[0].hi), 1 / std::sqrt(x[0].lo), x[0].nan}, /*exact=*/false);
}
Range rangeOf(ReciprocalOp, Ranges x) { return rounded(over(Range::number(1), x[0])); }
Range rangeOf(TanhOp, Ranges x) {
  return monotone(x[0], [](double v) { return std::tanh(v); });
}
Range rangeOf(ErfOp, Ranges x) {
  return monotone(x[0], [](double v) { return std::erf(v); });
}
Range rangeOf(SigmoidOp, Ranges x) {
  return monotone(x[0], [](double v) { return 1 / (1 + std::exp(-v)); });
}
Range rangeOf(ReluOp, Ranges x) {
  return {std::max(x[0].lo, 0.0), std::max(x[0].hi, 0.0), x[0].nan};
}
Range rangeOf(DetachOp, Ranges x) { return x[0]; }
Range rangeOf(FloorOp, Ranges x) { return {std::floor(x[0].lo), std::floor(x[0].hi), x[0].nan}; }
Range rangeOf(CeilOp, Ranges x) { return {std::ceil(x[0].lo), std::ceil(x[0].hi), x[0].nan}; }
Range rangeOf(RoundOp, Ranges x) {
  return {std::nearbyint(x[0].lo), std::nearbyint(x[0].hi), x[0].nan};
}
Range wave(const Range &x) { return rounded({-1, 1, x.nan || x.hasInfinity()}, /*exact=*/false); }
Range rangeOf(SinOp, Ranges x) { return x[0].isNumber(0) ? x[0] : wave(x[0]); }
Range rangeOf(CosOp, Ranges x) { return wave(x[0]); }
Range rangeOf(GeluOp, Ranges x) {
  if (x[0].isNumber(0))
    return x[0];
  double lo = x[0].lo >= 0 ? 0 : -0.18;
  return {lo, std::max(x[0].hi, 0.0), x[0].nan || x[0].lo == -kInfinity};
}
Range rangeOf(GeluGradOp, Ranges x) { return {-0.2, 1.2, x[0].nan || x[0].hasInfinity()}; }

Range rangeOf(AddOp op, Ranges x) { return roundedIf(isFloat(op), plus(x[0], x[1])); }
Range rangeOf(SubOp op, Ranges x) {
  if (op.getLhs() == op.getRhs() && x[0].isFinite())
    return Range::number(0);
  return roundedIf(isFloat(op), plus(x[0], negate(x[1])));
}
Range rangeOf(MulOp op, Ranges x) {
  return roundedIf(isFloat(op), op.getLhs() == op.getRhs() ? square(x[0]) : times(x[0], x[1]));
}
Range rangeOf(DivOp op, Ranges x) {
  if (isFloat(op))
    return rounded(over(x[0], x[1]));
  // x / 0 is 0.
  Range quotient = x[1].contains(0) ? Range::finite() : over(x[0], x[1]);
  return {std::trunc(quotient.lo), std::trunc(quotient.hi), false};
}
Range rangeOf(MaxOp op, Ranges x) { return larger(x[0], x[1], isFloat(op)); }
Range rangeOf(MinOp op, Ranges x) {
  return negate(larger(negate(x[0]), negate(x[1]), isFloat(op)));
}
/// 1, 2, 3, ...: of finite numbers finite, as its derivative is.
bool isWholePower(const Range &exponent) {
  return exponent.isNumber() && exponent.isFinite() && exponent.lo >= 1 &&
         std::trunc(exponent.lo) == exponent.lo;
}
Range rangeOf(PowOp, Ranges x) {
  if (x[1].isNumber(2))
    return rounded(square(x[0]), /*exact=*/x[0].isNumber());
  if (x[0].lo > 0 && x[0].isFinite() && x[1].isFinite())
    return {0, kUnbounded, false};
  if (isWholePower(x[1]) && x[0].isFinite())
    return std::fmod(x[1].lo, 2) == 0 ? Range{0, kUnbounded} : Range::finite();
  return Range::anything();
}
Range rangeOf(ModOp op, Ranges x) {
  if (x[0].isFinite() && x[1].isFinite() && x[1].lo > 0)
    return {0, x[1].hi};
  return rangeOfType(getElementType(op.getResult()));
}

Range rangeOf(AndOp op, Ranges x) {
  if (x[0].isNumber(0) || x[1].isNumber(0))
    return Range::number(0);
  if (!getElementType(op.getResult()).isInteger(1))
    return Range::finite();
  return {std::min(x[0].lo, x[1].lo), std::min(x[0].hi, x[1].hi)};
}
Range rangeOf(OrOp op, Ranges x) {
  if (!getElementType(op.getResult()).isInteger(1))
    return Range::finite();
  return {std::max(x[0].lo, x[1].lo), std::max(x[0].hi, x[1].hi)};
}
Range rangeOf(XorOp op, Ranges x) {
  if (!getElementType(op.getResult()).isInteger(1))
    return Range::finite();
  return x[0].isNumber() && x[1].isNumber() ? Range::number(x[0].lo != x[1].lo) : Range{0, 1};
}
Range rangeOf(NotOp, Ranges x) { return {1 - x[0].hi, 1 - x[0].lo}; }
/// That nothing overflows is not known, so these tests are open but for constants.
Range rangeOf(IsNanOp, Ranges x) { return {0, x[0].isNumber() ? 0.0 : 1.0}; }
Range rangeOf(IsInfOp, Ranges x) {
  return x[0].isNumber() ? Range::number(std::isinf(x[0].lo)) : Range{0, 1};
}

Range rangeOf(CompareOp op, Ranges x) {
  bool never = false, always = false;
  switch (op.getPredicate()) {
  case ComparePredicate::eq:
  case ComparePredicate::ne:
    always = x[0].isNumber() && x[1].isNumber() && x[0].lo == x[1].lo;
    never = x[0].hi < x[1].lo || x[0].lo > x[1].hi;
    if (op.getPredicate() == ComparePredicate::ne)
      std::swap(always, never);
    break;
  case ComparePredicate::lt:
    always = x[0].hi < x[1].lo, never = x[0].lo >= x[1].hi;
    break;
  case ComparePredicate::le:
    always = x[0].hi <= x[1].lo, never = x[0].lo > x[1].hi;
    break;
  case ComparePredicate::gt:
    always = x[0].lo > x[1].hi, never = x[0].hi <= x[1].lo;
    break;
  case ComparePredicate::ge:
    always = x[0].lo >= x[1].hi, never = x[0].hi < x[1].lo;
    break;
  }
  // With a NaN only `ne` holds.
  bool nan = x[0].nan || x[1].nan, ne = op.getPredicate() == ComparePredicate::ne;
  if (nan)
    ne ? never = false : always = false;
  return {always ? 1.0 : 0.0, never ? 0.0 : 1.0};
}
Range rangeOf(SelectOp, Ranges x) {
  if (x[0].isNumber())
    return x[0].lo != 0 ? x[1] : x[2];
  return x[1].unite(x[2]);
}
Range rangeOf(CastOp op, Ranges x) {
  Type from = getElementType(op.getOperand()), to = getElementType(op.getResult());
  if (to.isInteger(1)) {
    // NaN is not 0.
    bool zero = x[0].contains(0);
    return {zero ? 0.0 : 1.0, x[0].isNumber(0) ? 0.0 : 1.0};
  }
  if (auto type = dyn_cast<FloatType>(to)) {
    Range range = rounded(x[0]);
    // What the narrower type cannot hold becomes infinite.
    double most = llvm::APFloat::getLargest(type.getFloatSemantics()).convertToDouble();
    auto isTooLarge = [&](double v) { return std::fabs(v) > most && std::fabs(v) != kUnbounded; };
    if (isTooLarge(x[0].lo))
      range = {x[0].lo < 0 ? -kInfinity : most, range.hi, range.nan};
    if (isTooLarge(x[0].hi))
      range = {range.lo, x[0].hi > 0 ? kInfinity : -most, range.nan};
    return range;
  }
  if (!x[0].isFinite() && isa<FloatType>(from))
    return Range::finite();
  // Wraps around beyond what the type holds.
  double most = std::ldexp(1.0, to.getIntOrFloatBitWidth() - 1) - 1;
  bool widens =
      isa<IntegerType>(from) && from.getIntOrFloatBitWidth() <= to.getIntOrFloatBitWidth();
  if (!widens && !to.isInteger(64) && (x[0].lo < -most - 1 || x[0].hi > most))
    return Range::finite();
  return {std::trunc(x[0].lo), std::trunc(x[0].hi)};
}
Range rangeOf(FullOp op, Ranges) {
  return Range::number(trainc::train::detail::attrValue(op.getValue()));
}
Range rangeOf(DropoutOp op, Ranges x) {
  double scale = 1 / (1 - op.getRatio().convertToDouble());
  if (!std::isfinite(scale))
    return Range::anything();
  return rounded(times(x[0], Range::number(scale))).unite(Range::number(0));
}
Range rangeOf(IotaOp, Ranges) { return {0, kUnbounded}; }
Range rangeOf(DimOp, Ranges) { return {0, kUnbounded}; }
Range rangeOf(ConstantOp op, Ranges) {
  Range range{kInfinity, -kInfinity};
  Type element = getElementType(op.getResult());
  if (auto floats = dyn_cast<DenseFPElementsAttr>(op.getValue())) {
    for (const APFloat &value : floats) {
      APFloat number = value;
      bool loses;
      number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &loses);
      range = range.unite(Range::number(number.convertToDouble()));
    }
  } else if (auto integers = dyn_cast<DenseIntElementsAttr>(op.getValue())) {
    for (const APInt &value : integers)
      range = range.unite(Range::number(element.isInteger(1) ? double(value.getBoolValue())
                                                             : double(value.getSExtValue())));
  }
  return range.lo <= range.hi ? range : rangeOfType(element);
}

//===----------------------------------------------------------------------===//
// Moves
//===----------------------------------------------------------------------===//

Range rangeOf(BroadcastOp, Ranges x) { return x[0]; }
Range rangeOf(ReshapeOp, Ranges x) { return x[0]; }
Range rangeOf(BarrierOp, Ranges x) { return x[0]; }
Range rangeOf(TransposeOp, Ranges x) { return x[0]; }
Range rangeOf(WithinOp, Ranges x) { return x[0]; }
Range rangeOf(SliceOp, Ranges x) { return x[0]; }
Range rangeOf(SplitOp, Ranges x) { return x[0]; }
Range rangeOf(GatherOp, Ranges x) { return x[0]; }
Range rangeOf(GatherElementsOp, Ranges x) { return x[0]; }
Range rangeOf(GatherNdOp, Ranges x) { return x[0]; }
Range rangeOf(WindowOp, Ranges x) { return x[0]; }
Range rangeOf(SpreadOp, Ranges x) { return x[0].unite(Range::number(0)); }
Range rangeOf(SelectRowsOp, Ranges x) { return x[0].unite(Range::number(0)); }
Range rangeOf(PadOp op, Ranges x) {
  return x[0].unite(Range::number(trainc::train::detail::attrValue(op.getValue())));
}
Range rangeOf(ConcatOp, Ranges x) {
  Range all = x[0];
  for (const Range &part : x.drop_front())
    all = all.unite(part);
  return all;
}
Range rangeOf(DequantizeOp, Ranges x) {
  bool finite = llvm::all_of(x, [](const Range &operand) { return operand.isFinite(); });
  return finite ? Range::finite() : Range::anything();
}
Range rangeOf(InTrainingOp, Ranges x) { return x[0].unite(x[1]); }

//===----------------------------------------------------------------------===//
// Sums and competitions
//===----------------------------------------------------------------------===//

Range rangeOf(ReduceOp op, Ranges x) {
  switch (op.getKind()) {
  case ReduceKind::sum:
    return sumOf(x[0]);
  case ReduceKind::max:
  case ReduceKind::min:
    return x[0];
  case ReduceKind::prod:
    if (x[0].isNumber(0) || x[0].isNumber(1))
      return x[0];
    if (x[0].lo >= 0 && x[0].hi <= 1)
      return {0, x[0].hi, x[0].nan};
    if (x[0].lo >= 0 && x[0].isFinite())
      return {0, kUnbounded};
    return x[0].isFinite() ? Range::finite() : Range::anything();
  }
  llvm_unreachable("unknown reduction");
}
Range rangeOf(MatmulOp op, Ranges x) {
  if (!op.isSum())
    return Range::anything();
  const Range product = sumOf(times(x[0], x[1]));
  return op.getAddend() ? roundedIf(true, plus(product, x[2])) : product;
}
/// Zeros surround the input, and there may be positions that no window reads.
Range ofConvolution(Ranges x) {
  return sumOf(times(x[0].unite(Range::number(0)), x[1])).unite(Range::number(0));
}
Range rangeOf(ConvOp, Ranges x) { return ofConvolution(x); }
Range rangeOf(ConvDataGradOp, Ranges x) { return ofConvolution(x); }
Range rangeOf(ConvFilterGradOp, Ranges x) { return ofConvolution(x); }
Range rangeOf(CumsumOp op, Ranges x) {
  Range sum = sumOf(x[0]);
  return op.getExclusive() ? sum.unite(Range::number(0)) : sum;
}
Range rangeOf(ScatterAddOp, Ranges x) { return sumOf(x[1]).unite(Range::number(0)); }
Range rangeOf(ScatterElementsAddOp, Ranges x) { return sumOf(x[1]).unite(Range::number(0)); }
/// A row of -inf only, or one with inf, gives NaN.
bool mayLackWeights(const Range &x) { return x.nan || x.hasInfinity(); }
Range rangeOf(SoftmaxOp op, Ranges x) {
  bool nan = x[0].nan || x[0].hi == kInfinity || (mayLackWeights(x[0]) && !op.getGuarded());
  return {0, 1 + 1.0 / 64, nan};
}
Range rangeOf(LogSoftmaxOp, Ranges x) {
  double least = x[0].lo == -kInfinity ? -kInfinity : -kUnbounded;
  return {least, 1.0 / 64, mayLackWeights(x[0])};
}

//===----------------------------------------------------------------------===//
// What stays finite
//===----------------------------------------------------------------------===//

using Changed = ArrayRef<bool>;

/// Formulas with finite results and derivatives of whatever is finite, elements that are moved, and
/// sums: an infinity that they meet is one that was there.
bool keeps(Operation *, Ranges, Changed) { return true; }
/// 0 * inf was something else with what 0 stands for.
bool keepsProduct(Ranges x, Changed changed) {
  return !anyOf(changed) || llvm::none_of(x, [](const Range &r) { return r.hasInfinity(); });
}
bool keeps(MulOp, Ranges x, Changed changed) { return keepsProduct(x, changed); }
bool keeps(MatmulOp op, Ranges x, Changed changed) {
  return op.isSum() && keepsProduct(x, changed);
}
bool keeps(ConvOp, Ranges x, Changed changed) { return keepsProduct(x, changed); }
bool keeps(ConvDataGradOp, Ranges x, Changed changed) { return keepsProduct(x, changed); }
bool keeps(ConvFilterGradOp, Ranges x, Changed changed) { return keepsProduct(x, changed); }
bool keeps(DivOp op, Ranges x, Changed) { return !isFloat(op) || excludesZero(x[1]); }
bool keeps(ReciprocalOp, Ranges x, Changed) { return excludesZero(x[0]); }
bool keeps(LogOp, Ranges x, Changed) { return x[0].lo > 0; }
bool keeps(SqrtOp, Ranges x, Changed) { return x[0].lo > 0; }
bool keeps(RsqrtOp, Ranges x, Changed) { return x[0].lo > 0; }
bool keeps(PowOp, Ranges x, Changed) { return isWholePower(x[1]) || x[0].lo > 0; }
bool keeps(ModOp, Ranges x, Changed) { return excludesZero(x[1]); }
bool keeps(SelectOp, Ranges x, Changed changed) {
  // Another branch may be taken.
  return !changed[0] || (x[1].isFinite() && x[2].isFinite());
}

//===----------------------------------------------------------------------===//
// Sums, terms and contests
//===----------------------------------------------------------------------===//

bool sums(Operation *) { return false; }
bool sums(MatmulOp op) { return op.isSum() && !op.getAddend(); }
bool sums(ConvOp) { return true; }
bool sums(ConvDataGradOp) { return true; }
bool sums(ConvFilterGradOp) { return true; }
bool sums(ScatterAddOp) { return true; }
bool sums(ScatterElementsAddOp) { return true; }
bool sums(ReduceOp op) { return op.getKind() == ReduceKind::sum; }

bool cancels(Operation *) { return false; }
bool cancels(CompareOp op) { return isa<IntegerType>(getElementType(op.getLhs())); }
bool cancels(SubOp op) { return !isFloat(op); }
bool carries(Operation *, unsigned) { return false; }
bool carries(AddOp op, unsigned) { return !isFloat(op); }
bool carries(SubOp op, unsigned operand) { return !isFloat(op) && operand == 0; }
bool carries(CastOp op, unsigned) {
  Type from = getElementType(op.getOperand()), to = getElementType(op.getResult());
  return isa<IntegerType>(from) && isa<IntegerType>(to) && !from.isInteger(1) && !to.isInteger(1);
}

std::optional<Contest> contestOf(Operation *) { return std::nullopt; }
std::optional<Contest> contestOf(SoftmaxOp op) {
  return Contest{{int64_t(op.getAxis())}, kNoWeight, /*least=*/false, Range::number(0)};
}
std::optional<Contest> contestOf(LogSoftmaxOp op) {
  return Contest{{int64_t(op.getAxis())}, kNoWeight, /*least=*/false, {-kInfinity, -kNoWeight}};
}
std::optional<Contest> contestOf(ReduceOp op) {
  if (op.getKind() != ReduceKind::max && op.getKind() != ReduceKind::min)
    return std::nullopt;
  return Contest{SmallVector<int64_t>(op.getAxes()), 0, op.getKind() == ReduceKind::min};
}

//===----------------------------------------------------------------------===//
// The interface
//===----------------------------------------------------------------------===//

template <typename Op> struct RangeModel : RangeOpInterface::ExternalModel<RangeModel<Op>, Op> {
  Range getRange(Operation *op, unsigned, Ranges operands) const {
    return rangeOf(cast<Op>(op), operands);
  }
  bool keepsFinite(Operation *op, Ranges operands, Changed changed) const {
    return keeps(cast<Op>(op), operands, changed);
  }
  bool addsUp(Operation *op) const { return sums(cast<Op>(op)); }
  bool cancelsTerm(Operation *op) const { return cancels(cast<Op>(op)); }
  bool carriesTerm(Operation *op, unsigned operand) const { return carries(cast<Op>(op), operand); }
  std::optional<Contest> getContest(Operation *op) const { return contestOf(cast<Op>(op)); }
};
template <typename... Ops> void attach(MLIRContext *context) {
  (Ops::template attachInterface<RangeModel<Ops>>(*context), ...);
}
} // namespace

void trainc::train::detail::attachRangeInterfaces(MLIRContext *context) {
  attach<NegOp, AbsOp, SignOp, ExpOp, LogOp, SqrtOp, RsqrtOp, ReciprocalOp, TanhOp, ErfOp,
         SigmoidOp, ReluOp, DetachOp, FloorOp, CeilOp, RoundOp, SinOp, CosOp, GeluOp, GeluGradOp,
         AddOp, SubOp, MulOp, DivOp, MaxOp, MinOp, PowOp, ModOp, AndOp, OrOp, XorOp, NotOp, IsNanOp,
         IsInfOp, CompareOp, SelectOp, CastOp, FullOp, DropoutOp, IotaOp, DimOp, ConstantOp>(
      context);
  attach<BroadcastOp, ReshapeOp, BarrierOp, TransposeOp, WithinOp, SliceOp, SplitOp, GatherOp,
         GatherElementsOp, GatherNdOp, WindowOp, SpreadOp, SelectRowsOp, PadOp, ConcatOp,
         DequantizeOp, InTrainingOp, ReduceOp, MatmulOp, CumsumOp, ScatterAddOp,
         ScatterElementsAddOp, SoftmaxOp, LogSoftmaxOp, ConvOp, ConvDataGradOp, ConvFilterGradOp>(
      context);
  attachLoopRanges(context);
}
