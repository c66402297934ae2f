// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `join-column-sums`: which two kernels, and where their one stands.

#include "lib/Schedule/JoinColumnSums/JoinColumnSums.h"

#include "lib/Schedule/JoinColumnSums/JoinedKernel.h"
#include "lib/Schedule/JoinColumnSums/Reductions.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Remarks.h"
#include "trainc/Support/Location.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace trainc {
#define GEN_PASS_DEF_JOINCOLUMNSUMSPASS
#include "lib/Schedule/JoinColumnSums/JoinColumnSums.h.inc"
} // namespace trainc

namespace {

/// The axis that stays where all others are summed over, if it is the last that is longer than 1.
std::optional<int64_t> columnAxis(const Reductions &sums) {
  int64_t last = int64_t(sums.space.size()) - 1;
  while (last > 0 && sums.space[last].isConstant(1))
    --last;
  if (sums.axes.size() + 1 != sums.space.size() || llvm::is_contained(sums.axes, last))
    return std::nullopt;
  return last;
}

/// What is made of a kernel's sums; none where a sum is made of another one's, or a result of the
/// space is.
std::optional<llvm::DenseSet<Value>> findMadeOfSums(FusionOp fusion) {
  llvm::DenseSet<Value> made;
  for (Operation &op : fusion.getBody().front().without_terminator()) {
    bool after = llvm::any_of(op.getOperands(), [&](Value value) { return made.contains(value); });
    bool sums = isa<ReductionOpInterface>(op);
    if (sums && after)
      return std::nullopt;
    if (sums || after)
      made.insert(op.result_begin(), op.result_end());
  }
  // They are vectors of columns, which the second stage has at hand.
  for (auto [result, value] : llvm::zip_equal(
           fusion.getResults(), fusion.getBody().front().getTerminator()->getOperands()))
    if (made.contains(value)) {
      if (getRank(value) != 1)
        return std::nullopt;
      made.insert(result);
    }
  return made;
}

/// Inputs that results are made of: bodies have what nobody reads.
llvm::SmallSetVector<Value, 8> findReadInputs(FusionOp fusion) {
  Block &body = fusion.getBody().front();
  llvm::DenseSet<Value> needed(body.getTerminator()->operand_begin(),
                               body.getTerminator()->operand_end());
  for (Operation &op : llvm::reverse(body.without_terminator()))
    if (llvm::any_of(op.getResults(), [&](Value value) { return needed.contains(value); }))
      needed.insert(op.operand_begin(), op.operand_end());
  llvm::SmallSetVector<Value, 8> inputs;
  for (auto [argument, input] : llvm::zip_equal(body.getArguments(), fusion.getInputs()))
    if (needed.contains(argument))
      inputs.insert(input);
  return inputs;
}

/// Finds pairs in one block and joins them.
class Joiner {
public:
  Joiner(Block &block, int64_t minRows, int64_t maxLength, unsigned maxSums)
      : block(block), minRows(minRows), maxLength(maxLength), maxSums(maxSums) {}

  void run() {
    SmallVector<FusionOp> columns;
    for (auto fusion : block.getOps<FusionOp>()) {
      auto found = findReductions(fusion);
      if (!found)
        continue;
      if (std::optional<int64_t> axis = columnAxis(*found)) {
        if (isWorthJoining(fusion, *found, *axis))
          columns.push_back(fusion);
      } else if (found->axes.size() == 1) {
        rows[fusion] = {std::move(*found), 0};
      }
    }
    // In the order of the program; what an earlier one has joined may take a later one, too, up to
    // the limit of sums.
    for (FusionOp fusion : columns)
      join(fusion);
  }

private:
  struct Rows {
    Reductions reductions;
    /// Down the columns, that it was joined with.
    unsigned sums;
  };

  /// One launch does few rows; threads hold the whole of one.
  bool isWorthJoining(FusionOp fusion, const Reductions &found, int64_t axis) {
    std::optional<int64_t> length = found.space[axis].getConstant();
    DimAttr count = DimAttr::constant(fusion.getContext(), 1);
    for (int64_t reduced : found.axes)
      count = count * found.space[reduced];
    return length && *length <= maxLength && count.getConstant().value_or(minRows) >= minRows &&
           found.count <= maxSums && findMadeOfSums(fusion);
  }

  /// Bytes of an element of what has as many elements as the space; 0 for all else.
  static int64_t widthOf(Value value, DimAttr elements) {
    return getNumElements(value.getType()) == elements
               ? std::max(8u, getElementType(value).getIntOrFloatBitWidth()) / 8
               : 0;
  }

  /// Bytes a position of what both read, or one makes and the other reads (stored and read), less
  /// those of what `fusion` alone reads; none where they have nothing in common.
  std::optional<int64_t> gainOf(FusionOp fusion, FusionOp other, DimAttr elements) {
    int64_t common = 0, alone = 0;
    const auto others = findReadInputs(other);
    for (Value input : findReadInputs(fusion)) {
      const bool made = input.getDefiningOp() == other;
      const int64_t width = widthOf(input, elements);
      (made || others.contains(input) ? common : alone) += made ? 2 * width : width;
    }
    for (Value result : fusion.getResults())
      if (others.contains(result))
        common += 2 * widthOf(result, elements);
    return common == 0 ? std::nullopt : std::optional(common - alone);
  }

  void join(FusionOp fusion) {
    // Asked anew: joining other kernels has changed none of this one's reductions.
    const Reductions sums = *findReductions(fusion);
    const int64_t axis = *columnAxis(sums);
    DimAttr elements = product(fusion.getContext(), sums.space);
    FusionOp best;
    int64_t most = -1;
    bool blocked = false;
    auto consider = [&](Operation *op) {
      auto found = rows.find(op);
      if (found == rows.end() || found->second.reductions.space != sums.space ||
          found->second.reductions.axes != ArrayRef<int64_t>(axis) ||
          found->second.sums + sums.count > maxSums)
        return;
      auto other = cast<FusionOp>(op);
      const int64_t gain = gainOf(fusion, other, elements).value_or(-1);
      // Of equally good ones the first.
      if (gain < 0 || gain < most || (gain == most && !other->isBeforeInBlock(best)))
        return;
      if (!placeFor(fusion, other)) {
        blocked = true;
        return;
      }
      best = other;
      most = gain;
    };
    for (Value value : llvm::concat<Value>(fusion.getInputs(), fusion.getResults()))
      if (widthOf(value, elements) != 0) {
        consider(value.getDefiningOp());
        for (Operation *user : value.getUsers())
          consider(user);
      }
    if (best)
      return merge(best, fusion, sums.count);
    if (blocked)
      remark::missed(fusion.getLoc(), options("KeptApart"))
          << remark::add("{0} reads rows for its sums alone", describeOp(fusion))
          << remark::reason("what the kernel that reads them too needs, or is needed for, stands "
                            "between the two");
  }

  void merge(FusionOp row, FusionOp column, unsigned count) {
    Rows info = rows.lookup(row);
    info.sums += count;
    assert(info.sums <= maxSums && "asked before");
    rows.erase(row);
    OpBuilder builder(placeFor(column, row));
    FusionOp joined = readsOf(row, column) ? joinKernels(builder, column, row)
                                           : joinKernels(builder, row, column);
    rows[joined] = std::move(info);
    remark::passed(joined.getLoc(), options("Joined"))
        << remark::add("{0} makes the sums down the columns of what it reads", describeOp(joined));
  }

  static bool readsOf(FusionOp reader, FusionOp maker) {
    return llvm::any_of(reader.getInputs(),
                        [&](Value input) { return input.getDefiningOp() == maker; });
  }

  /// The one in whose place both can stand; null: neither.
  Operation *placeFor(FusionOp column, FusionOp row) {
    // Rows do not wait for the sums.
    const auto made = *findMadeOfSums(column);
    if (llvm::any_of(row.getInputs(), [&](Value input) { return made.contains(input); }))
      return nullptr;
    // The later one goes up where all that it reads is there; else the earlier one down, where
    // nothing in between reads what it makes.
    Operation *first = column, *second = row;
    if (second->isBeforeInBlock(first))
      std::swap(first, second);
    bool early = llvm::all_of(second->getOperands(), [&](Value operand) {
      Operation *def = operand.getDefiningOp();
      return !def || def == first || def->isBeforeInBlock(first);
    });
    if (early && !passesUpdate(second, first, second))
      return first;
    bool late = llvm::all_of(first->getUsers(), [&](Operation *user) {
      return user == second || second->isBeforeInBlock(user);
    });
    return late && !passesUpdate(first, first, second) ? second : nullptr;
  }

  /// Whether something between the two reads a parameter or state that `moved` reads, too, where
  /// one of them may write it: the value of before would have to be kept for the other.
  bool passesUpdate(Operation *moved, Operation *first, Operation *second) {
    Operation *end = block.getTerminator();
    auto isReturned = [&](Operation *op) { return llvm::is_contained(op->getUsers(), end); };
    for (Value operand : moved->getOperands())
      if (isa<BlockArgument>(operand))
        for (Operation *user : operand.getUsers())
          if (user->getBlock() == &block && first->isBeforeInBlock(user) &&
              user->isBeforeInBlock(second) && (isReturned(user) || isReturned(moved)))
            return true;
    return false;
  }

  static remark::RemarkOpts options(StringRef name) {
    return remark::RemarkOpts::name(name).category("join-column-sums");
  }

  Block &block;
  const int64_t minRows, maxLength;
  const unsigned maxSums;
  llvm::DenseMap<Operation *, Rows> rows;
};

class JoinColumnSumsPass : public trainc::impl::JoinColumnSumsPassBase<JoinColumnSumsPass> {
public:
  using Base::Base;
  void runOnOperation() override {
    Joiner(getOperation().getBody().front(), minRows, maxLength, maxSums).run();
  }
};
} // namespace
