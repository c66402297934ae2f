// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The grouped form of a kernel: the same body, with the arguments and the number of the block out
// of tables.

#include "GroupedKernel.h"
#include "GpuEmitter.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "trainc/Report/Reports.h"

using namespace mlir;

namespace trainc::codegen {

std::string groupedName(StringRef kernel) { return (kernel + "_group").str(); }

/// Arguments of the grouped form: a table of (member, block) for each block of the launch, a table
/// of every member's arguments, and the error slot that all share.
void addGroupedKernel(LLVM::LLVMFuncOp kernel) {
  OpBuilder b(kernel->getContext());
  b.setInsertionPointAfter(kernel);
  auto function = cast<LLVM::LLVMFuncOp>(b.clone(*kernel));
  function.setSymName(groupedName(kernel.getSymName()));
  function.removeArgAttrsAttr();
  Location loc = function.getLoc();
  Block &entry = function.getBody().front();
  unsigned count = entry.getNumArguments();
  auto pointer = LLVM::LLVMPointerType::get(b.getContext(), kGlobalSpace);
  Value blocks = entry.addArgument(pointer, loc), table = entry.addArgument(pointer, loc),
        error = entry.addArgument(pointer, loc);

  SmallVector<NVVM::BlockIdXOp> blockNumbers;
  // Taken down first: the new block number is read by the same op.
  function.walk([&](NVVM::BlockIdXOp op) { blockNumbers.push_back(op); });
  b.setInsertionPointToStart(&entry);
  Type i32 = b.getI32Type(), i64 = b.getI64Type();
  Value number = LLVM::ZExtOp::create(b, loc, i64, NVVM::BlockIdXOp::create(b, loc, i32));
  auto pair = VectorType::get(2, i32);
  Value slot = LLVM::GEPOp::create(b, loc, pointer, pair, blocks, ValueRange{number});
  Value place = LLVM::LoadOp::create(b, loc, pair, slot, 8);
  auto part = [&](int64_t index) {
    return LLVM::ExtractElementOp::create(b, loc, place,
                                          LLVM::ConstantOp::create(b, loc, i32, index));
  };
  Value member = LLVM::ZExtOp::create(b, loc, i64, part(0)), block = part(1);
  // A row of the table has all arguments of a member but the error slot.
  Value width = LLVM::ConstantOp::create(b, loc, i64, int64_t(count - 1));
  Value first = LLVM::MulOp::create(b, loc, member, width);
  Value row = LLVM::GEPOp::create(b, loc, pointer, i64, table, ValueRange{first});
  for (unsigned i = 0; i + 1 < count; ++i) {
    Value address =
        LLVM::GEPOp::create(b, loc, pointer, i64, row, ArrayRef<LLVM::GEPArg>{int32_t(i)});
    BlockArgument argument = entry.getArgument(i);
    argument.replaceAllUsesWith(LLVM::LoadOp::create(b, loc, argument.getType(), address, 8));
  }
  entry.getArgument(count - 1).replaceAllUsesWith(error);
  // Which member has met a number that is not finite is one bit each; those beyond 63 share bit 0.
  SmallVector<LLVM::StoreOp> reports;
  function.walk([&](LLVM::StoreOp op) {
    if (op->hasAttr(train::kReportsAttr))
      reports.push_back(op);
  });
  for (LLVM::StoreOp op : reports) {
    b.setInsertionPoint(op);
    auto constant = [&](int64_t value) -> Value {
      return LLVM::ConstantOp::create(b, loc, i64, value);
    };
    // Where it is needed, so that it takes no register on the way there.
    Value own = LLVM::ZExtOp::create(
        b, loc, i64, LLVM::LoadOp::create(b, loc, i32, slot, 8, /*isVolatile=*/true));
    Value bit = LLVM::ShlOp::create(b, loc, constant(2), own);
    Value named = LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::ult, own, constant(63));
    Value mask = LLVM::SelectOp::create(b, loc, named, bit, constant(1));
    LLVM::AtomicRMWOp::create(b, loc, LLVM::AtomicBinOp::_or, op.getAddr(), mask,
                              LLVM::AtomicOrdering::monotonic);
    op.erase();
  }
  // The block's number within its member.
  for (NVVM::BlockIdXOp op : blockNumbers) {
    op.replaceAllUsesWith(block);
    op.erase();
  }
  entry.eraseArguments(0, count);
  function.setFunctionType(LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()),
                                                       {pointer, pointer, pointer}));
}

} // namespace trainc::codegen
