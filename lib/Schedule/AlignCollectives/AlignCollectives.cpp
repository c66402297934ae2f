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

/// Those of weights: what else is gathered stands behind the sums, and has a number.
SmallVector<Operation *> gathersOf(func::FuncOp function) {
  SmallVector<Operation *> gathers = callsOf(function);
  llvm::erase_if(gathers, [](Operation *op) { return isSum(op) || op->hasAttr(kBucketAttr); });
  return gathers;
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

/// By sum (null: the function has none such) how many gathers of weights a function has in front of
/// where it is there.
SmallVector<unsigned> findPlaces(func::FuncOp function, ArrayRef<Operation *> sums) {
  const SmallVector<Operation *> gathers = gathersOf(function);
  return llvm::map_to_vector(sums, [&](Operation *sum) -> unsigned {
    Operation *behind = sum ? lastMaker(sum) : nullptr;
    return llvm::count_if(gathers, [&](Operation *gather) {
      return behind && (gather == behind || gather->isBeforeInBlock(behind));
    });
  });
}

/// Moves these sums, in this order, to where their operands are there and as many gathers as
/// `places` says are in front of them. None is moved back: its readers stay behind it.
void advance(func::FuncOp function, ArrayRef<Operation *> sums, ArrayRef<unsigned> places) {
  const SmallVector<Operation *> gathers = gathersOf(function);
  Operation *behind = nullptr;
  for (auto [op, place] : llvm::zip_equal(sums, places)) {
    if (!op)
      continue;
    for (Operation *other : {lastMaker(op), place ? gathers[place - 1] : nullptr})
      if (other && (!behind || behind->isBeforeInBlock(other)))
        behind = other;
    if (behind && behind->isBeforeInBlock(op))
      op->moveAfter(behind);
    behind = op;
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

/// The argument that stands for the same of the run as that one of another function, which is made
/// where there is none.
Value argumentLike(func::FuncOp function, func::FuncOp other, unsigned number) {
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

/// A gather of another function, made at the builder's place for the other ranks alone.
Operation *gatherForOthers(OpBuilder &builder, func::FuncOp function, func::FuncOp other,
                           Operation *call) {
  SmallVector<Value> shards;
  for (Value operand : call->getOperands())
    shards.push_back(argumentLike(function, other, sourceOf(operand).getArgNumber()));
  Operation *copy = builder.clone(*call);
  copy->setOperands(shards);
  copy->setAttr(kForOthersAttr, builder.getUnitAttr());
  return copy;
}

/// Gives functions that ranks may run at once the same gathers of weights: `recompute` gathers
/// again what it computes again, which need not be the same in a variant.
class Gathers {
public:
  /// Takes what a function gathers into the order of all: the shortest one that has the orders of
  /// both in it.
  void add(func::FuncOp function) {
    SmallVector<Gather> own;
    for (Operation *op : gathersOf(function))
      own.push_back({function, op});
    const size_t n = all.size(), m = own.size();
    // Lengths of the common orders of the ends from i and from j on.
    std::vector<std::vector<size_t>> common(n + 1, std::vector<size_t>(m + 1));
    for (size_t i = n; i-- > 0;)
      for (size_t j = m; j-- > 0;)
        common[i][j] = isSame(all[i], own[j]) ? common[i + 1][j + 1] + 1
                                              : std::max(common[i + 1][j], common[i][j + 1]);
    SmallVector<Gather> both;
    for (size_t i = 0, j = 0; i < n || j < m;) {
      if (i < n && j < m && isSame(all[i], own[j])) {
        both.push_back(all[i++]);
        ++j;
      } else if (j == m || (i < n && common[i + 1][j] >= common[i][j + 1])) {
        both.push_back(all[i++]);
      } else {
        both.push_back(own[j++]);
      }
    }
    all = std::move(both);
  }

  /// Makes what `function` lacks of them for the others, right behind what comes before it.
  void complete(func::FuncOp function) const {
    const SmallVector<Operation *> own = gathersOf(function);
    OpBuilder builder = OpBuilder::atBlockBegin(&function.getBody().front());
    size_t next = 0;
    for (const Gather &gather : all) {
      if (next < own.size() && isSame(gather, {function, own[next]}))
        builder.setInsertionPointAfter(own[next++]);
      else
        gatherForOthers(builder, function, gather.function, gather.op);
    }
    assert(next == own.size() && "the order of all has each function's in it");
  }

private:
  struct Gather {
    func::FuncOp function;
    Operation *op;
  };

  static bool isSame(Gather a, Gather b) {
    auto isOfSame = [&](Value x, Value y) {
      const unsigned i = sourceOf(x).getArgNumber(), j = sourceOf(y).getArgNumber();
      return getArgRole(a.function, i) == getArgRole(b.function, j) &&
             getArgName(a.function, i) == getArgName(b.function, j);
    };
    return a.op->getName() == b.op->getName() && a.op->getResultTypes() == b.op->getResultTypes() &&
           a.op->getNumOperands() == b.op->getNumOperands() &&
           llvm::all_of_zip(a.op->getOperands(), b.op->getOperands(), isOfSame);
  }

  SmallVector<Gather> all;
};

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
    OpBuilder builder = OpBuilder::atBlockBegin(&function.getBody().front());
    place(gatherForOthers(builder, function, other, call));
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
    SmallVector<func::FuncOp> alike{function}, absent;
    for (auto other : getOperation().getOps<func::FuncOp>())
      if (other != function && other->getAttr(kInStepAttr) == function->getAttr(kInStepAttr))
        (other->hasAttr(kVariantOfAttr) ? alike : absent).push_back(other);
    Gathers gathers;
    for (func::FuncOp one : alike)
      gathers.add(one);
    for (func::FuncOp one : alike)
      gathers.complete(one);

    SmallVector<Operation *> sums = sumsOf(function);
    const DenseMap<Operation *, unsigned> ready = findReady(function);
    llvm::stable_sort(sums, [&](Operation *a, Operation *b) { return ready.at(a) < ready.at(b); });
    advanceAll(alike, sums);
    for (func::FuncOp one : absent)
      Absent(one).follow(function);
  }

  /// Among the gathers, which are the same in all of them, where the last of them has the
  /// gradients.
  static void advanceAll(ArrayRef<func::FuncOp> functions, ArrayRef<Operation *> order) {
    SmallVector<SmallVector<Operation *>> sums;
    SmallVector<unsigned> places(order.size(), 0);
    for (func::FuncOp function : functions) {
      const DenseMap<Attribute, Operation *> own = byNumber(function);
      sums.emplace_back();
      for (Operation *op : order)
        sums.back().push_back(function == functions.front() ? op
                                                            : own.lookup(op->getAttr(kBucketAttr)));
      for (auto [place, of] : llvm::zip_equal(places, findPlaces(function, sums.back())))
        place = std::max(place, of);
    }
    for (auto [function, own] : llvm::zip_equal(functions, sums))
      advance(function, own, places);
  }
};
} // namespace
