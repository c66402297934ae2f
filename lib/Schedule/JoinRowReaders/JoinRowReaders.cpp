// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `join-row-readers`: which two kernels are one, by what the second reads of the first.

#include "lib/Schedule/JoinRowReaders/JoinRowReaders.h"

#include "lib/Schedule/JoinColumnSums/JoinedKernel.h"
#include "lib/Schedule/JoinColumnSums/Reductions.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Remarks.h"
#include "trainc/Analysis/StridedViews.h"
#include "trainc/Support/Location.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace trainc {
#define GEN_PASS_DEF_JOINROWREADERSPASS
#include "lib/Schedule/JoinRowReaders/JoinRowReaders.h.inc"
} // namespace trainc

/// Whether all results are element-wise, of one shape: sums of another kernel go with others of
/// their kind (`join-column-sums`).
static bool isElementWise(FusionOp fusion, ArrayRef<DimAttr> space) {
  return llvm::none_of(fusion.getBody().front().without_terminator(),
                       [](Operation &op) {
                         return isa<ReductionOpInterface>(op) ||
                                getFusionRole(&op) == FusionRole::Standalone;
                       }) &&
         llvm::all_of(fusion.getResultTypes(), [&](Type type) { return getDims(type) == space; });
}

/// Whether each axis but the last of a space of `rank` axes is the same of operand and result.
static bool keepsRow(Operation *op, unsigned operand, int64_t rank) {
  if (isa<PointwiseOpInterface>(op))
    return true;
  auto mapped = dyn_cast<AxisMapOpInterface>(op);
  if (!mapped || op->getNumResults() != 1 || getRank(op->getResult(0)) != rank)
    return false;
  const AxisMap map = mapped.getAxisMap();
  ArrayRef<int> from = map.operands[operand], to = map.results[0];
  if (int64_t(from.size()) + 1 < rank)
    return false;
  return llvm::all_of(llvm::seq(rank - 1), [&](int64_t axis) {
    return to[axis] >= 0 && from[axis] == to[axis] && map.loops[to[axis]] == LoopKind::Parallel;
  });
}

/// Whether an element that is made of `argument`, a number for each row, is made of that of its own
/// row. Forwards, through all that is made of it: a thread knows the sums of the row that it is at.
static bool readsOwnRow(BlockArgument argument, int64_t rank) {
  llvm::DenseSet<Value> made{argument};
  for (Operation &op : argument.getOwner()->without_terminator())
    for (OpOperand &operand : op.getOpOperands())
      if (made.contains(operand.get())) {
        if (!keepsRow(&op, operand.getOperandNumber(), rank))
          return false;
        made.insert(op.result_begin(), op.result_end());
      }
  return true;
}

namespace {
class JoinRowReadersPass : public trainc::impl::JoinRowReadersPassBase<JoinRowReadersPass> {
public:
  using Base::Base;

  void runOnOperation() override {
    block = &getOperation().getBody().front();
    SmallVector<FusionOp> readers(block->getOps<FusionOp>());
    // Joined kernels are not looked at again: they hold what they hold.
    for (FusionOp reader : readers)
      join(reader);
  }

private:
  void join(FusionOp reader) {
    // The first that it fits; a reader of two kernels' sums goes with one of them.
    for (Value input : reader.getInputs()) {
      auto maker = input.getDefiningOp<FusionOp>();
      const auto sums = maker ? findReductions(maker) : std::nullopt;
      if (!sums || !sums->areOfRows() || !isWorthJoining(maker, reader, sums->space))
        continue;
      if (!readsRowsOf(maker, reader, sums->space)) {
        remark::missed(reader.getLoc(), options("KeptApart"))
            << remark::add("{0} reads rows that another kernel has summed up", describeOp(reader))
            << remark::reason("it reads what the other one makes of other rows, too");
        continue;
      }
      if (!standsNear(maker, reader))
        continue;
      // Where the maker stands: its other readers may be in between.
      OpBuilder builder(maker);
      FusionOp joined = joinKernels(builder, maker, reader);
      remark::passed(joined.getLoc(), options("Joined"))
          << remark::add("{0} goes on with the rows that it sums up", describeOp(joined));
      return;
    }
  }

  /// Both read a tensor of the rows, which threads hold. Of a row that is too long for that, the
  /// second pass would read memory again, as the second kernel does.
  bool isWorthJoining(FusionOp maker, FusionOp reader, ArrayRef<DimAttr> rows) {
    const std::optional<int64_t> length = rows.back().getConstant();
    MLIRContext *context = maker.getContext();
    return length && *length <= maxLength && isElementWise(reader, rows) &&
           llvm::any_of(reader.getInputs(), [&](Value input) {
             return getNumElements(input.getType()) == product(context, rows) &&
                    llvm::is_contained(maker.getInputs(), input);
           });
  }

  /// What it reads of the maker are numbers for each row, of the row itself.
  static bool readsRowsOf(FusionOp maker, FusionOp reader, ArrayRef<DimAttr> rows) {
    return llvm::all_of(
        llvm::zip_equal(reader.getInputs(), reader.getBody().getArguments()), [&](auto pair) {
          auto [input, argument] = pair;
          return input.getDefiningOp() != maker || (ArrayRef(getDims(input)) == rows.drop_back() &&
                                                    readsOwnRow(argument, rows.size()));
        });
  }

  /// Whether the reader can run where the maker does: all that it reads is there, and no update in
  /// between is of what it reads.
  bool standsNear(FusionOp maker, FusionOp reader) {
    for (Value operand : reader->getOperands())
      if (Operation *def = operand.getDefiningOp();
          def && def != maker && !def->isBeforeInBlock(maker))
        return false;
    // A parameter's old value would have to be kept for a reader behind its update.
    unsigned between = 0;
    for (Operation *op = maker->getNextNode(); op != reader; op = op->getNextNode()) {
      assert(op && "what reads a value stands behind what makes it");
      const bool isUpdate = llvm::is_contained(op->getUsers(), block->getTerminator());
      if (++between > distance ||
          (isUpdate && llvm::any_of(reader->getOperands(), [&](Value operand) {
             return isa<BlockArgument>(operand) && llvm::is_contained(op->getOperands(), operand);
           })))
        return false;
    }
    return true;
  }

  remark::RemarkOpts options(StringRef name) {
    return remark::RemarkOpts::name(name)
        .category("join-row-readers")
        .function(getOperation().getName());
  }

  Block *block = nullptr;
};
} // namespace
