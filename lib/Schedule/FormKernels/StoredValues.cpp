// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is computed again has no buffer; it costs reads of what it is made of, in every reader.

#include "lib/Schedule/FormKernels/StoredValues.h"

#include "lib/Schedule/FormKernels/SmallCost.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

/// Whether an inline producer reads where data says (an embedding): not cheap.
static bool readsByIndex(const KernelGroups &groups, Value value) {
  Operation *def = value.getDefiningOp();
  if (!def || !groups.isInline(def))
    return false;
  return isa<IndexOperandOpInterface>(def) || llvm::any_of(def->getOperands(), [&](Value operand) {
           return readsByIndex(groups, operand);
         });
}

/// Adds up cost, statistics and tensors in `again`, also when the answer is no: callers drop it
/// then.
bool trainc::isRecomputable(const KernelGroups &groups, Operation *op, unsigned limit,
                            const llvm::DenseSet<Operation *> &stored, Recomputation &again) {
  if (!again.ops.insert(op))
    return true;
  if (auto model = dyn_cast<CostOpInterface>(op))
    again.cost += model.getElementCost();
  if (again.cost > limit)
    return false;
  // Each op counts once, however often it is used.
  for (Value operand : op->getOperands()) {
    bool possible = !readsByIndex(groups, operand);
    groups.forEachLeaf(operand, [&](Value leaf) {
      Operation *def = leaf.getDefiningOp();
      int g = groups.groupOf(leaf);
      // Stored anyway: a leaf of the recomputation.
      if (!def || g < 0 || groups[g].closed || stored.contains(def)) {
        if (again.isLarge(leaf))
          again.tensors.insert(leaf);
        return;
      }
      // A statistic of a row is small: it is stored, and read again.
      if (!groups[g].reduced.empty() && getRank(leaf) > 0 && getRank(leaf) < again.rank &&
          getRank(leaf) == int64_t(groups[g].keptAxes().size())) {
        again.statistics.insert(def);
        return;
      }
      possible = possible && getFusionRole(def) == FusionRole::Pointwise &&
                 isRecomputable(groups, def, limit, stored, again);
    });
    if (!possible)
      return false;
  }
  return true;
}
namespace {
/// Where values are read for the last time.
class LastReaders {
public:
  explicit LastReaders(const KernelGroups &groups) : groups(groups) {}

  unsigned of(Value value) const { return std::max(groups.lastReader(value), later.lookup(value)); }
  /// What is computed again at `last` reads these tensors there.
  void extend(const Recomputation &again, unsigned last) {
    for (Value leaf : again.tensors) {
      unsigned &own = later[leaf];
      own = std::max(own, last);
    }
  }

private:
  const KernelGroups &groups;
  DenseMap<Value, unsigned> later;
};
} // namespace

/// Of an element as it is stored: a truth value is a byte.
static unsigned storedBits(Value value) {
  return std::max(8u, getElementType(value).getIntOrFloatBitWidth());
}

/// Whether the value is read for the last time soon after its kernel has run. A mask of the
/// backward is made by the forward's kernel where it was joined to that: it is kept for all that
/// lies in between, however near its readers stand.
static bool isReadSoon(const KernelGroups &groups, const LastReaders &lastReaders, Operation *op) {
  const unsigned position = groups.positionOf(op);
  return position <= groups.runPositionOf(op) + kNear &&
         lastReaders.of(op->getResult(0)) <= position + kNear;
}

/// Computing a value again that `readers` kernels need pays
/// - soon after it was made, where that moves fewer bytes than storing and reading it (clearly
///   fewer, unless next to nothing is computed);
/// - later, where it reads few tensors, and those that are kept longer for it than needed otherwise
///   take less memory than the value itself would, or are one of its size and all that it reads.
static bool pays(const KernelGroups &groups, const LastReaders &lastReaders, Operation *op,
                 const Recomputation &again, unsigned readers) {
  if (again.tensors.size() > 2)
    return false;
  Value result = op->getResult(0);
  const unsigned last = lastReaders.of(result), stored = storedBits(result);
  // Both ways are compared by bytes moved, which is what kernels of this kind take.
  if (isReadSoon(groups, lastReaders, op)) {
    unsigned read = 0;
    for (Value leaf : again.tensors)
      read += storedBits(leaf);
    // Read by every reader, against stored once and read by every reader; 4/3 where arithmetic is
    // more than a few sums.
    unsigned moved = read * readers, moves = stored * (1 + readers);
    return again.cost <= kSmallCost ? moved <= moves : 4 * moved <= 3 * moves;
  }
  unsigned kept = 0;
  for (Value leaf : again.tensors)
    if (leaf.getDefiningOp() && lastReaders.of(leaf) + kNear < last)
      kept += storedBits(leaf);
  // The last reader may write over the value, and over one tensor of its size as well; reading more
  // than that instead of the value gains nothing.
  return kept < stored || (kept == stored && again.tensors.size() == 1);
}
bool trainc::widensFloat(Operation *op) {
  if (!isa<CastOpInterface>(op))
    return false;
  auto from = dyn_cast<FloatType>(getElementType(op->getOperand(0)));
  auto to = dyn_cast<FloatType>(getElementType(op->getResult(0)));
  return from && to && from != to &&
         APFloat::isRepresentableBy(from.getFloatSemantics(), to.getFloatSemantics());
}
/// What a widened float is made of, a value of the same kernel that holds as much in less memory.
static Operation *narrowSource(const KernelGroups &groups, Operation *op) {
  Operation *source = widensFloat(op) ? op->getOperand(0).getDefiningOp() : nullptr;
  return source && groups.groupOf(source) == groups.groupOf(op) ? source : nullptr;
}
namespace {
/// What kernels read from memory, as far as is decided which values are there.
class KernelReads {
public:
  KernelReads(const KernelGroups &groups, const StoredValues &values)
      : groups(groups), values(values) {}

  bool contain(int g, Value value) { return of(g).contains(value); }
  /// What is stored, or not, has changed for a value that the kernel makes or reads.
  void forget(int g) { known.erase(g); }

private:
  /// From what the kernel stores: a member that only other kernels compute reads nothing in it.
  const DenseSet<Value> &of(int g) {
    auto [it, isNew] = known.try_emplace(g);
    if (!isNew)
      return it->second;
    DenseSet<Value> visited;
    SmallVector<Value> work;
    for (Operation *op : groups[g].members)
      if (groups[g].closed || values.stored.contains(op))
        llvm::append_range(work, op->getOperands());
    while (!work.empty())
      groups.forEachLeaf(work.pop_back_val(), [&](Value leaf) {
        Operation *def = leaf.getDefiningOp();
        if (!visited.insert(leaf).second)
          return;
        if (def && (groups.groupOf(def) == g || values.recomputed.contains(def)))
          llvm::append_range(work, def->getOperands());
        else
          it->second.insert(leaf);
      });
    return it->second;
  }

  const KernelGroups &groups;
  const StoredValues &values;
  DenseMap<int, DenseSet<Value>> known;
};

class Decision {
public:
  Decision(Block &block, const KernelGroups &groups, unsigned recomputeCost)
      : block(block), groups(groups), recomputeCost(recomputeCost), lastReaders(groups),
        reads(groups, values) {}

  /// In program order, so that what a value is made of has been decided before it. Then once more,
  /// as it is known by then what the readers read in any case.
  StoredValues run() {
    for (Operation &op : block.without_terminator())
      decide(&op);
    for (Operation &op : block.without_terminator())
      decideAgain(&op);
    return std::move(values);
  }

private:
  /// Who reads the op's results from elsewhere.
  struct Readers {
    llvm::SmallSetVector<int, 4> kernels;
    bool kernelsOnly = true;
  };
  Readers readersOf(Operation *op) const {
    Readers readers;
    for (Value result : op->getResults())
      groups.forEachOutsideReader(result, groups.groupOf(op), [&](int reader) {
        readers.kernels.insert(reader);
        readers.kernelsOnly = readers.kernelsOnly && reader >= 0;
      });
    return readers;
  }

  void decide(Operation *op) {
    const int own = groups.groupOf(op);
    if (own < 0 || groups[own].closed)
      return;
    const Readers readers = readersOf(op);
    if (readers.kernels.empty())
      return;
    Recomputation again(op->getResult(0));
    if (mayRecompute(op, readers, again) &&
        pays(groups, lastReaders, op, again, readers.kernels.size())) {
      recompute(op, again);
    } else if (Operation *source = narrowSource(groups, op); source && readers.kernelsOnly) {
      values.recomputed.insert(op);
      values.stored.insert(source);
      values.promoted.insert(source);
    } else
      // Statistics of others are stored as well, even where no other reader asks for them.
      values.stored.insert(op);
  }

  /// A stored value whose readers read most of what it is made of in any case is not stored. Not
  /// where values that are computed again are made of it: they cost what they have been found to.
  void decideAgain(Operation *op) {
    if (!values.stored.contains(op) || values.promoted.contains(op) ||
        llvm::any_of(op->getUsers(), [&](Operation *user) {
          return groups.isInline(user) || values.recomputed.contains(user);
        }))
      return;
    const Readers readers = readersOf(op);
    assert(!readers.kernels.empty() && "what nobody reads is not stored");
    Recomputation again(op->getResult(0));
    if (!mayRecompute(op, readers, again))
      return;
    // By every reader that has no other use for it.
    unsigned more = 0;
    for (int reader : readers.kernels)
      for (Value leaf : again.tensors)
        if (!reads.contain(reader, leaf))
          more += storedBits(leaf);
    // Bytes as `pays` compares them. What is read in any case is there in any case.
    const unsigned moves = storedBits(op->getResult(0)) * (1 + readers.kernels.size());
    if (more != 0 && (4 * more > 3 * moves || !isReadSoon(groups, lastReaders, op)))
      return;
    values.stored.erase(op);
    recompute(op, again);
    reads.forget(groups.groupOf(op));
    for (int reader : readers.kernels)
      reads.forget(reader);
  }

  bool mayRecompute(Operation *op, const Readers &readers, Recomputation &again) const {
    return readers.kernelsOnly && getFusionRole(op) == FusionRole::Pointwise &&
           getRank(op->getResult(0)) > 0 &&
           isRecomputable(groups, op, recomputeCost, values.stored, again);
  }
  void recompute(Operation *op, const Recomputation &again) {
    lastReaders.extend(again, lastReaders.of(op->getResult(0)));
    values.recomputed.insert(again.ops.begin(), again.ops.end());
    values.stored.insert(again.statistics.begin(), again.statistics.end());
    values.promoted.insert(again.statistics.begin(), again.statistics.end());
  }

  Block &block;
  const KernelGroups &groups;
  const unsigned recomputeCost;
  StoredValues values;
  LastReaders lastReaders;
  KernelReads reads;
};
} // namespace

StoredValues trainc::decideStored(Block &block, const KernelGroups &groups,
                                  unsigned recomputeCost) {
  return Decision(block, groups, recomputeCost).run();
}
