// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Meeting of the threads of a warp or block: barriers, exchange of values, reductions in a fixed
// tree whose result every thread gets.

#include "GpuEmitter.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace trainc::train;

namespace trainc::codegen {

/// All threads of the block must come here.
void GpuEmitter::syncBlock() { NVVM::Barrier0Op::create(b, location); }

void GpuEmitter::syncWarp() {
  Value all = arith::ConstantIntOp::create(b, location, -1, 32);
  NVVM::SyncWarpOp::create(b, location, all);
}

/// Butterfly exchange with the thread whose number differs by `mask`; 16 and 64 bits through 32-bit
/// words.
Value GpuEmitter::shuffle(Value value, int32_t mask) {
  Type type = value.getType(), i32 = b.getI32Type(), i64 = b.getI64Type();
  auto number = [&](int64_t n) -> Value {
    return arith::ConstantIntOp::create(b, location, n, 32);
  };
  auto exchange = [&](Value word) -> Value {
    return NVVM::ShflOp::create(b, location, word.getType(), number(-1), word, number(mask),
                                number(kWarp - 1), NVVM::ShflKind::bfly, UnitAttr());
  };
  unsigned width = type.getIntOrFloatBitWidth();
  if (width == 32)
    return exchange(value);
  Value bits = value;
  if (isa<FloatType>(type))
    bits = arith::BitcastOp::create(b, location, b.getIntegerType(width), value);
  if (width == 64) {
    Value low = arith::TruncIOp::create(b, location, i32, bits);
    Value half = arith::ConstantIntOp::create(b, location, 32, 64);
    Value high =
        arith::TruncIOp::create(b, location, i32, arith::ShRUIOp::create(b, location, bits, half));
    low = arith::ExtUIOp::create(b, location, i64, exchange(low));
    high = arith::ExtUIOp::create(b, location, i64, exchange(high));
    bits = arith::OrIOp::create(b, location, low, arith::ShLIOp::create(b, location, high, half));
  } else {
    bits = arith::TruncIOp::create(b, location, b.getIntegerType(width),
                                   exchange(arith::ExtUIOp::create(b, location, i32, bits)));
  }
  if (isa<FloatType>(type))
    bits = arith::BitcastOp::create(b, location, type, bits);
  return bits;
}

/// 32-bit values; the first thread keeps its own.
Value GpuEmitter::shuffleUp(Value value) {
  auto number = [&](int64_t n) -> Value {
    return arith::ConstantIntOp::create(b, location, n, 32);
  };
  return NVVM::ShflOp::create(b, location, value.getType(), number(-1), value, number(1), number(0),
                              NVVM::ShflKind::up, UnitAttr());
}

/// An instruction of all threads of a warp.
static Value callWarp(OpBuilder &b, Location loc, Type result, StringRef name, Value operand) {
  Value all = arith::ConstantIntOp::create(b, loc, -1, 32);
  return LLVM::CallIntrinsicOp::create(b, loc, result, b.getStringAttr(name),
                                       ValueRange{all, operand})
      .getResult(0);
}
Value GpuEmitter::allOfWarp(Value condition) {
  return callWarp(b, location, b.getI1Type(), "llvm.nvvm.vote.all.sync", condition);
}
Value GpuEmitter::matchWarp(Value key) {
  return callWarp(b, location, b.getI32Type(), "llvm.nvvm.match.any.sync.i32", key);
}

/// In a tree that every thread computes alike: all have the result, to the bit.
Value GpuEmitter::combineWarp(Operation *reduction, Value value, int64_t width) {
  assert(llvm::isPowerOf2_64(uint64_t(width)) && width <= kWarp && "threads of one warp, halved");
  for (int64_t mask = width / 2; mask >= 1; mask /= 2)
    value = combine(reduction, value, shuffle(value, mask));
  return value;
}

/// What follows from a reduction is the current work item's.
void GpuEmitter::repeatWork() {
  repeats = true;
  workDepth = scopes.size() - 1;
}

/// Of each reduction by itself; see below for the order.
Values GpuEmitter::combineBlock(ArrayRef<Operation *> reductions, ValueRange values) {
  return combineBlock(values, [&](ValueRange parts, int64_t width) {
    Values totals;
    for (auto [op, value] : llvm::zip_equal(reductions, parts))
      totals.push_back(combineWarp(op, value, width));
    return totals;
  });
}

/// Within warps, then over the warps' results, which each warp reads again from shared memory: no
/// second barrier is needed where arrays are not reused.
Values GpuEmitter::combineBlock(ValueRange values,
                                llvm::function_ref<Values(ValueRange, int64_t)> meet) {
  Values totals = meet(values, std::min(blockThreads, kWarp)), arrays;
  assert((blockThreads < kWarp || blockThreads % kWarp == 0) && "whole warps, or less than one");
  int64_t warps = blockThreads / kWarp;
  if (warps <= 1 || totals.empty())
    return totals;
  Value warp = constantIndex(kWarp);
  for (Value total : totals)
    arrays.push_back(shared(total.getType(), warps));
  // All warps have read what the work item before has left.
  if (repeats)
    syncBlock();
  openIf(lessIndex(remIndex(thread(), warp), constantIndex(1)));
  for (auto [array, total] : llvm::zip_equal(arrays, totals))
    storeTo(array, total.getType(), {divIndex(thread(), warp), 0, {}}, total);
  closeIf();
  syncBlock();
  ElementIndex slot{remIndex(thread(), constantIndex(warps)), 0, {}};
  for (auto [array, total] : llvm::zip_equal(arrays, totals))
    total = loadFrom(array, total.getType(), slot);
  return meet(totals, warps);
}

} // namespace trainc::codegen
