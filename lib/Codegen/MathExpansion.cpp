// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elementary functions on f32 as straight-line arithmetic, for scalars and vectors alike.
//
// exp, log, tanh and erf are minimax polynomials in f32 with fused steps, after N. Juffa's
// published approximations (below 1, 1, 2 and 1 ulp, measured over all floats). The rarer functions
// go through f64, where a plain series is exact enough to round almost always correctly. Fused
// multiply-adds are explicit and only here: formulas of ops are never contracted.

#include "trainc/Codegen/MathExpansion.h"
#include "mlir/IR/Matchers.h"
#include "trainc/Codegen/Codegen.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>

using namespace mlir;

namespace trainc::codegen {

/// 1.5 * 2^23 and 1.5 * 2^52: adding them rounds to an integer, which the low bits then hold.
static constexpr double kRound32 = 12582912.0;
static constexpr double kRound64 = 6755399441055744.0;

//===----------------------------------------------------------------------===//
// In f32
//===----------------------------------------------------------------------===//

static Value expF32(Formula &f, Value x);

/// e^x = 2^h (1 + r) with h = x log2(e), rounded, and r what rounding has lost, times ln 2; 4 ulp.
/// The clamp's ends give 0 and infinity; NaN passes through it. `isNormal`: denormal results are 0.
static Value expHardware(Formula &f, Value x, bool isNormal) {
  x = f.clamp(x, f.f32(-104.0), f.f32(89.0));
  // Cody and Waite: ln 2 in two parts, so that the product is exact in the first.
  Value h = f.mul(x, f.f32(M_LOG2E));
  Value rest = f.fma(h, f.f32(-0.693147182), x);
  rest = f.fma(h, f.f32(1.904654e-9), rest);
  Value power = isNormal ? f.hardware->exp2Normal(f, h) : f.hardware->exp2(f, h);
  return f.mul(power, f.add(rest, f.f32(1.0)));
}

/// The exponential e of a quotient 1 / (1 + e), or null.
static math::ExpOp exponentialOfSigmoid(arith::DivFOp division) {
  // Of a scalar or of all lanes.
  auto isOne = [](Value value) { return matchPattern(value, m_OneFloat()); };
  auto sum = division.getRhs().getDefiningOp<arith::AddFOp>();
  if (!sum || !isOne(division.getLhs()) || !getElementTypeOrSelf(division.getType()).isF32())
    return nullptr;
  // The sum is written in either order.
  const bool isFirst = isOne(sum.getLhs());
  if (!isFirst && !isOne(sum.getRhs()))
    return nullptr;
  return (isFirst ? sum.getRhs() : sum.getLhs()).getDefiningOp<math::ExpOp>();
}

/// 1 / (1 + e^x), 4 ulp, and 0 where that is denormal. A division branches for special cases, and a
/// denormal e does not show in the sum.
static Value sigmoidHardware(Formula &f, Value x) {
  return f.hardware->reciprocal(f, f.add(f.f32(1.0), expHardware(f, x, /*isNormal=*/true)));
}

/// e^x where only its absolute error counts, for x <= 0 or a result that is divided by.
static Value expSmall(Formula &f, Value x) {
  return f.hardware ? f.hardware->exp2Normal(f, f.mul(x, f.f32(M_LOG2E))) : expF32(f, x);
}

/// e^x, 0.86 ulp. x = i ln 2 + f; 2^i in two factors, so that results reach the denormals.
static Value expF32(Formula &f, Value x) {
  if (f.hardware)
    return expHardware(f, x, /*isNormal=*/false);
  x = f.clamp(x, f.f32(-104.0), f.f32(89.0));
  Value shifted = f.fma(x, f.f32(1.442695f), f.f32(kRound32));
  Value integer = f.sub(shifted, f.f32(kRound32));
  Value rest = f.fma(integer, f.f32(-6.93145752e-1f), x);
  rest = f.fma(integer, f.f32(-1.42860677e-6f), rest);
  Value r = f.polynomial(rest, {1.37805939e-3f, 8.37312452e-3f, 4.16695364e-2f, 1.66664720e-1f,
                                4.99999851e-1f, 1.0, 1.0});
  // The low bits of the shifted number are the integer: subtracting the bits of 1.5 * 2^23 leaves
  // it.
  Value i = f.subInt(f.toBits(shifted), f.i32(0x4B400000));
  Value half = f.shiftRight(i, f.i32(1));
  auto power = [&](Value exponent) {
    return f.toFloat(f.shiftLeft(f.addInt(exponent, f.i32(127)), f.i32(23)));
  };
  return f.mul(f.mul(r, power(half)), power(f.subInt(i, half)));
}

/// Natural logarithm, 0.85 ulp. x = 2^e m with m in [2/3, 4/3].
static Value logF32(Formula &f, Value x) {
  // Denormals have no normal exponent: scaled by 2^23 first.
  Value tiny = f.less(x, f.f32(1.17549435e-38f));
  Value scaled = f.select(tiny, f.mul(x, f.f32(8388608.0)), x);
  Value bias = f.select(tiny, f.f32(-23.0), f.f32(0.0));
  Value bits = f.toBits(scaled);
  // So that the mantissa is in [2/3, 4/3): the bits of 2/3 are subtracted before the exponent is
  // cut off.
  Value exponent = f.bitAnd(f.subInt(bits, f.i32(0x3f2aaaab)), f.i32(0xff800000));
  Value mantissa = f.toFloat(f.subInt(bits, exponent));
  Value e = f.fma(f.intToFloat(exponent, f.b.getF32Type()), f.f32(1.19209290e-7f), bias);
  Value m = f.sub(mantissa, f.f32(1.0)), s = f.mul(m, m);
  Value r = f.polynomial(s, {-0.130310059f, -0.121483512f, -0.166846126f, -0.249996200f});
  Value t = f.polynomial(s, {0.140869141f, 0.139814854f, 0.200120345f});
  r = f.fma(t, m, r);
  r = f.fma(r, m, f.f32(0.333331972f));
  r = f.fma(r, m, f.f32(-0.5));
  r = f.fma(r, s, m);
  r = f.fma(e, f.f32(0.693147182f), r);
  // Zero, negative, infinite and NaN.
  r = f.select(f.equal(x, f.f32(0.0)), f.f32(-INFINITY), r);
  r = f.select(f.less(x, f.f32(0.0)), f.f32(NAN), r);
  Value ordinary = f.less(x, f.f32(INFINITY));
  // Infinity stays, NaN stays: x + x is either.
  return f.select(ordinary, r, f.add(x, x));
}

/// Whether an op may have the relative error of a small result wrong, as long as the absolute one
/// is below 2 ulp of 1, and there are instructions that make this cheap.
static bool isAbsolute(Formula &f, arith::FastMathFlags flags) {
  return f.hardware && bitEnumContainsAll(flags, arith::FastMathFlags::afn);
}

/// tanh, 1.8 ulp.
static Value tanhF32(Formula &f, Value x, arith::FastMathFlags flags) {
  Value magnitude = f.abs(x);
  // tanh x = 1 - 2 / (e^2x + 1), for x >= 0.
  Value e = f.add(expSmall(f, f.add(magnitude, magnitude)), f.f32(1.0));
  Value reciprocal = f.hardware ? f.hardware->reciprocal(f, e) : f.div(f.f32(1.0), e);
  Value large = f.copysign(f.fma(f.f32(-2.0), reciprocal, f.f32(1.0)), x);
  if (isAbsolute(f, flags))
    return large;
  Value s = f.mul(x, x);
  // An odd polynomial near 0, where the quotient would cancel.
  Value small =
      f.polynomial(s, {1.57394409e-2f, -5.23025580e-2f, 1.33152470e-1f, -3.33327681e-1f, 0.0});
  small = f.fma(small, x, x);
  return f.select(f.less(magnitude, f.f32(0.599609375)), small, large);
}

/// erf = 1 - 2^p(|x|), absolute error 6.6e-8; p is log2(erfc), fitted for |x| <= 4.
static Value erfAbsolute(Formula &f, Value x) {
  Value t = f.abs(x);
  // Beyond 4 the fit is no use, and erf is 1.
  t = f.select(f.less(f.f32(4.0), t), f.f32(4.0), t);
  Value p =
      f.polynomial(t, {-4.535860352916643e-05f, 4.4550769962370396e-04f, -1.489441841840744e-03f,
                       -7.746292394585907e-04f, 2.825368009507656e-02f, -1.484816074371338e-01f,
                       -9.184163808822632e-01f, -1.6279085874557495f, 0.0});
  return f.copysign(f.sub(f.f32(1.0), f.hardware->exp2Normal(f, p)), x);
}

/// erf, 0.99 ulp.
static Value erfF32(Formula &f, Value x, arith::FastMathFlags flags) {
  if (isAbsolute(f, flags))
    return erfAbsolute(f, x);
  Value t = f.abs(x), s = f.mul(x, x);
  Value r = f.fma(f.f32(-1.72853470e-5f), t, f.f32(3.83197126e-4f));
  Value u = f.fma(f.f32(-3.88396438e-3f), t, f.f32(2.42546219e-2f));
  r = f.fma(r, s, u);
  r = f.fma(r, t, f.f32(-1.06777877e-1f));
  r = f.fma(r, t, f.f32(-6.34846687e-1f));
  r = f.fma(r, t, f.f32(-1.28717512e-1f));
  r = f.fma(r, t, f.neg(t));
  // At large |x| the formula passes infinity - infinity; there erf is 1.
  r = f.select(f.less(f.f32(8.0), t), f.f32(-104.0), r);
  Value large = f.copysign(f.sub(f.f32(1.0), expSmall(f, r)), x);
  Value small = f.polynomial(s, {-5.96761703e-4f, 4.99119423e-3f, -2.67681349e-2f, 1.12819925e-1f,
                                 -3.76125336e-1f, 1.28379166e-1f});
  small = f.fma(small, x, x);
  return f.select(f.less(f.f32(0.927734375), t), large, small);
}

//===----------------------------------------------------------------------===//
// Through f64
//===----------------------------------------------------------------------===//

/// Natural logarithm of a positive normal number, relative error below 1e-11.
/// As logF32, with a series that is exact enough for any f32 result.
static Value logF64(Formula &f, Value x) {
  Value bits = f.toBits(x);
  Value exponent = f.bitAnd(f.subInt(bits, f.i64(0x3fe5555555555555)), f.i64(0xfff0000000000000));
  Value m = f.toFloat(f.subInt(bits, exponent));
  Value e = f.intToFloat(f.shiftRight(exponent, f.i64(52)), f.b.getF64Type());
  // log m = 2 artanh((m - 1) / (m + 1))
  Value s = f.div(f.sub(m, f.f64(1.0)), f.add(m, f.f64(1.0))), q = f.mul(s, s);
  Value series =
      f.polynomial(q, {2.0 / 15, 2.0 / 13, 2.0 / 11, 2.0 / 9, 2.0 / 7, 2.0 / 5, 2.0 / 3, 2.0});
  return f.fma(e, f.f64(M_LN2), f.mul(series, s));
}

/// x = n ln 2 + f: n as float and 2^n, for |x| < 700.
/// Two parts of ln 2, as in f32.
static Value reduceLn2(Formula &f, Value x, Value &scale) {
  Value shifted = f.fma(x, f.f64(M_LOG2E), f.f64(kRound64));
  Value n = f.sub(shifted, f.f64(kRound64));
  // The low bits of the shifted number are n; the rest leaves with the shift.
  Value bits = f.shiftLeft(f.addInt(f.toBits(shifted), f.i64(1023)), f.i64(52));
  scale = f.toFloat(bits);
  Value rest = f.fma(n, f.f64(-0.6931471805599453), x);
  return f.fma(n, f.f64(-2.3190468138462996e-17), rest);
}
/// (e^x - 1) / x for |x| <= ln(2) / 2.
static Value expm1Series(Formula &f, Value x) {
  return f.polynomial(x, {1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720,
                          1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0});
}
/// Beyond 160 every f32 result is 0 or infinity.
static Value expF64(Formula &f, Value x) {
  x = f.clamp(x, f.f64(-160.0), f.f64(160.0));
  Value scale, rest = reduceLn2(f, x, scale);
  return f.mul(f.fma(expm1Series(f, rest), rest, f.f64(1.0)), scale);
}
static Value expm1F32(Formula &f, Value x) {
  Value wide = f.clamp(f.widen(x), f.f64(-160.0), f.f64(160.0));
  Value scale, rest = reduceLn2(f, wide, scale);
  Value r = f.mul(expm1Series(f, rest), rest);
  r = f.narrow(f.fma(r, scale, f.sub(scale, f.f64(1.0))));
  // The sum of 0 would lose its sign.
  return f.select(f.equal(x, f.f32(0.0)), x, r); // -0 stays.
}

/// Special arguments of logarithms: `r` for positive finite x, of which `shift` is added before.
/// In this order: NaN compares as nothing, and passes through the last.
static Value finishLog(Formula &f, Value x, Value r, double zeroAt) {
  r = f.select(f.equal(x, f.f32(zeroAt)), f.f32(-INFINITY), r);
  r = f.select(f.less(x, f.f32(zeroAt)), f.f32(NAN), r);
  return f.select(f.less(x, f.f32(INFINITY)), r, f.add(x, x));
}
static Value scaledLogF32(Formula &f, Value x, double factor) {
  Value r = f.mul(logF64(f, f.widen(x)), f.f64(factor));
  return finishLog(f, x, f.narrow(r), 0.0);
}
/// 1 + x rounded in f64, and the logarithm's slope times what that lost.
static Value log1pF32(Formula &f, Value x) {
  Value wide = f.widen(x), one = f.f64(1.0), sum = f.add(wide, one);
  // What rounding the sum lost.
  Value lost = f.sub(wide, f.sub(sum, one));
  Value r = f.narrow(f.add(logF64(f, sum), f.div(lost, sum)));
  r = f.select(f.equal(x, f.f32(0.0)), x, r);
  return finishLog(f, x, r, -1.0);
}

/// sin(x + quarter turns * pi / 2). Beyond 2^50 the value is a number in [-1, 1] and no more.
static Value sineF32(Formula &f, Value x, uint64_t quarters) {
  Value wide = f.widen(x);
  Value shifted = f.fma(wide, f.f64(2.0 / M_PI), f.f64(kRound64));
  // The number of quarter turns, whose low bits choose the function and the sign.
  Value n = f.sub(shifted, f.f64(kRound64));
  Value r = f.fma(n, f.f64(-1.5707963267948966), wide);
  r = f.fma(n, f.f64(-6.123233995736766e-17), r);
  // Only where n has lost digits: the result stays in [-1, 1].
  r = f.clamp(r, f.f64(-1.0), f.f64(1.0));
  Value q = f.mul(r, r);
  Value sine =
      f.polynomial(q, {-1.0 / 39916800, 1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6, 1.0});
  sine = f.mul(sine, r);
  Value cosine = f.polynomial(
      q, {1.0 / 479001600, -1.0 / 3628800, 1.0 / 40320, -1.0 / 720, 1.0 / 24, -0.5, 1.0});
  Value quadrant = f.addInt(f.toBits(shifted), f.i64(quarters));
  Value zero = f.i64(0);
  auto isSet = [&](uint64_t bit) {
    return arith::CmpIOp::create(f.b, f.loc, arith::CmpIPredicate::ne,
                                 f.bitAnd(quadrant, f.i64(bit)), zero)
        .getResult();
  };
  Value result = f.select(isSet(1), cosine, sine);
  Value narrow = f.narrow(f.select(isSet(2), f.neg(result), result));
  // sin(-0) is -0.
  if (quarters == 0)
    return f.select(f.equal(x, f.f32(0.0)), x, narrow);
  return narrow;
}

/// Special cases as IEEE 754 has them for pow, applied in rising order of precedence: the last
/// select wins.
static Value powF32(Formula &f, Value x, Value y) {
  Value zero = f.f32(0.0), one = f.f32(1.0), infinity = f.f32(INFINITY);
  Value magnitude = f.abs(x);
  Value exponent = f.mul(f.widen(y), logF64(f, f.widen(magnitude)));
  Value r = f.narrow(expF64(f, exponent));
  // |x| of 0, infinity and 1.
  Value falling = f.less(y, zero);
  r = f.select(f.equal(magnitude, zero), f.select(falling, infinity, zero), r);
  r = f.select(f.equal(magnitude, infinity), f.select(falling, zero, infinity), r);
  r = f.select(f.equal(magnitude, one), one, r);
  // Negative x: the sign of an odd power, no number for a fraction.
  Value isInteger = f.equal(f.floor(y), y);
  Value half = f.mul(y, f.f32(0.5));
  Value isEven = f.equal(f.floor(half), half);
  Value negative =
      arith::CmpIOp::create(f.b, f.loc, arith::CmpIPredicate::slt, f.toBits(x), f.i32(0));
  auto both = [&](Value a, Value b) { return f.bitAnd(a, b); };
  // An integer that is not even; NaN is neither.
  Value odd = both(isInteger, f.select(isEven, f.less(one, zero), f.equal(y, y)));
  r = f.select(both(negative, odd), f.neg(r), r);
  Value fraction = both(both(f.less(x, zero), f.less(magnitude, infinity)),
                        f.compare(arith::CmpFPredicate::UNE, f.floor(y), y));
  r = f.select(fraction, f.f32(NAN), r);
  r = f.select(f.isNan(x), x, r);
  r = f.select(f.isNan(y), y, r);
  r = f.select(f.equal(y, zero), one, r);
  return f.select(f.equal(x, one), one, r);
}

//===----------------------------------------------------------------------===//
// Integers, and the driver
//===----------------------------------------------------------------------===//

/// x^y by squaring; y < 0 gives the truncated quotient 1 / x^-y, and 0 where that does not exist.
/// Six bits suffice: 2^63 overflows every type.
static Value powInt(Formula &f, Value x, Value y) {
  Type element = getElementTypeOrSelf(x.getType());
  unsigned width = element.getIntOrFloatBitWidth();
  auto number = [&](int64_t value) {
    return f.constant(f.b.getIntegerAttr(element, APInt(64, value, true).trunc(width)));
  };
  auto compare = [&](arith::CmpIPredicate p, Value a, Value b) -> Value {
    return arith::CmpIOp::create(f.b, f.loc, p, a, b);
  };
  Value zero = number(0), one = number(1);
  Value negative = compare(arith::CmpIPredicate::slt, y, zero);
  // Beyond 63 only the parity matters: the powers of 0, 1 and -1 repeat, the others have
  // overflowed.
  Value exponent = f.select(negative, f.subInt(zero, y), y);
  Value large = compare(arith::CmpIPredicate::sgt, exponent, number(63));
  exponent = f.select(large, f.bitOr(number(62), f.bitAnd(exponent, one)), exponent);
  // Unrolled, so that lanes need no loop.
  Value result = one, square = x;
  for (unsigned bit = 0; bit < 6; ++bit) {
    Value isSet = compare(arith::CmpIPredicate::ne, f.bitAnd(exponent, number(1ll << bit)), zero);
    result = f.select(isSet, f.mulInt(result, square), result);
    square = f.mulInt(square, square);
  }
  Value isUnit = f.bitOr(compare(arith::CmpIPredicate::eq, x, one),
                         compare(arith::CmpIPredicate::eq, x, number(-1)));
  return f.select(negative, f.select(isUnit, result, zero), result);
}

/// bf16 to f32: its bits are the upper half.
static Value widenBF16(Formula &f, Value x) {
  Value bits = arith::ExtUIOp::create(f.b, f.loc, f.shaped(f.b.getI32Type()), f.toBits(x));
  return f.toFloat(f.shiftLeft(bits, f.i32(16)));
}

/// f32 to bf16, to the nearest, ties to even.
static Value narrowBF16(Formula &f, Value x) {
  Value bits = f.toBits(x);
  auto upper = [&](Value y) -> Value { return arith::ShRUIOp::create(f.b, f.loc, y, f.i32(16)); };
  Value odd = f.bitAnd(upper(bits), f.i32(1));
  // To the nearest: half of the last kept bit is added, one less where that bit is even.
  Value rounded = upper(f.addInt(bits, f.addInt(odd, f.i32(0x7fff))));
  // A NaN's upper half could be zero: a bit of its mantissa is set.
  rounded = f.select(f.isNan(x), f.bitOr(upper(bits), f.i32(0x40)), rounded);
  Value half = arith::TruncIOp::create(f.b, f.loc, f.shaped(f.b.getI16Type()), rounded);
  return arith::BitcastOp::create(f.b, f.loc, f.shaped(f.b.getBF16Type()), half);
}

/// Conversions that x86 has no instructions for; null where it has. Doubles go through f32, which
/// may round a tie of 16 bits twice.
/// Needs x86's own f16 conversions; bf16 has none before AVX-512 BF16.
static Value convertNarrow(Formula &f, Operation *op) {
  Value x = op->getOperand(0);
  Type from = getElementTypeOrSelf(x.getType()), to = getElementTypeOrSelf(op->getResult(0));
  if (isa<arith::ExtFOp>(op) && from.isBF16()) {
    x = widenBF16(f, x);
    return to.isF64() ? f.widen(x) : x;
  }
  if (isa<arith::SIToFPOp, arith::UIToFPOp>(op) && (to.isBF16() || to.isF16())) {
    Type wide = f.shaped(f.b.getF32Type());
    x = isa<arith::SIToFPOp>(op) ? Value(arith::SIToFPOp::create(f.b, f.loc, wide, x))
                                 : arith::UIToFPOp::create(f.b, f.loc, wide, x);
    return to.isBF16() ? narrowBF16(f, x)
                       : Value(arith::TruncFOp::create(f.b, f.loc, f.shaped(to), x));
  }
  if (isa<arith::FPToSIOp, arith::FPToUIOp>(op) && from.isBF16()) {
    Value wide = widenBF16(f, x);
    Type type = op->getResult(0).getType();
    return isa<arith::FPToSIOp>(op) ? Value(arith::FPToSIOp::create(f.b, f.loc, type, wide))
                                    : arith::FPToUIOp::create(f.b, f.loc, type, wide);
  }
  if (!isa<arith::TruncFOp>(op) || to.isF32() || (to.isF16() && !from.isF64()))
    return {};
  if (from.isF64())
    x = f.narrow(x);
  if (to.isBF16())
    return narrowBF16(f, x);
  return arith::TruncFOp::create(f.b, f.loc, f.shaped(to), x);
}

/// Null for an op that has no expansion.
Value expandFloat(Formula &f, Operation *op) {
  auto x = [&](unsigned i = 0) { return op->getOperand(i); };
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case([&](math::ExpOp exp) {
        return isAbsolute(f, exp.getFastmath()) ? expSmall(f, x()) : expF32(f, x());
      })
      .Case<math::LogOp>([&](auto) { return logF32(f, x()); })
      .Case([&](math::TanhOp tanh) { return tanhF32(f, x(), tanh.getFastmath()); })
      .Case([&](math::ErfOp erf) { return erfF32(f, x(), erf.getFastmath()); })
      .Case<math::Exp2Op>([&](auto) {
        Value wide = f.clamp(f.widen(x()), f.f64(-200.0), f.f64(200.0));
        return f.narrow(expF64(f, f.mul(wide, f.f64(M_LN2))));
      })
      .Case<math::ExpM1Op>([&](auto) { return expm1F32(f, x()); })
      .Case<math::Log2Op>([&](auto) { return scaledLogF32(f, x(), M_LOG2E); })
      .Case<math::Log10Op>([&](auto) { return scaledLogF32(f, x(), M_LOG10E); })
      .Case<math::Log1pOp>([&](auto) { return log1pF32(f, x()); })
      .Case<math::SinOp>([&](auto) { return sineF32(f, x(), 0); })
      .Case<math::CosOp>([&](auto) { return sineF32(f, x(), 1); })
      .Case<math::PowFOp>([&](auto) { return powF32(f, x(), x(1)); })
      .Case<math::RsqrtOp>(
          [&](auto) { return f.div(f.f32(1.0), math::SqrtOp::create(f.b, f.loc, x())); })
      .Default([](Operation *) { return Value(); });
}

void expandMath(Operation *root) { expandMath(root, "", nullptr); }

/// Quotients 1 / (1 + e^x). Where nothing else reads the exponential it goes as well.
static void expandSigmoids(Operation *root, const HardwareMath &hardware) {
  root->walk([&](arith::DivFOp division) {
    math::ExpOp exponential = exponentialOfSigmoid(division);
    if (!exponential)
      return;
    OpBuilder b(division);
    Formula f(b, division.getLoc(), division.getType(), &hardware);
    // Taken before the division goes: it may be the last that reads them.
    Operation *sum = division.getRhs().getDefiningOp();
    division.replaceAllUsesWith(sigmoidHardware(f, exponential.getOperand()));
    division.erase();
    for (Operation *op : {sum, exponential.getOperation()})
      if (op->use_empty())
        op->erase();
  });
}

/// Collects first, as expansions are made of ops of the same kinds. With hardware math conversions
/// stay: GPUs have all of them.
void expandMath(Operation *root, StringRef libraryPrefix, const HardwareMath *hardware) {
  if (hardware)
    expandSigmoids(root, *hardware);
  SmallVector<Operation *> ops;
  auto isConversion = [](Operation *op) {
    return isa<arith::TruncFOp, arith::ExtFOp, arith::SIToFPOp, arith::UIToFPOp, arith::FPToSIOp,
               arith::FPToUIOp>(op);
  };
  root->walk([&](Operation *op) {
    if (isa<math::MathDialect>(op->getDialect()) || (!hardware && isConversion(op)))
      ops.push_back(op);
  });
  for (Operation *op : ops) {
    OpBuilder b(op);
    Type type = op->getResult(0).getType(), element = getElementTypeOrSelf(type);
    Formula f(b, op->getLoc(), type, hardware);
    Value replacement;
    bool conversion = isConversion(op);
    if (conversion)
      replacement = convertNarrow(f, op);
    else if (isa<math::IPowIOp>(op))
      replacement = powInt(f, op->getOperand(0), op->getOperand(1));
    else if (element.isF32())
      replacement = expandFloat(f, op);
    if (replacement) {
      op->getResult(0).replaceAllUsesWith(replacement);
      op->erase();
    } else if (!conversion && isa<FloatType>(element)) {
      callLibrary(b, op, libraryPrefix);
    }
  }
}

} // namespace trainc::codegen
