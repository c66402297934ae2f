// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `align-collectives`: the order of calls in the program is that in which ranks make them.

#include "lib/Schedule/AlignCollectives/AlignCollectives.h"

#include "dialects/Train/Collectives/Collectives.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "trainc/Analysis/Roles.h"
#include "trainc/Analysis/StridedViews.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace trainc {
#define GEN_PASS_DEF_ALIGNCOLLECTIVESPASS
#include "lib/Schedule/AlignCollectives/AlignCollectives.h.inc"
} // namespace trainc

namespace {
bool isSum(Operation *op) { return isa<AllReduceOp, ReduceScatterOp>(op); }

SmallVector<Operation *> callsOf(func::FuncOp function) {
  SmallVector<Operation *> calls;
  for (Operation &op : function.getBody().front())
    if (op.hasTrait<CollectiveCall>())
      calls.push_back(&op);
  return calls;
}

SmallVector<Operation *> sumsOf(func::FuncOp function) {
  SmallVector<Operation *> sums = callsOf(function);
  llvm::erase_if(sums, [](Operation *op) { return !isSum(op); });
  return sums;
}

/// The op behind which all operands are there; null: none is made.
Operation *lastMaker(Operation *op) {
  Operation *last = nullptr;
  for (Value operand : op->getOperands())
    if (Operation *def = operand.getDefiningOp(); def && (!last || last->isBeforeInBlock(def)))
      last = def;
  return last;
}

/// By op of a function, the number of the one behind which its results could be there: what is made
/// elementwise, such as the sum with an accumulator, may be wherever it is fused to.
DenseMap<Operation *, unsigned> findReady(func::FuncOp function) {
  DenseMap<Operation *, unsigned> ready;
  for (auto [number, op] : llvm::enumerate(function.getBody().front())) {
    unsigned &own = ready.try_emplace(&op, number + 1).first->second;
    const FusionRole role = getFusionRole(&op);
    if (role != FusionRole::Pointwise && role != FusionRole::Access && role != FusionRole::View &&
        !op.hasTrait<CollectiveCall>())
      continue;
    unsigned last = 0;
    for (Value operand : op.getOperands())
      if (Operation *def = operand.getDefiningOp())
        last = std::max(last, ready.lookup(def));
    own = last;
  }
  return ready;
}

/// Moves these sums, in this order, to where their operands are there. None is moved back: its
/// readers stay behind it.
void advance(ArrayRef<Operation *> sums) {
  Operation *before = nullptr;
  for (Operation *op : sums) {
    Operation *behind = lastMaker(op);
    if (!behind || (before && behind->isBeforeInBlock(before)))
      behind = before;
    if (behind && behind->isBeforeInBlock(op))
      op->moveAfter(behind);
    before = op;
  }
}

/// What of the run a gather is of: an argument of its function, through barriers.
BlockArgument sourceOf(Value value) {
  while (Operation *def = value.getDefiningOp())
    value = def->getOperand(0);
  return cast<BlockArgument>(value);
}

/// By their numbers the calls that other functions have as well; others are of the gradients.
DenseMap<Attribute, Operation *> byNumber(func::FuncOp function) {
  DenseMap<Attribute, Operation *> calls;
  for (Operation *op : callsOf(function))
    if (Attribute number = op->getAttr(kBucketAttr))
      calls[number] = op;
  return calls;
}

/// Builds the calls of a function without gradients in the order of those of one that has them.
class Absent {
public:
  explicit Absent(func::FuncOp function) : function(function), calls(byNumber(function)) {}

  void follow(func::FuncOp other) {
    for (Operation *call : callsOf(other))
      if (Attribute number = call->getAttr(kBucketAttr); !number)
        gather(other, call);
      else if (Operation *own = calls.lookup(number))
        place(own);
  }

private:
  /// Puts the op behind what has been placed, and what it reads in front of it.
  void place(Operation *op) {
    if (!placed.insert(op).second)
      return;
    for (Value operand : op->getOperands())
      if (Operation *def = operand.getDefiningOp())
        place(def);
    if (last)
      op->moveAfter(last);
    else
      op->moveBefore(&function.getBody().front().front());
    last = op;
  }

  void gather(func::FuncOp other, Operation *call) {
    OpBuilder builder(function.getContext());
    builder.setInsertionPointToStart(&function.getBody().front());
    SmallVector<Value> shards;
    for (Value operand : call->getOperands())
      shards.push_back(argumentLike(other, sourceOf(operand).getArgNumber()));
    Operation *copy = builder.clone(*call);
    copy->setOperands(shards);
    copy->setAttr(kForOthersAttr, builder.getUnitAttr());
    place(copy);
  }

  Value argumentLike(func::FuncOp other, unsigned number) {
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (getArgRole(function, i) == getArgRole(other, number) &&
          getArgName(function, i) == getArgName(other, number))
        return function.getArgument(i);
    const unsigned end = function.getNumArguments();
    [[maybe_unused]] LogicalResult added =
        function.insertArgument(end, other.getArgument(number).getType(),
                                other.getArgAttrDict(number), other.getArgument(number).getLoc());
    assert(succeeded(added) && "any function takes a further argument");
    return function.getArgument(end);
  }

  func::FuncOp function;
  const DenseMap<Attribute, Operation *> calls;
  llvm::DenseSet<Operation *> placed;
  Operation *last = nullptr;
};

struct AlignCollectivesPass : trainc::impl::AlignCollectivesPassBase<AlignCollectivesPass> {
  using AlignCollectivesPassBase::AlignCollectivesPassBase;

  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (function->getAttr(kInStepAttr) == function.getNameAttr())
        align(function);
  }

private:
  /// What ranks may run while others run `function` makes the calls of that one.
  void align(func::FuncOp function) {
    SmallVector<Operation *> sums = sumsOf(function);
    const DenseMap<Operation *, unsigned> ready = findReady(function);
    llvm::stable_sort(sums, [&](Operation *a, Operation *b) { return ready.at(a) < ready.at(b); });
    advance(sums);
    for (auto other : getOperation().getOps<func::FuncOp>()) {
      if (other == function || other->getAttr(kInStepAttr) != function->getAttr(kInStepAttr))
        continue;
      if (other->hasAttr(kVariantOfAttr))
        advanceLike(other, sums);
      else
        Absent(other).follow(function);
    }
  }

  static void advanceLike(func::FuncOp function, ArrayRef<Operation *> order) {
    const DenseMap<Attribute, Operation *> own = byNumber(function);
    SmallVector<Operation *> sums;
    for (Operation *op : order)
      if (Operation *same = own.lookup(op->getAttr(kBucketAttr)))
        sums.push_back(same);
    advance(sums);
  }
};
} // namespace
