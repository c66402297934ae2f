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

/// Builds the calls of @absent in the order of those of @micro.
class Absent {
public:
  explicit Absent(func::FuncOp function) : function(function) {
    for (Operation *op : sumsOf(function))
      sums[op->getAttr(kBucketAttr)] = op;
  }

  void follow(func::FuncOp micro) {
    for (Operation *call : callsOf(micro))
      if (!isSum(call))
        gather(micro, call);
      else if (Operation *own = sums.lookup(call->getAttr(kBucketAttr)))
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

  void gather(func::FuncOp micro, Operation *call) {
    OpBuilder builder(function.getContext());
    builder.setInsertionPointToStart(&function.getBody().front());
    SmallVector<Value> shards;
    for (Value operand : call->getOperands())
      shards.push_back(argumentLike(micro, sourceOf(operand).getArgNumber()));
    Operation *copy = builder.clone(*call);
    copy->setOperands(shards);
    copy->setAttr(kForOthersAttr, builder.getUnitAttr());
    place(copy);
  }

  Value argumentLike(func::FuncOp micro, unsigned number) {
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (getArgRole(function, i) == getArgRole(micro, number) &&
          getArgName(function, i) == getArgName(micro, number))
        return function.getArgument(i);
    const unsigned end = function.getNumArguments();
    [[maybe_unused]] LogicalResult added =
        function.insertArgument(end, micro.getArgument(number).getType(),
                                micro.getArgAttrDict(number), micro.getArgument(number).getLoc());
    assert(succeeded(added) && "any function takes a further argument");
    return function.getArgument(end);
  }

  func::FuncOp function;
  DenseMap<Attribute, Operation *> sums;
  llvm::DenseSet<Operation *> placed;
  Operation *last = nullptr;
};

struct AlignCollectivesPass : trainc::impl::AlignCollectivesPassBase<AlignCollectivesPass> {
  using AlignCollectivesPassBase::AlignCollectivesPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto micro = module.lookupSymbol<func::FuncOp>("micro");
    if (!micro || !micro->hasAttr(kInStepAttr))
      return;
    SmallVector<Operation *> sums = sumsOf(micro);
    const DenseMap<Operation *, unsigned> ready = findReady(micro);
    llvm::stable_sort(sums, [&](Operation *a, Operation *b) { return ready.at(a) < ready.at(b); });
    advance(sums);
    for (auto function : module.getOps<func::FuncOp>()) {
      auto base = function->getAttrOfType<StringAttr>(kVariantOfAttr);
      if (base && base.getValue() == "micro")
        advanceLike(function, sums);
    }
    if (auto absent = module.lookupSymbol<func::FuncOp>("absent"))
      Absent(absent).follow(micro);
  }

private:
  static void advanceLike(func::FuncOp function, ArrayRef<Operation *> order) {
    DenseMap<Attribute, Operation *> own;
    for (Operation *op : sumsOf(function))
      own[op->getAttr(kBucketAttr)] = op;
    SmallVector<Operation *> sums;
    for (Operation *op : order)
      if (Operation *same = own.lookup(op->getAttr(kBucketAttr)))
        sums.push_back(same);
    advance(sums);
  }
};
} // namespace
