// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shorthand for formulas on scalars or vectors of one length, used by the expansions of math ops.
#ifndef TRAINC_CODEGEN_MATHEXPANSION_H
#define TRAINC_CODEGEN_MATHEXPANSION_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/TypeUtilities.h"

namespace trainc::codegen {

class Formula;

/// Instructions that a processor has for parts of formulas on f32, accurate to 2 ulp. Only where
/// their errors vanish beside those of the whole formula.
class HardwareMath {
public:
  virtual ~HardwareMath() = default;
  virtual mlir::Value exp2(Formula &f, mlir::Value x) const = 0;
  /// 0 where exp2 would be denormal: fewer instructions.
  virtual mlir::Value exp2Normal(Formula &f, mlir::Value x) const = 0;
  virtual mlir::Value reciprocal(Formula &f, mlir::Value x) const = 0;
};

/// Builds arith ops at one place; every value has the shape (scalar or vector) of one given value.
class Formula {
public:
  using Value = mlir::Value;
  Formula(mlir::OpBuilder &b, mlir::Location loc, mlir::Type like,
          const HardwareMath *hardware = nullptr)
      : b(b), loc(loc), like(like), hardware(hardware) {}

  mlir::Type shaped(mlir::Type element) {
    if (auto vector = mlir::dyn_cast<mlir::VectorType>(like))
      return mlir::VectorType::get(vector.getShape(), element);
    return element;
  }
  Value constant(mlir::TypedAttr value) {
    if (auto vector = mlir::dyn_cast<mlir::VectorType>(like))
      return mlir::arith::ConstantOp::create(
          b, loc,
          mlir::DenseElementsAttr::get(mlir::VectorType::get(vector.getShape(), value.getType()),
                                       mlir::Attribute(value)));
    return mlir::arith::ConstantOp::create(b, loc, value);
  }
  Value f32(double value) { return constant(b.getF32FloatAttr(float(value))); }
  Value f64(double value) { return constant(b.getF64FloatAttr(value)); }
  Value i32(uint32_t value) { return constant(b.getI32IntegerAttr(int32_t(value))); }
  Value i64(uint64_t value) { return constant(b.getI64IntegerAttr(int64_t(value))); }

  Value add(Value x, Value y) { return mlir::arith::AddFOp::create(b, loc, x, y); }
  Value sub(Value x, Value y) { return mlir::arith::SubFOp::create(b, loc, x, y); }
  Value mul(Value x, Value y) { return mlir::arith::MulFOp::create(b, loc, x, y); }
  Value div(Value x, Value y) { return mlir::arith::DivFOp::create(b, loc, x, y); }
  Value neg(Value x) { return mlir::arith::NegFOp::create(b, loc, x); }
  Value fma(Value x, Value y, Value z) { return mlir::math::FmaOp::create(b, loc, x, y, z); }
  Value abs(Value x) { return mlir::math::AbsFOp::create(b, loc, x); }
  Value floor(Value x) { return mlir::math::FloorOp::create(b, loc, x); }
  Value copysign(Value x, Value sign) { return mlir::math::CopySignOp::create(b, loc, x, sign); }
  /// The limit where x passes it; NaN stays NaN.
  Value clamp(Value x, Value low, Value high) {
    // One instruction each where there is one that keeps NaN.
    if (hardware && mlir::getElementTypeOrSelf(x.getType()).isF32())
      return mlir::arith::MaximumFOp::create(b, loc,
                                             mlir::arith::MinimumFOp::create(b, loc, x, high), low);
    x = select(less(high, x), high, x);
    return select(less(x, low), low, x);
  }
  Value less(Value x, Value y) { return compare(mlir::arith::CmpFPredicate::OLT, x, y); }
  Value equal(Value x, Value y) { return compare(mlir::arith::CmpFPredicate::OEQ, x, y); }
  Value isNan(Value x) { return compare(mlir::arith::CmpFPredicate::UNO, x, x); }
  Value compare(mlir::arith::CmpFPredicate predicate, Value x, Value y) {
    return mlir::arith::CmpFOp::create(b, loc, predicate, x, y);
  }
  Value select(Value c, Value x, Value y) { return mlir::arith::SelectOp::create(b, loc, c, x, y); }
  Value bitAnd(Value x, Value y) { return mlir::arith::AndIOp::create(b, loc, x, y); }
  Value bitOr(Value x, Value y) { return mlir::arith::OrIOp::create(b, loc, x, y); }
  Value addInt(Value x, Value y) { return mlir::arith::AddIOp::create(b, loc, x, y); }
  Value subInt(Value x, Value y) { return mlir::arith::SubIOp::create(b, loc, x, y); }
  Value mulInt(Value x, Value y) { return mlir::arith::MulIOp::create(b, loc, x, y); }
  Value shiftLeft(Value x, Value y) { return mlir::arith::ShLIOp::create(b, loc, x, y); }
  Value shiftRight(Value x, Value y) { return mlir::arith::ShRSIOp::create(b, loc, x, y); }
  Value toBits(Value x) {
    unsigned width = mlir::getElementTypeOrSelf(x.getType()).getIntOrFloatBitWidth();
    return mlir::arith::BitcastOp::create(b, loc, shaped(b.getIntegerType(width)), x);
  }
  Value toFloat(Value bits) {
    bool wide = mlir::getElementTypeOrSelf(bits.getType()).getIntOrFloatBitWidth() == 64;
    mlir::Type element = b.getF32Type();
    if (wide)
      element = b.getF64Type();
    return mlir::arith::BitcastOp::create(b, loc, shaped(element), bits);
  }
  Value intToFloat(Value x, mlir::Type element) {
    return mlir::arith::SIToFPOp::create(b, loc, shaped(element), x);
  }
  Value widen(Value x) { return mlir::arith::ExtFOp::create(b, loc, shaped(b.getF64Type()), x); }
  Value narrow(Value x) { return mlir::arith::TruncFOp::create(b, loc, shaped(b.getF32Type()), x); }
  /// c[0] * x^(n-1) + ... + c[n-1] in fused steps; constants of x's element type.
  Value polynomial(Value x, llvm::ArrayRef<double> coefficients) {
    bool wide = mlir::getElementTypeOrSelf(x.getType()).isF64();
    auto term = [&](double c) { return wide ? f64(c) : f32(c); };
    Value result = term(coefficients.front());
    for (double c : coefficients.drop_front())
      result = fma(result, x, term(c));
    return result;
  }

  mlir::OpBuilder &b;
  mlir::Location loc;
  mlir::Type like;
  /// Null: formulas consist of sums and products.
  const HardwareMath *hardware;
};

/// The f32 formula of a math op on f32 scalars or vectors, or null where there is none.
mlir::Value expandFloat(Formula &f, mlir::Operation *op);
/// Replaces a math op by calls, one a lane, of the function whose name is `prefix` and the C
/// library's name. False where there is no such function.
bool callLibrary(mlir::OpBuilder &b, mlir::Operation *op, llvm::StringRef prefix);
/// expandMath with another library than C's, and perhaps a processor's instructions.
void expandMath(mlir::Operation *root, llvm::StringRef libraryPrefix, const HardwareMath *hardware);

} // namespace trainc::codegen

#endif // TRAINC_CODEGEN_MATHEXPANSION_H
