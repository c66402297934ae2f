// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Element formulas as arith and math ops, for scalars and vectors.

#include "dialects/Train/TrainScalar.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include <cmath>

using namespace mlir;

namespace trainc::train::scalar {

static bool isFloat(Value x) { return isa<FloatType>(getElementTypeOrSelf(x.getType())); }
static bool isBool(Value x) { return getElementTypeOrSelf(x.getType()).isInteger(1); }

/// `element` with the shape (scalar or vector) of `like`.
static Type sameShape(Type like, Type element) {
  if (auto vector = dyn_cast<VectorType>(like))
    return VectorType::get(vector.getShape(), element);
  return element;
}

static Value splatConstant(OpBuilder &b, Location loc, Type type, TypedAttr value) {
  if (auto vector = dyn_cast<VectorType>(type))
    return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(vector, Attribute(value)));
  return arith::ConstantOp::create(b, loc, value);
}
static Value intConstant(OpBuilder &b, Location loc, Type type, uint64_t value) {
  Type element = getElementTypeOrSelf(type);
  unsigned width = element.getIntOrFloatBitWidth();
  return splatConstant(b, loc, type,
                       b.getIntegerAttr(element, APInt(64, value).zextOrTrunc(width)));
}

Value constantLike(OpBuilder &b, Location loc, Value like, double value) {
  Type element = getElementTypeOrSelf(like.getType());
  if (isa<FloatType>(element))
    return splatConstant(b, loc, like.getType(), b.getFloatAttr(element, value));
  return intConstant(b, loc, like.getType(), uint64_t(int64_t(value)));
}
Value neg(OpBuilder &b, Location loc, Value x) {
  if (isFloat(x))
    return arith::NegFOp::create(b, loc, x);
  return arith::SubIOp::create(b, loc, constantLike(b, loc, x, 0), x);
}
Value abs(OpBuilder &b, Location loc, Value x) {
  if (isFloat(x))
    return math::AbsFOp::create(b, loc, x);
  return math::AbsIOp::create(b, loc, x);
}
Value sign(OpBuilder &b, Location loc, Value x) {
  Value zero = constantLike(b, loc, x, 0);
  Value one = constantLike(b, loc, x, 1);
  // x itself for 0 and NaN.
  Value magnitude = math::CopySignOp::create(b, loc, one, x);
  Value nonzero = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::ONE, x, zero);
  return arith::SelectOp::create(b, loc, nonzero, magnitude, x);
}
Value reciprocal(OpBuilder &b, Location loc, Value x) {
  return arith::DivFOp::create(b, loc, constantLike(b, loc, x, 1), x);
}
Value rsqrt(OpBuilder &b, Location loc, Value x) {
  return reciprocal(b, loc, math::SqrtOp::create(b, loc, x));
}
Value sigmoid(OpBuilder &b, Location loc, Value x) {
  Value e = math::ExpOp::create(b, loc, arith::NegFOp::create(b, loc, x));
  return reciprocal(b, loc, arith::AddFOp::create(b, loc, constantLike(b, loc, x, 1), e));
}
Value relu(OpBuilder &b, Location loc, Value x) {
  Value zero = constantLike(b, loc, x, 0);
  // Not a maximum: NaN stays NaN with one comparison.
  Value negative = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLT, x, zero);
  return arith::SelectOp::create(b, loc, negative, zero, x);
}

/// sqrt(2/pi) * (x + 0.044715 x^3)
static Value geluInner(OpBuilder &b, Location loc, Value x) {
  Value cube = mul(b, loc, mul(b, loc, x, x), x);
  Value sum = add(b, loc, x, mul(b, loc, constantLike(b, loc, x, 0.044715), cube));
  return mul(b, loc, constantLike(b, loc, x, 0.7978845608028654), sum);
}
/// 1 is added to the erf or tanh of a GELU: their absolute errors count.
static constexpr auto absolute = arith::FastMathFlags::afn;
Value gelu(OpBuilder &b, Location loc, Value x, bool tanh) {
  Value half = mul(b, loc, constantLike(b, loc, x, 0.5), x);
  Value one = constantLike(b, loc, x, 1);
  Value inner;
  if (tanh)
    inner = math::TanhOp::create(b, loc, geluInner(b, loc, x), absolute);
  else
    inner = math::ErfOp::create(b, loc, mul(b, loc, x, constantLike(b, loc, x, 0.7071067811865476)),
                                absolute);
  return mul(b, loc, half, add(b, loc, one, inner));
}
Value geluGrad(OpBuilder &b, Location loc, Value x, bool tanh) {
  Value one = constantLike(b, loc, x, 1), half = constantLike(b, loc, x, 0.5);
  Value square = mul(b, loc, x, x);
  if (tanh) {
    Value t = math::TanhOp::create(b, loc, geluInner(b, loc, x), absolute);
    Value slope = mul(b, loc, constantLike(b, loc, x, 0.7978845608028654),
                      add(b, loc, one, mul(b, loc, constantLike(b, loc, x, 3 * 0.044715), square)));
    Value sech2 = sub(b, loc, one, mul(b, loc, t, t));
    return add(b, loc, mul(b, loc, half, add(b, loc, one, t)),
               mul(b, loc, mul(b, loc, half, x), mul(b, loc, sech2, slope)));
  }
  Value cdf =
      mul(b, loc, half,
          add(b, loc, one,
              math::ErfOp::create(
                  b, loc, mul(b, loc, x, constantLike(b, loc, x, 0.7071067811865476)), absolute)));
  Value pdf = mul(b, loc, constantLike(b, loc, x, 0.3989422804014327),
                  math::ExpOp::create(b, loc, mul(b, loc, constantLike(b, loc, x, -0.5), square)));
  return add(b, loc, cdf, mul(b, loc, x, pdf));
}
Value add(OpBuilder &b, Location loc, Value x, Value y) {
  if (isFloat(x))
    return arith::AddFOp::create(b, loc, x, y);
  if (isBool(x))
    return arith::OrIOp::create(b, loc, x, y);
  return arith::AddIOp::create(b, loc, x, y);
}
Value sub(OpBuilder &b, Location loc, Value x, Value y) {
  if (isFloat(x))
    return arith::SubFOp::create(b, loc, x, y);
  return arith::SubIOp::create(b, loc, x, y);
}
Value mul(OpBuilder &b, Location loc, Value x, Value y) {
  if (isFloat(x))
    return arith::MulFOp::create(b, loc, x, y);
  if (isBool(x))
    return arith::AndIOp::create(b, loc, x, y);
  return arith::MulIOp::create(b, loc, x, y);
}
Value div(OpBuilder &b, Location loc, Value x, Value y) {
  if (isFloat(x))
    return arith::DivFOp::create(b, loc, x, y);
  Value zero = constantLike(b, loc, x, 0), one = constantLike(b, loc, x, 1);
  Value isZero = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, y, zero);
  Value safe = arith::SelectOp::create(b, loc, isZero, one, y);
  return arith::SelectOp::create(b, loc, isZero, zero, arith::DivSIOp::create(b, loc, x, safe));
}
Value max(OpBuilder &b, Location loc, Value x, Value y) {
  if (isFloat(x))
    return arith::MaximumFOp::create(b, loc, x, y);
  if (isBool(x))
    return arith::OrIOp::create(b, loc, x, y);
  return arith::MaxSIOp::create(b, loc, x, y);
}
Value min(OpBuilder &b, Location loc, Value x, Value y) {
  if (isFloat(x))
    return arith::MinimumFOp::create(b, loc, x, y);
  if (isBool(x))
    return arith::AndIOp::create(b, loc, x, y);
  return arith::MinSIOp::create(b, loc, x, y);
}
Value pow(OpBuilder &b, Location loc, Value x, Value y) {
  if (!isFloat(x))
    return math::IPowIOp::create(b, loc, x, y);
  // Small constant exponents are products, exact and cheap; exporters write x^2 and x^3 this way.
  APFloat exponent(0.0);
  if (matchPattern(y, m_ConstantFloat(&exponent))) {
    double value = exponent.convertToDouble();
    if (value == 1)
      return x;
    if (value == 2)
      return mul(b, loc, x, x);
    if (value == 3)
      return mul(b, loc, mul(b, loc, x, x), x);
    if (value == 0.5)
      return math::SqrtOp::create(b, loc, x);
    if (value == -1)
      return reciprocal(b, loc, x);
  }
  return math::PowFOp::create(b, loc, x, y);
}
Value mod(OpBuilder &b, Location loc, Value x, Value y) {
  if (isFloat(x)) {
    Value quotient = math::FloorOp::create(b, loc, arith::DivFOp::create(b, loc, x, y));
    return sub(b, loc, x, mul(b, loc, quotient, y));
  }
  Value zero = constantLike(b, loc, x, 0), one = constantLike(b, loc, x, 1);
  Value isZero = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, y, zero);
  Value safe = arith::SelectOp::create(b, loc, isZero, one, y);
  Value remainder = arith::RemSIOp::create(b, loc, x, safe);
  // The remainder has the sign of x; ONNX wants that of y.
  Value nonzero = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, remainder, zero);
  Value signs = arith::XOrIOp::create(b, loc, remainder, safe);
  Value differ = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, signs, zero);
  Value adjust = arith::AndIOp::create(b, loc, nonzero, differ);
  return arith::SelectOp::create(b, loc, adjust, add(b, loc, remainder, safe), remainder);
}
Value logicalNot(OpBuilder &b, Location loc, Value x) {
  return arith::XOrIOp::create(b, loc, x, constantLike(b, loc, x, 1));
}
Value isNan(OpBuilder &b, Location loc, Value x) {
  return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNO, x, x);
}
Value isInf(OpBuilder &b, Location loc, Value x) {
  return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, math::AbsFOp::create(b, loc, x),
                               constantLike(b, loc, x, INFINITY));
}
Value compare(OpBuilder &b, Location loc, ComparePredicate predicate, Value x, Value y) {
  if (isFloat(x)) {
    static constexpr arith::CmpFPredicate predicates[] = {
        arith::CmpFPredicate::OEQ, arith::CmpFPredicate::UNE, arith::CmpFPredicate::OLT,
        arith::CmpFPredicate::OLE, arith::CmpFPredicate::OGT, arith::CmpFPredicate::OGE};
    return arith::CmpFOp::create(b, loc, predicates[unsigned(predicate)], x, y);
  }
  static constexpr arith::CmpIPredicate signedPredicates[] = {
      arith::CmpIPredicate::eq,  arith::CmpIPredicate::ne,  arith::CmpIPredicate::slt,
      arith::CmpIPredicate::sle, arith::CmpIPredicate::sgt, arith::CmpIPredicate::sge};
  static constexpr arith::CmpIPredicate boolPredicates[] = {
      arith::CmpIPredicate::eq,  arith::CmpIPredicate::ne,  arith::CmpIPredicate::ult,
      arith::CmpIPredicate::ule, arith::CmpIPredicate::ugt, arith::CmpIPredicate::uge};
  auto p = (isBool(x) ? boolPredicates : signedPredicates)[unsigned(predicate)];
  return arith::CmpIOp::create(b, loc, p, x, y);
}
Value cast(OpBuilder &b, Location loc, Value x, Type type) {
  Type from = getElementTypeOrSelf(x.getType()), to = getElementTypeOrSelf(type);
  Type target = sameShape(x.getType(), to);
  if (from == to)
    return x;
  bool fromFloat = isa<FloatType>(from), toFloat = isa<FloatType>(to);
  if (to.isInteger(1)) {
    Value zero = constantLike(b, loc, x, 0);
    if (fromFloat)
      return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNE, x, zero);
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, x, zero);
  }
  if (fromFloat && toFloat) {
    if (to.getIntOrFloatBitWidth() > from.getIntOrFloatBitWidth())
      return arith::ExtFOp::create(b, loc, target, x);
    if (to.getIntOrFloatBitWidth() < from.getIntOrFloatBitWidth())
      return arith::TruncFOp::create(b, loc, target, x);
    Type wide = sameShape(x.getType(), b.getF32Type()); // f16 <-> bf16
    return arith::TruncFOp::create(b, loc, target, arith::ExtFOp::create(b, loc, wide, x));
  }
  if (fromFloat)
    return arith::FPToSIOp::create(b, loc, target, x);
  if (toFloat) {
    if (from.isInteger(1))
      return arith::UIToFPOp::create(b, loc, target, x);
    return arith::SIToFPOp::create(b, loc, target, x);
  }
  if (from.isInteger(1))
    return arith::ExtUIOp::create(b, loc, target, x);
  if (to.getIntOrFloatBitWidth() > from.getIntOrFloatBitWidth())
    return arith::ExtSIOp::create(b, loc, target, x);
  return arith::TruncIOp::create(b, loc, target, x);
}
Value bitcast(OpBuilder &b, Location loc, Value x, Type type) {
  return arith::BitcastOp::create(b, loc, sameShape(x.getType(), getElementTypeOrSelf(type)), x);
}
Value constant(OpBuilder &b, Location loc, TypedAttr value, ValueRange index) {
  for (Value i : index)
    if (auto vector = dyn_cast<VectorType>(i.getType()))
      return splatConstant(b, loc, VectorType::get(vector.getShape(), value.getType()), value);
  return arith::ConstantOp::create(b, loc, value);
}
Value iota(OpBuilder &b, Location loc, Value coordinate, Type type) {
  Type integer = sameShape(coordinate.getType(), b.getI64Type());
  Value x = arith::IndexCastOp::create(b, loc, integer, coordinate);
  return cast(b, loc, x, type);
}

//===----------------------------------------------------------------------===//
// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; SC 2011)
//===----------------------------------------------------------------------===//

/// Ten rounds. The words stay in lanes of 64 bits all along: a product needs them there, and only
/// the low half of a lane counts.
static void philox(OpBuilder &b, Location loc, Value counter[4], Value key0, Value key1) {
  Type word = counter[0].getType(), wide = sameShape(word, b.getI64Type());
  auto widen = [&](Value x) -> Value { return arith::ExtUIOp::create(b, loc, wide, x); };
  Value low = intConstant(b, loc, wide, 0xFFFFFFFFu), half = intConstant(b, loc, wide, 32);
  auto product = [&](Value x, uint32_t factor) -> Value {
    return arith::MulIOp::create(b, loc, arith::AndIOp::create(b, loc, x, low),
                                 intConstant(b, loc, wide, factor));
  };
  auto mix = [&](Value x, Value y, Value z) -> Value {
    return arith::XOrIOp::create(b, loc, arith::ShRUIOp::create(b, loc, x, half),
                                 arith::XOrIOp::create(b, loc, y, z));
  };
  for (int i = 0; i < 4; ++i)
    counter[i] = widen(counter[i]);
  key0 = widen(key0);
  key1 = widen(key1);
  for (int round = 0; round < 10; ++round) {
    Value product0 = product(counter[0], 0xD2511F53u), product1 = product(counter[2], 0xCD9E8D57u);
    counter[0] = mix(product1, counter[1], key0);
    counter[2] = mix(product0, counter[3], key1);
    counter[1] = product1;
    counter[3] = product0;
    key0 = arith::AddIOp::create(b, loc, key0, intConstant(b, loc, wide, 0x9E3779B9u));
    key1 = arith::AddIOp::create(b, loc, key1, intConstant(b, loc, wide, 0xBB67AE85u));
  }
  for (int i = 0; i < 4; ++i)
    counter[i] = arith::TruncIOp::create(b, loc, word, counter[i]);
}
static Value lowWord(OpBuilder &b, Location loc, Value x) {
  return arith::TruncIOp::create(b, loc, sameShape(x.getType(), b.getI32Type()), x);
}
static Value highWord(OpBuilder &b, Location loc, Value x) {
  return lowWord(b, loc, arith::ShRUIOp::create(b, loc, x, intConstant(b, loc, x.getType(), 32)));
}

Value rngKey(OpBuilder &b, Location loc, ValueRange words, int64_t node) {
  Value seed = words[0];
  Value counter[4] = {
      lowWord(b, loc, words[1]), lowWord(b, loc, words[2]), lowWord(b, loc, words[3]), {}};
  Type word = counter[0].getType();
  counter[3] = intConstant(b, loc, word, uint32_t(uint64_t(node)));
  Value key0 = arith::XOrIOp::create(b, loc, lowWord(b, loc, seed),
                                     intConstant(b, loc, word, uint32_t(uint64_t(node) >> 32)));
  philox(b, loc, counter, key0, highWord(b, loc, seed));
  Type wide = seed.getType();
  Value low = arith::ExtUIOp::create(b, loc, wide, counter[0]);
  Value high = arith::AndIOp::create(b, loc, arith::ExtUIOp::create(b, loc, wide, counter[1]),
                                     intConstant(b, loc, wide, 0x1FFFFF));
  return arith::OrIOp::create(b, loc, low,
                              arith::ShLIOp::create(b, loc, high, intConstant(b, loc, wide, 32)));
}

/// The scalar that all lanes of `x` hold, or null.
static Value uniformValue(OpBuilder &b, Location loc, Value x) {
  if (!isa<VectorType>(x.getType()))
    return x;
  if (auto broadcast = x.getDefiningOp<vector::BroadcastOp>())
    return broadcast.getSource();
  DenseElementsAttr constant;
  if (matchPattern(x, m_Constant(&constant)) && constant.isSplat())
    return arith::ConstantOp::create(b, loc, cast<TypedAttr>(constant.getSplatValue<Attribute>()));
  return {};
}

/// `x` for all lanes of `shape`, if it is one number and `shape` has lanes.
static Value toLanes(OpBuilder &b, Location loc, Value x, Type shape) {
  Type type = sameShape(shape, getElementTypeOrSelf(x.getType()));
  return x.getType() == type ? x : Value(vector::BroadcastOp::create(b, loc, type, x));
}

/// Counter words of the elements: [i0 / 4, i1, i2, sum of the outer coordinates], i0 being `inner`.
static void setCounter(OpBuilder &b, Location loc, Value block, ValueRange index,
                       Value counter[4]) {
  Type word = block.getType();
  auto coordinate = [&](int64_t fromInner) -> Value {
    if (fromInner >= int64_t(index.size()))
      return intConstant(b, loc, word, 0);
    Value i = index[index.size() - 1 - fromInner];
    i = arith::IndexCastOp::create(b, loc, sameShape(i.getType(), b.getI32Type()), i);
    return toLanes(b, loc, i, word);
  };
  Value outer = coordinate(3);
  uint32_t factor = 0x9E3779B1u;
  for (int64_t axis = 4; axis < int64_t(index.size()); ++axis, factor *= 0x85EBCA77u)
    outer = add(b, loc, outer, mul(b, loc, coordinate(axis), intConstant(b, loc, word, factor)));
  counter[0] = block;
  counter[1] = coordinate(1);
  counter[2] = coordinate(2);
  counter[3] = outer;
}

/// Random words of lanes that run along the innermost axis from a multiple of 4: each Philox block
/// is computed once for its four elements. Null where the lanes are not known to be such.
static Value randomOfRow(OpBuilder &b, Location loc, Value key, ValueRange index) {
  if (index.empty() || !index.back().getDefiningOp() ||
      !index.back().getDefiningOp()->hasAttr(kAlignedLanesAttr))
    return {};
  int64_t lanes = cast<VectorType>(index.back().getType()).getNumElements(), blocks = lanes / 4;
  Value keyScalar = uniformValue(b, loc, key);
  SmallVector<Value> scalars;
  for (Value i : index.drop_back())
    scalars.push_back(uniformValue(b, loc, i));
  if (lanes % 4 != 0 || !keyScalar || llvm::is_contained(scalars, Value()))
    return {};
  Value first = vector::ExtractOp::create(b, loc, index.back(), ArrayRef<int64_t>{0});
  scalars.push_back(first);
  auto words = VectorType::get(blocks, b.getI32Type());
  Value block =
      arith::ShRUIOp::create(b, loc, arith::IndexCastOp::create(b, loc, b.getI32Type(), first),
                             arith::ConstantIntOp::create(b, loc, 2, 32));
  SmallVector<Attribute> steps;
  for (int64_t i = 0; i < blocks; ++i)
    steps.push_back(b.getI32IntegerAttr(i));
  Value step = arith::ConstantOp::create(b, loc, DenseElementsAttr::get(words, steps));
  block = add(b, loc, vector::BroadcastOp::create(b, loc, words, block), step);
  Value counter[4];
  setCounter(b, loc, block, scalars, counter);
  auto keyWord = [&](Value word) { return vector::BroadcastOp::create(b, loc, words, word); };
  philox(b, loc, counter, keyWord(lowWord(b, loc, keyScalar)),
         keyWord(highWord(b, loc, keyScalar)));
  // Lane 4 k + w is word w of block k.
  SmallVector<int64_t> pairs, all;
  for (int64_t k = 0; k < blocks; ++k) {
    pairs.append({k, blocks + k});
    all.append({2 * k, 2 * k + 1, 2 * blocks + 2 * k, 2 * blocks + 2 * k + 1});
  }
  Value low = vector::ShuffleOp::create(b, loc, counter[0], counter[1], pairs);
  Value high = vector::ShuffleOp::create(b, loc, counter[2], counter[3], pairs);
  return vector::ShuffleOp::create(b, loc, low, high, all);
}

static Value randomOfElement(OpBuilder &b, Location loc, Value key, ValueRange index) {
  // Lanes may run along any axis; the key and the other coordinates may be one number for all.
  Type shape = key.getType();
  for (Value i : index)
    if (isa<VectorType>(i.getType()))
      shape = i.getType();
  Type word = sameShape(shape, b.getI32Type());
  key = toLanes(b, loc, key, shape);
  Value inner = intConstant(b, loc, word, 0);
  if (!index.empty())
    inner = arith::IndexCastOp::create(b, loc, word, toLanes(b, loc, index.back(), shape));
  Value counter[4];
  setCounter(b, loc, arith::ShRUIOp::create(b, loc, inner, intConstant(b, loc, word, 2)), index,
             counter);
  philox(b, loc, counter, lowWord(b, loc, key), highWord(b, loc, key));
  Value lane = arith::AndIOp::create(b, loc, inner, intConstant(b, loc, word, 3));
  Value random = counter[3];
  for (int i = 2; i >= 0; --i)
    random = arith::SelectOp::create(
        b, loc,
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, lane, intConstant(b, loc, word, i)),
        counter[i], random);
  return random;
}

SmallVector<Value> replaceCoordinates(OpBuilder &b, Location loc, ValueRange index,
                                      ArrayRef<int64_t> axes, ValueRange coordinates) {
  SmallVector<Value> replaced(index);
  for (auto [axis, coordinate] : llvm::zip_equal(axes, coordinates)) {
    // What repeats along the lanes stays one number: random numbers are then made for a row.
    if (Value uniform = uniformValue(b, loc, coordinate))
      coordinate = uniform;
    replaced[axis] = arith::IndexCastOp::create(
        b, loc, sameShape(coordinate.getType(), b.getIndexType()), coordinate);
  }
  return replaced;
}

Value randomBits(OpBuilder &b, Location loc, Value key, ValueRange index) {
  Value random = randomOfRow(b, loc, key, index);
  return random ? random : randomOfElement(b, loc, key, index);
}

Value dropout(OpBuilder &b, Location loc, Value x, Value key, ValueRange index, double ratio) {
  if (ratio == 0)
    return x;
  Type word = sameShape(x.getType(), b.getI32Type());
  Value random = randomBits(b, loc, key, index);
  double threshold = std::min(std::ceil(ratio * 4294967296.0), 4294967295.0);
  Value keep = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::uge, random,
                                     intConstant(b, loc, word, uint32_t(threshold)));
  Value scaled = mul(b, loc, x, constantLike(b, loc, x, 1.0 / (1.0 - ratio)));
  return arith::SelectOp::create(b, loc, keep, scaled, constantLike(b, loc, x, 0));
}

} // namespace trainc::train::scalar
