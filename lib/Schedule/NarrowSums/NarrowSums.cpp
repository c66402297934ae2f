// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `narrow-sums`: a call that all ranks make is changed in all functions that have it, or
// in none.

#include "lib/Schedule/NarrowSums/NarrowSums.h"

#include "dialects/Train/Collectives/Collectives.h"
#include "dialects/Train/RowMoves.h"
#include "dialects/Train/Splats.h"
#include "dialects/Train/TrainBuilder.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Remarks.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace trainc {
#define GEN_PASS_DEF_NARROWSUMSPASS
#include "lib/Schedule/NarrowSums/NarrowSums.h.inc"
} // namespace trainc

namespace {
/// Operands of a sum by the type that they may have; f32: they stay as they are.
using Parts = llvm::SmallMapVector<Type, SmallVector<unsigned>, 2>;

/// Of which 16-bit number a value is the same in f32; null: of none.
Value widenedFrom(Value value) {
  Operation *def = value.getDefiningOp();
  if (!isWidening(def))
    return {};
  Type from = getElementType(def->getOperand(0));
  return from.isBF16() || from.isF16() ? def->getOperand(0) : Value();
}

/// The type that this operand of all these calls may have.
Type typeOf(ArrayRef<Operation *> calls, unsigned operand) {
  Type wide = getElementType(calls.front()->getOperand(operand)), narrow;
  for (Operation *call : calls) {
    Value value = call->getOperand(operand);
    if (Value from = widenedFrom(value)) {
      if (narrow && narrow != getElementType(from))
        return wide;
      narrow = getElementType(from);
    } else if (getSplatValue(value) != 0.0) {
      return wide;
    }
  }
  // Zeros alone are as good as they are.
  return narrow ? narrow : wide;
}

struct NarrowSumsPass : trainc::impl::NarrowSumsPassBase<NarrowSumsPass> {
  using NarrowSumsPassBase::NarrowSumsPassBase;

  void runOnOperation() override {
    llvm::MapVector<Attribute, SmallVector<func::FuncOp>> groups;
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (Attribute with = function->getAttr(kInStepAttr))
        groups[with].push_back(function);
    for (auto &[with, functions] : groups)
      narrow(functions);
  }

private:
  static remark::RemarkOpts options(StringRef name) {
    return remark::RemarkOpts::name(name).category("narrow-sums");
  }

  void narrow(ArrayRef<func::FuncOp> functions) {
    llvm::MapVector<Attribute, SmallVector<Operation *>> sums;
    int64_t unused = 0; // the first number that no call has
    for (func::FuncOp function : functions)
      for (Operation &op : function.getBody().front()) {
        auto number = op.getAttrOfType<IntegerAttr>(kBucketAttr);
        if (!number)
          continue;
        unused = std::max(unused, number.getInt() + 1);
        if (op.hasTrait<SumOverRanks>() && getElementType(op.getOperand(0)).isF32())
          sums[number].push_back(&op);
      }
    for (auto &[number, calls] : sums)
      // What only some of them have `verify-schedule` refuses.
      if (calls.size() == functions.size() &&
          llvm::all_of(calls, [&, &all = calls](Operation *call) {
            return call->getOperandTypes() == all.front()->getOperandTypes();
          }))
        narrow(calls, unused);
  }

  /// One call in each function; `unused` is the first number that no call has.
  void narrow(ArrayRef<Operation *> calls, int64_t &unused) {
    Operation *first = calls.front();
    Parts parts;
    int64_t saved = 0;
    for (unsigned i = 0; i < first->getNumOperands(); ++i) {
      Type type = typeOf(calls, i);
      parts[type].push_back(i);
      if (!type.isF32())
        saved += getBytes(first->getOperand(i).getType()).getConstant().value_or(0) / 2;
    }
    if (saved == 0)
      return;
    if (parts.size() > 1 && saved < split) {
      remark::missed(first->getLoc(), options("KeptWide"))
          << remark::add("{0} bytes of 16-bit gradients travel in f32", saved)
          << remark::reason(
                 "they are exchanged with others, and are too few for a call of their own");
      return;
    }
    remark::passed(first->getLoc(), options("Narrowed")) << remark::add(
        "{0} bytes of gradients are exchanged in 16 bits, as they are, and added up in f32", saved);
    const int64_t next = unused;
    unused += int64_t(parts.size()) - 1;
    for (Operation *call : calls)
      replace(call, parts, next);
  }

  /// The first part has the number of the call, the others those from `next` on.
  static void replace(Operation *call, const Parts &parts, int64_t next) {
    OpBuilder builder(call);
    TrainBuilder tb(builder, call->getLoc());
    SmallVector<Operation *> unread;
    // The order of the parts is that of the first function's operands, the same in all of them.
    for (const auto &[part, entry] : llvm::enumerate(parts)) {
      const auto &[type, which] = entry;
      SmallVector<Value> operands;
      for (unsigned i : which) {
        Value value = call->getOperand(i);
        if (type.isF32()) {
          operands.push_back(value);
          continue;
        }
        unread.push_back(value.getDefiningOp());
        Value from = widenedFrom(value);
        operands.push_back(from ? from : tb.zeros(getTensorType(getDims(value), type)));
      }
      Operation *made = buildSumOfSome(builder, call, which, operands);
      if (part > 0)
        made->setAttr(kBucketAttr, builder.getI64IntegerAttr(next + int64_t(part) - 1));
      for (auto [i, result] : llvm::zip_equal(which, made->getResults()))
        call->getResult(i).replaceAllUsesWith(result);
    }
    call->erase();
    // One may have been several operands.
    for (Operation *op : llvm::SetVector<Operation *>(unread.begin(), unread.end()))
      if (isOpTriviallyDead(op))
        op->erase();
  }
};
} // namespace
