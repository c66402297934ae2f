// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A walk in program order. All questions about ops go through their interfaces.

#include "lib/Schedule/FormKernels/AssignGroups.h"

#include "dialects/Train/Collectives/Collectives.h"
#include "lib/Schedule/FormKernels/SmallCost.h"
#include "lib/Schedule/FormKernels/StoredValues.h"
#include "mlir/IR/Remarks.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace {

/// A kernel of column sums with this many ops takes no more unrelated ones.
constexpr size_t kMostColumnOps = 4;

/// Those of size 1 have no coordinate.
int64_t countAxes(Value value) {
  return llvm::count_if(getDims(value), [](DimAttr dim) { return !dim.isConstant(1); });
}

class Assignment {
public:
  Assignment(Block &block, KernelGroups &groups, unsigned recomputeCost, bool unrelatedSums)
      : block(block), groups(groups), recomputeCost(recomputeCost), unrelatedSums(unrelatedSums) {}

  void run() {
    // What is only told must be known before groups of scalars are formed.
    findTold();
    for (Operation &op : block.without_terminator())
      assign(&op);
    // Groups that are merged away are empty and answer with nothing.
    for (int g = 0, e = groups.size(); g < e; ++g)
      takeInReader(g);
  }

private:
  /// Scalars that nothing but scalars is made of.
  /// From the end: an op is told if all that read it are, or return it.
  void findTold() {
    for (Operation &op : llvm::reverse(block.without_terminator())) {
      auto isTold = [&](Operation *user) {
        return user == block.getTerminator() || told.contains(user);
      };
      if (op.getNumResults() == 1 && getRank(op.getResult(0)) == 0 &&
          llvm::all_of(op.getUsers(), isTold))
        told.insert(&op);
    }
  }

  void assign(Operation *op) {
    FusionRole role = getFusionRole(op);
    switch (role) {
    case FusionRole::Access:
      return assignAccess(op);
    case FusionRole::View:
      return assignView(op);
    case FusionRole::Pointwise:
    case FusionRole::Reduction:
      break;
    default:
      assignCall(op);
      return;
    }
    if (groups.isInline(op)) {
      // A constant that something else than a kernel reads is a kernel of its own.
      // Inside kernels a constant is a number; a library call or a view needs it in memory.
      if (llvm::any_of(op->getUsers(), [&](Operation *user) { return !readsElements(user); })) {
        groups.materialize(op);
        groups.add(op, /*closed=*/false);
      }
      return;
    }
    if (!joinScatter(op))
      joinBest(op);
  }

  /// Calls that all ranks make in one order: no kernel may be made that a call waits for and that
  /// waits for a later one.
  void assignCall(Operation *op) {
    const int g = groups.add(op, /*closed=*/true);
    if (!op->hasTrait<CollectiveCall>() || !block.getParentOp()->hasAttr(kInStepAttr))
      return;
    if (lastCall >= 0)
      groups.orderBehind(g, lastCall);
    lastCall = g;
  }

  /// What is computed of the sums of a scatter alone is part of its kernel; of those of two, of the
  /// later one's: the other's are complete then, and need not wait with all that they are made of.
  /// At most one scatter takes an op. The other sums are then read as any stored tensor.
  bool joinScatter(Operation *op) {
    int latest = -1;
    for (Value operand : op->getOperands()) {
      // A barrier above `op` must stand above all of the group as well.
      int g = groups.groupOf(operand);
      if (g < 0 || groups[g].members.back() != operand.getDefiningOp() ||
          !groups[g].endsInSumsFor(op) || !groups.hasRoom(g) ||
          groups[g].minPosition < groups.earliestOf(op) || !groups.operandsAllow(op, g))
        continue;
      if (latest < 0 || groups[g].maxPosition > groups[latest].maxPosition)
        latest = g;
    }
    if (latest >= 0)
      groups.join(op, latest);
    return latest >= 0;
  }

  /// The sums of a scatter that one pointwise kernel alone reads, as an update, are not stored.
  /// Both kernels become one; only where the reader's space is that of the sums, so that a thread
  /// has its sum at hand.
  void takeInReader(int g) {
    Value sums = groups[g].rowSums();
    if (!sums || sums.use_empty())
      return;
    const int other = groups.groupOf(*sums.user_begin());
    if (other < 0 ||
        llvm::any_of(sums.getUsers(), [&](Operation *op) { return groups.groupOf(op) != other; }))
      return;
    const Group &group = groups[g], &reader = groups[other];
    if (reader.closed || !reader.reduced.empty() || reader.space != getDims(sums) ||
        reader.joinsParts || reader.earliest > group.minPosition ||
        !groups.hasRoom(g, reader.members.size()))
      return;
    groups.merge(g, other);
  }

  /// Joins the kernel with the most in common, merges with others that fit, or begins a group.
  /// Greedy, in program order: what is joined stays.
  void joinBest(Operation *op) {
    Space space(op);
    const unsigned earliest = groups.earliestOf(op);
    llvm::SmallSetVector<int, 8> candidates;
    // Groups that make an operand, inline producers looked through.
    for (Value operand : op->getOperands())
      groups.forEachLeaf(operand, [&](Value leaf) {
        int g = groups.groupOf(leaf);
        if (g >= 0)
          candidates.insert(g);
        // A reduction also looks at those that read the same value.
        if (!space.reduced.empty())
          for (Operation *user : leaf.getUsers())
            if (int other = groups.groupOf(user); other >= 0 &&
                                                  groups.positionOf(user) < groups.positionOf(op) &&
                                                  groups[other].reduced == space.reduced)
              candidates.insert(other);
      });
    // Sums down the columns of tensors of one shape share a kernel, related or not: they may read
    // the same ones, and each of these kernels has two passes.
    if (unrelatedSums && space.isColumnSum())
      for (int g = groups.size() - 1; g >= 0; --g) {
        if (groups[g].members.empty() || groups[g].space != space.full ||
            groups[g].reduced != space.reduced)
          continue;
        if (groups.positionOf(op) - groups[g].maxPosition <= kNear &&
            groups[g].members.size() < kMostColumnOps)
          candidates.insert(g);
        // Only the nearest one is looked at: kernels far apart would keep their inputs alive for
        // each other.
        break;
      }
    // Scalars share kernels, related or not: a sum over many tensors would else be a long chain.
    // Those that are only told to the caller have one of their own: nothing waits for them.
    bool scalar = space.full.empty();
    int &scalarGroup = told.contains(op) ? toldGroup : waitedGroup;
    if (scalar) {
      candidates.remove_if([&](int g) {
        return !groups[g].space.empty() ||
               told.contains(groups[g].members.front()) != told.contains(op);
      });
      if (scalarGroup >= 0)
        candidates.insert(scalarGroup);
    }
    // The latest one first: it has most of the operands.
    // By position, so that the order does not depend on the set's.
    SmallVector<int> order(candidates.begin(), candidates.end());
    llvm::sort(order, [&](int a, int b) { return groups[a].maxPosition > groups[b].maxPosition; });
    int joined = -1;
    for (int g : order) {
      if (groups[g].members.empty() || !groups.hasRoom(g) || !space.fits(groups[g]) ||
          groups[g].minPosition < earliest)
        continue;
      if (!groups.operandsAllow(op, g)) {
        remark::missed(op->getLoc(), remark::RemarkOpts::name("KeptApart").category("form-kernels"))
            << remark::reason("the kernel would depend on itself through another one");
        continue;
      }
      if (!reducible(op, g))
        continue;
      groups.join(op, g);
      joined = g;
      break;
    }
    if (joined < 0)
      joined = groups.add(op, /*closed=*/false);
    if (scalar)
      scalarGroup = joined;
    // Groups that the op connects may now be one kernel.
    for (int g : order)
      if (g != joined && !groups[g].members.empty())
        groups.tryMerge(joined, g);
    if (!scalar && groups[joined].reduced.empty())
      mergeWithReaders(op);
  }

  /// Pointwise kernels that read the same tensor one soon after the other read it once.
  /// Not for reductions: they have passes of their own.
  void mergeWithReaders(Operation *op) {
    for (Value operand : op->getOperands()) {
      Operation *def = operand.getDefiningOp();
      if ((def && groups.isInline(def)) || getDims(operand) != getDims(op->getResult(0)))
        continue;
      // One reader for each value is remembered, the last one: nearer ones only come behind it.
      Operation *&reader = readBy[operand];
      if (reader && groups.positionOf(op) - groups.positionOf(reader) <= kNear &&
          groups.groupOf(reader) != groups.groupOf(op) &&
          groups[groups.groupOf(reader)].reduced.empty())
        groups.tryMerge(groups.groupOf(op), groups.groupOf(reader));
      reader = op;
    }
  }

  /// A group that becomes a reduction must not hold a value of its kept space already.
  /// Values of the kept space would be needed before the reduction has made them.
  bool reducible(Operation *op, int g) {
    const Group &group = groups[g];
    Space space(op);
    if (space.reduced.empty() || !group.reduced.empty())
      return true;
    return llvm::all_of(group.members, [&](Operation *member) {
      return getDims(member->getResult(0)) == group.space;
    });
  }

  /// A view of a value that its readers compute again is index arithmetic in them; others are free.
  void assignView(Operation *op) {
    // A constant is a view of nothing.
    if (op->getNumOperands() == 0) {
      groups.add(op, /*closed=*/true);
      return;
    }
    auto access = dyn_cast<ElementAccessOpInterface>(op);
    Operation *def = op->getOperand(0).getDefiningOp();
    if (isViewOfMoved(op) && groups.isInline(def))
      return groups.lookThrough(op);
    // Merged axes take divisions, which are worth it in place of a copy.
    bool inside = access && access.hasElements() && def && groups.groupOf(def) >= 0 &&
                  countAxes(op->getResult(0)) >= countAxes(op->getOperand(0)) &&
                  getFusionRole(def) == FusionRole::Pointwise && isReadInKernels(op);
    Recomputation again(op->getOperand(0));
    // Where many elements read one, it is computed for each.
    auto isRepeated = [](Operation *user) { return getFusionRole(user) == FusionRole::Access; };
    // With more tensors every reader would read more than storing the value costs.
    const bool computedAgain =
        inside && isRecomputable(groups, def, recomputeCost, /*stored=*/{}, again) &&
        again.tensors.size() <= 2 &&
        (again.cost <= kSmallCost || llvm::none_of(op->getUsers(), isRepeated));
    // Through a view the wide numbers would be stored.
    if (computedAgain || (inside && widensFloat(def)))
      groups.lookThrough(op);
    else
      groups.add(op, /*closed=*/true);
  }

  /// One of three: written in place by what makes its operands, read in place through strides, or
  /// computed (inside its readers, by the kernel that makes its operands, or by one of its own).
  void assignAccess(Operation *op) {
    auto view = dyn_cast<StridedViewOpInterface>(op);
    if (isAbsorbedByProducer(op) || isJoinedInPlace(op)) {
      groups.materialize(op);
      groups.add(op, /*closed=*/true);
      return;
    }
    // All readers are kernels: it is index arithmetic in each, no group.
    if (!hasReaderOutside(op))
      return;
    // What is read of a constant is computed, not the whole constant stored for it.
    if (view && groups.isInMemory(op->getOperand(0))) {
      std::optional<StridedLayout> layout = getLayout(
          op->getResult(0), [&](Operation *above) { return groups.isMaterialized(above); });
      auto ignore = [&](Operation *user) {
        return readsElements(user) && !isa<StridedViewOpInterface>(user);
      };
      if (layout && acceptsStrides(op->getResult(0), *layout, ignore)) {
        groups.keepAsView(op);
        groups.add(op, /*closed=*/true);
        return;
      }
    }
    // Of views in a row that nobody can read in place the last one is a kernel, the others inside.
    if (view && op->hasOneUse()) {
      Operation *user = *op->user_begin();
      if (getFusionRole(user) == FusionRole::Access && isa<StridedViewOpInterface>(user))
        return;
    }
    if (joinParts(op))
      return;
    groups.materialize(op);
    groups.add(op, /*closed=*/false);
  }

  /// What joins values that one pointwise kernel makes is part of that: they would else be stored
  /// only to be copied, or made again with all that they are made of.
  bool joinParts(Operation *op) {
    if (!isJoinOfComputedParts(op))
      return false;
    const int g = groups.groupOf(op->getOperand(0));
    // A join far below would be stored, and kept, from the time of its parts on.
    if (g < 0 || groups[g].closed || !groups[g].reduced.empty() ||
        groups[g].space != getDims(op->getOperand(0)) || !groups.hasRoom(g) ||
        groups[g].minPosition < groups.earliestOf(op) ||
        groups.positionOf(op) > groups[g].maxPosition + kNear ||
        llvm::any_of(op->getOperands(), [&](Value part) { return groups.groupOf(part) != g; }))
      return false;
    groups.joinParts(op, g);
    return true;
  }

  Block &block;
  KernelGroups &groups;
  const unsigned recomputeCost;
  const bool unrelatedSums;
  llvm::DenseSet<Operation *> told;
  /// The group that the last scalar of either kind went to.
  int toldGroup = -1, waitedGroup = -1;
  /// That of the last call of all ranks.
  int lastCall = -1;
  /// The last pointwise op that reads a value of its own shape.
  DenseMap<Value, Operation *> readBy;
};
} // namespace

void trainc::assignGroups(Block &block, KernelGroups &groups, unsigned recomputeCost,
                          bool unrelatedSums) {
  Assignment(block, groups, recomputeCost, unrelatedSums).run();
}
