// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Instructions that LLVM has as NVVM intrinsics, or not at all, one lane at a time.

#include "HardwareMath.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include <cmath>

using namespace mlir;

namespace trainc::codegen {

/// `fn` of every lane of `x`, whose results have the type `element`.
/// PTX has these for scalars only.
static Value forEachLane(OpBuilder &b, Location loc, Value x, Type element,
                         llvm::function_ref<Value(Value)> fn) {
  auto vector = dyn_cast<VectorType>(x.getType());
  if (!vector)
    return fn(x);
  auto type = VectorType::get(vector.getShape(), element);
  Value result = arith::ConstantOp::create(b, loc, cast<TypedAttr>(b.getZeroAttr(type)));
  for (int64_t lane = 0; lane < vector.getNumElements(); ++lane) {
    Value one = fn(vector::ExtractOp::create(b, loc, x, ArrayRef<int64_t>{lane}));
    result = vector::InsertOp::create(b, loc, one, result, ArrayRef<int64_t>{lane});
  }
  return result;
}

static Value callIntrinsic(Formula &f, Value x, StringRef name) {
  Type f32 = f.b.getF32Type();
  return forEachLane(f.b, f.loc, x, f32, [&](Value lane) {
    return LLVM::CallIntrinsicOp::create(f.b, f.loc, f32, f.b.getStringAttr(name), ValueRange{lane})
        .getResult(0);
  });
}

Value GpuMath::exp2(Formula &f, Value x) const {
  return callIntrinsic(f, x, "llvm.nvvm.ex2.approx");
}
/// For results that are no denormals: faster by the scaling.
Value GpuMath::exp2Normal(Formula &f, Value x) const {
  return callIntrinsic(f, x, "llvm.nvvm.ex2.approx.ftz");
}
Value GpuMath::reciprocal(Formula &f, Value x) const {
  return callIntrinsic(f, x, "llvm.nvvm.rcp.approx.ftz.f");
}

/// x where `value` is x & 0xffffffff, or null.
static Value wordOf(Value value) {
  auto mask = value.getDefiningOp<arith::AndIOp>();
  APInt low;
  if (!mask || !matchPattern(mask.getRhs(), m_ConstantInt(&low)) || low != 0xffffffffu)
    return {};
  return mask.getLhs();
}

/// A product of two 32-bit words: one instruction, where LLVM would multiply 64 bits.
void useWideProducts(Operation *root) {
  root->walk([](arith::MulIOp op) {
    APInt factor;
    Value word = wordOf(op.getLhs());
    // The factor must fit as well.
    if (!word || !getElementTypeOrSelf(op.getType()).isInteger(64) ||
        !matchPattern(op.getRhs(), m_ConstantInt(&factor)) || factor.getActiveBits() > 32)
      return;
    OpBuilder b(op);
    Location loc = op.getLoc();
    Type i32 = b.getI32Type(), i64 = b.getI64Type();
    Value constant = arith::ConstantOp::create(b, loc, b.getIntegerAttr(i32, factor.trunc(32)));
    Value product = forEachLane(b, loc, word, i64, [&](Value lane) {
      Value low = arith::TruncIOp::create(b, loc, i32, lane);
      return LLVM::InlineAsmOp::create(
                 b, loc, i64, ValueRange{low, constant}, "mul.wide.u32 $0, $1, $2;", "=l,r,n",
                 /*has_side_effects=*/false, /*is_align_stack=*/false, LLVM::TailCallKind::None,
                 LLVM::AsmDialectAttr(), ArrayAttr())
          .getRes();
    });
    op.getResult().replaceAllUsesWith(product);
    op.erase();
  });
}

/// The number that all lanes of a constant are; null for anything else, and for powers of two, of
/// whose reciprocals LLVM makes products.
static FloatAttr constantDivisor(Value value) {
  DenseElementsAttr lanes;
  if (!matchPattern(value, m_Constant(&lanes)) || !lanes.isSplat())
    return {};
  auto divisor = dyn_cast<FloatAttr>(lanes.getSplatValue<Attribute>());
  return divisor && !divisor.getValue().getExactInverse(nullptr) ? divisor : FloatAttr();
}

/// Division by a value that many lanes or rounds share: multiplied by its reciprocal, then
/// corrected once, so that the quotient is rounded as by a division.
void useReciprocals(Operation *root) {
  struct Divisor {
    Value value, reciprocal, scale;
  };
  llvm::DenseMap<Value, Divisor> divisors;
  root->walk([&](arith::DivFOp op) {
    // One number for all lanes, or for all rounds of a loop.
    Operation *source = op.getRhs().getDefiningOp();
    auto broadcast = dyn_cast_or_null<vector::BroadcastOp>(source);
    auto loop = op->getParentOfType<scf::ForOp>();
    FloatAttr constant = constantDivisor(op.getRhs());
    const bool inLanes = broadcast || constant;
    bool uniform =
        constant    ? true
        : broadcast ? !isa<VectorType>(broadcast.getSourceType())
                    : source && loop && !isa<VectorType>(op.getType()) && !loop->isAncestor(source);
    if (!uniform || !getElementTypeOrSelf(op.getType()).isF32())
      return;
    Divisor &divisor = divisors[op.getRhs()];
    if (!divisor.value) {
      // Into a range where neither it nor its reciprocal comes near the limits.
      OpBuilder b(source->getContext());
      b.setInsertionPointAfter(source);
      Formula f(b, op.getLoc(), b.getF32Type());
      Value y = constant    ? arith::ConstantOp::create(b, op.getLoc(), constant).getResult()
                : broadcast ? broadcast.getSource()
                            : op.getRhs();
      Value magnitude = f.abs(y);
      Value small = f.less(magnitude, f.f32(0x1p-64)), large = f.less(f.f32(0x1p64), magnitude);
      Value scale = f.select(large, f.f32(0x1p-64), f.select(small, f.f32(0x1p64), f.f32(1.0)));
      y = f.mul(y, scale);
      Value reciprocal = f.div(f.f32(1.0), y);
      // By infinity nothing remains: 0 is the quotient.
      Value finite = f.less(magnitude, f.f32(INFINITY));
      auto lanes = [&](Value x) -> Value {
        if (!inLanes)
          return x;
        return vector::BroadcastOp::create(b, op.getLoc(), op.getType(), x);
      };
      divisor = {lanes(f.neg(f.select(finite, y, f.f32(0.0)))), lanes(reciprocal), lanes(scale)};
    }
    // Two steps: the remainder of the first quotient is exact by fma.
    OpBuilder b(op);
    Formula f(b, op.getLoc(), op.getType());
    Value x = op.getLhs(), quotient = f.mul(x, divisor.reciprocal);
    Value rest = f.fma(quotient, divisor.value, x);
    Value better = f.fma(rest, divisor.reciprocal, quotient);
    // An overflow or a NaN stays what it is.
    Value finite = f.less(f.abs(quotient), f.f32(INFINITY));
    op.getResult().replaceAllUsesWith(f.mul(f.select(finite, better, quotient), divisor.scale));
    op.erase();
  });
}

} // namespace trainc::codegen
