// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Forms kernels in three steps: a walk in program order assigns every op to a group, a second
// decides which values are stored and which are computed again, and the last emits the groups in
// topological order. All questions about ops go through their interfaces.

#include "lib/Schedule/FormKernels/FormKernels.h"
#include "lib/Analysis/StridedViews.h"
#include "lib/Schedule/FormKernels/Group.h"
#include "lib/Schedule/FormKernels/GroupGraph.h"
#include "lib/Schedule/FormKernels/Order.h"
#include "lib/Transforms/Support/HoistReshape.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"
#include <queue>

namespace trainc {
#define GEN_PASS_DEF_FORMKERNELSPASS
#include "lib/Schedule/FormKernels/FormKernels.h.inc"
} // namespace trainc

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace {

/// Ops that are no farther apart belong to the same few kernels.
constexpr unsigned kNear = 48;
/// A kernel of column sums with this many ops takes no more unrelated ones.
constexpr size_t kMostColumnOps = 4;
/// Element cost of a few sums and products: next to nothing.
constexpr unsigned kSmallCost = 8;

class Former {
public:
  Former(func::FuncOp function, unsigned maxOps, unsigned recomputeCost, bool scheduleUpdates)
      : function(function), block(function.getBody().front()), maxOps(maxOps),
        recomputeCost(recomputeCost), scheduleUpdates(scheduleUpdates) {}

  void run() {
    for (auto [next, op] : llvm::enumerate(block))
      position[&op] = next;
    for (Operation &op : block.without_terminator())
      assign(&op);
    for (int g = 0, e = groups.size(); g < e; ++g)
      takeInReader(g);
    decideStored();
    emit();
  }

private:
  /// Computed inside every reader: index arithmetic and constants.
  bool isInline(Operation *op) {
    if (materialized.contains(op))
      return false;
    FusionRole role = getFusionRole(op);
    if (role == FusionRole::View)
      return lookedThrough.contains(op);
    return role == FusionRole::Access ||
           (role == FusionRole::Pointwise && op->getNumOperands() == 0);
  }
  int groupOfValue(Value value) {
    Operation *def = value.getDefiningOp();
    auto it = def ? groupOf.find(def) : groupOf.end();
    return it == groupOf.end() ? -1 : it->second;
  }
  /// The values that are read when `value` is, inline producers looked through.
  void forEachLeaf(Value value, llvm::function_ref<void(Value)> fn) {
    Operation *def = value.getDefiningOp();
    if (!def || !isInline(def))
      return fn(value);
    for (Value operand : def->getOperands())
      forEachLeaf(operand, fn);
  }
  SmallVector<Operation *> sourcesOf(Operation *op) {
    SmallVector<Operation *> sources;
    for (Value operand : op->getOperands())
      forEachLeaf(operand, [&](Value leaf) {
        if (Operation *def = leaf.getDefiningOp())
          sources.push_back(def);
      });
    return sources;
  }

  /// Whether every operand of `op` can be had if `op` were part of group `g`.
  bool operandsAllow(Operation *op, int g) {
    const Group &group = groups[g];
    for (Value operand : op->getOperands()) {
      Operation *def = operand.getDefiningOp();
      if (!def || groupOfValue(operand) == g)
        continue;
      bool allowed = true;
      forEachLeaf(operand, [&](Value leaf) {
        int other = groupOfValue(leaf);
        if (other < 0)
          return;
        if (other == g) {
          allowed = allowed && isInline(def) && group.repeatsKeptValue(def, leaf);
          return;
        }
        allowed = allowed && !graph.dependsOn(other, g);
      });
      if (!allowed)
        return false;
    }
    return true;
  }

  /// The position before which `op` may not be computed: that of the last barrier above it.
  unsigned earliestOf(Operation *op) {
    unsigned earliest = 0;
    for (Operation *source : sourcesOf(op)) {
      auto fusion = dyn_cast<FusionOpInterface>(source);
      if (fusion && fusion.separatesKernels())
        earliest = std::max(earliest, position[source]);
      else if (auto it = groupOf.find(source); it != groupOf.end())
        earliest = std::max(earliest, groups[it->second].earliest);
    }
    return earliest;
  }

  void addSources(Operation *op) {
    int g = groupOf[op];
    for (Operation *source : sourcesOf(op))
      if (auto it = groupOf.find(source); it != groupOf.end() && it->second != g)
        graph.addSource(g, it->second);
  }
  int newGroup(Operation *op, bool closed) {
    Group group;
    group.members.push_back(op);
    group.closed = closed;
    group.minPosition = group.maxPosition = position[op];
    group.earliest = earliestOf(op);
    if (!closed) {
      Space space(op);
      group.space = space.full;
      group.reduced = space.reduced;
    }
    groups.push_back(std::move(group));
    groupOf[op] = graph.add();
    addSources(op);
    return groupOf[op];
  }
  void join(Operation *op, int g) {
    Group &group = groups[g];
    group.members.push_back(op);
    group.maxPosition = std::max(group.maxPosition, position[op]);
    group.earliest = std::max(group.earliest, earliestOf(op));
    Space space(op);
    if (!space.reduced.empty())
      group.reduced = space.reduced;
    groupOf[op] = g;
    addSources(op);
  }

  /// Merges group `other` into `g` where the spaces agree and nothing in between depends on either.
  void tryMerge(int g, int other) {
    Group &a = groups[g], &b = groups[other];
    if (a.closed || b.closed || a.members.size() + b.members.size() > maxOps ||
        a.minPosition < b.earliest || b.minPosition < a.earliest)
      return;
    bool same =
        a.space == b.space && (a.reduced.empty() || b.reduced.empty() || a.reduced == b.reduced);
    if (!same)
      return;
    SmallVector<int64_t> reduced = a.reduced.empty() ? b.reduced : a.reduced;
    for (auto [x, y] : {std::pair(g, other), std::pair(other, g)})
      for (Operation *op : groups[x].members)
        for (Value operand : op->getOperands()) {
          bool blocked = false;
          Operation *def = operand.getDefiningOp();
          forEachLeaf(operand, [&](Value leaf) {
            int via = groupOfValue(leaf);
            if (via < 0 || via == x)
              return;
            if (via == y) {
              Group merged;
              merged.space = a.space;
              merged.reduced = reduced;
              blocked = blocked || !(leaf == operand || merged.repeatsKeptValue(def, leaf));
              return;
            }
            blocked = blocked || graph.dependsOn(via, y);
          });
          if (blocked)
            return;
        }
    merge(g, other);
    llvm::sort(a.members, [&](Operation *x, Operation *y) { return position[x] < position[y]; });
    a.reduced = reduced;
  }
  /// Puts the ops of group `other` behind those of `g`.
  void merge(int g, int other) {
    Group &a = groups[g], &b = groups[other];
    for (Operation *op : b.members)
      groupOf[op] = g;
    graph.merge(g, other);
    a.members.append(std::exchange(b.members, {}));
    a.minPosition = std::min(a.minPosition, b.minPosition);
    a.earliest = std::max(a.earliest, b.earliest);
    a.maxPosition = std::max(a.maxPosition, b.maxPosition);
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
      newGroup(op, /*closed=*/true);
      return;
    }
    if (isInline(op)) {
      // A constant that something else than a kernel reads is a kernel of its own.
      if (llvm::any_of(op->getUsers(), [&](Operation *user) { return !readsElements(user); })) {
        materialized.insert(op);
        newGroup(op, /*closed=*/false);
      }
      return;
    }
    if (!joinScatter(op))
      joinBest(op);
  }

  /// What is computed of the sums of a scatter alone is part of its kernel; of those of two, of the
  /// later one's: the other's are complete then, and need not wait with all that they are made of.
  bool joinScatter(Operation *op) {
    int latest = -1;
    for (Value operand : op->getOperands()) {
      int g = groupOfValue(operand);
      if (g < 0 || groups[g].members.back() != operand.getDefiningOp() ||
          !groups[g].endsInSumsFor(op) || groups[g].members.size() >= maxOps ||
          groups[g].minPosition < earliestOf(op) || !operandsAllow(op, g))
        continue;
      if (latest < 0 || groups[g].maxPosition > groups[latest].maxPosition)
        latest = g;
    }
    if (latest >= 0)
      join(op, latest);
    return latest >= 0;
  }

  /// The sums of a scatter that one pointwise kernel alone reads, as an update, are not stored.
  void takeInReader(int g) {
    Value sums = groups[g].rowSums();
    auto readerOf = [&](Operation *op) { return groupOf.contains(op) ? groupOf[op] : -1; };
    if (!sums || sums.use_empty())
      return;
    const int other = readerOf(*sums.user_begin());
    if (other < 0 ||
        llvm::any_of(sums.getUsers(), [&](Operation *op) { return readerOf(op) != other; }))
      return;
    const Group &group = groups[g], &reader = groups[other];
    if (reader.closed || !reader.reduced.empty() || reader.space != getDims(sums) ||
        reader.earliest > group.minPosition ||
        group.members.size() + reader.members.size() > maxOps)
      return;
    merge(g, other);
  }

  void joinBest(Operation *op) {
    Space space(op);
    const unsigned earliest = earliestOf(op);
    llvm::SmallSetVector<int, 8> candidates;
    for (Value operand : op->getOperands())
      forEachLeaf(operand, [&](Value leaf) {
        int g = groupOfValue(leaf);
        if (g >= 0)
          candidates.insert(g);
        // A reduction also looks at those that read the same value.
        if (!space.reduced.empty())
          for (Operation *user : leaf.getUsers())
            if (auto it = groupOf.find(user); it != groupOf.end() && position[user] < position[op])
              if (groups[it->second].reduced == space.reduced)
                candidates.insert(it->second);
      });
    // Sums down the columns of tensors of one shape share a kernel, related or not: they may read
    // the same ones, and each of these kernels has two passes.
    if (space.isColumnSum())
      for (int g = groups.size() - 1; g >= 0; --g) {
        if (groups[g].members.empty() || groups[g].space != space.full ||
            groups[g].reduced != space.reduced)
          continue;
        if (position[op] - groups[g].maxPosition <= kNear &&
            groups[g].members.size() < kMostColumnOps)
          candidates.insert(g);
        break;
      }
    // Scalars share kernels, related or not: a sum over many tensors would else be a long chain.
    bool scalar = space.full.empty();
    if (scalar) {
      candidates.remove_if([&](int g) { return !groups[g].space.empty(); });
      if (scalarGroup >= 0)
        candidates.insert(scalarGroup);
    }
    // The latest one first: it has most of the operands.
    SmallVector<int> order(candidates.begin(), candidates.end());
    llvm::sort(order, [&](int a, int b) { return groups[a].maxPosition > groups[b].maxPosition; });
    int joined = -1;
    for (int g : order) {
      if (groups[g].members.empty() || groups[g].members.size() >= maxOps ||
          !space.fits(groups[g]) || groups[g].minPosition < earliest)
        continue;
      if (!operandsAllow(op, g)) {
        remark::missed(op->getLoc(), remark::RemarkOpts::name("KeptApart").category("form-kernels"))
            << remark::reason("the kernel would depend on itself through another one");
        continue;
      }
      if (!reducible(op, g))
        continue;
      join(op, g);
      joined = g;
      break;
    }
    if (joined < 0)
      joined = newGroup(op, /*closed=*/false);
    if (scalar)
      scalarGroup = joined;
    for (int g : order)
      if (g != joined && !groups[g].members.empty())
        tryMerge(joined, g);
    if (!scalar && groups[joined].reduced.empty())
      mergeWithReaders(op);
  }

  /// Pointwise kernels that read the same tensor one soon after the other read it once.
  void mergeWithReaders(Operation *op) {
    for (Value operand : op->getOperands()) {
      Operation *def = operand.getDefiningOp();
      if ((def && isInline(def)) || getDims(operand) != getDims(op->getResult(0)))
        continue;
      Operation *&reader = readBy[operand];
      if (reader && position[op] - position[reader] <= kNear && groupOf[reader] != groupOf[op] &&
          groups[groupOf[reader]].reduced.empty())
        tryMerge(groupOf[op], groupOf[reader]);
      reader = op;
    }
  }

  /// A group that becomes a reduction must not hold a value of its kept space already.
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
      newGroup(op, /*closed=*/true);
      return;
    }
    auto access = dyn_cast<ElementAccessOpInterface>(op);
    Operation *def = op->getOperand(0).getDefiningOp();
    bool inside = access && access.hasElements() && def && groupOf.contains(def) &&
                  getFusionRole(def) == FusionRole::Pointwise && isReadInKernels(op);
    Recomputation again(op->getOperand(0));
    // Where many elements read one, it is computed for each.
    auto isRepeated = [](Operation *user) { return getFusionRole(user) == FusionRole::Access; };
    if (inside && recomputable(def, again) && again.tensors.size() <= 2 &&
        (again.cost <= kSmallCost || llvm::none_of(op->getUsers(), isRepeated)))
      lookedThrough.insert(op);
    else
      newGroup(op, /*closed=*/true);
  }

  void assignAccess(Operation *op) {
    auto view = dyn_cast<StridedViewOpInterface>(op);
    if (isAbsorbedByProducer(op)) {
      materialized.insert(op);
      newGroup(op, /*closed=*/true);
      return;
    }
    auto outside = [&](Operation *user) {
      return !readsElements(user) || (isa<StridedViewOpInterface>(user) && hasReaderOutside(user));
    };
    if (llvm::none_of(op->getUsers(), outside))
      return;
    if (view) {
      std::optional<StridedLayout> layout = getLayout(
          op->getResult(0), [&](Operation *above) { return materialized.contains(above); });
      auto ignore = [&](Operation *user) {
        return readsElements(user) && !isa<StridedViewOpInterface>(user);
      };
      if (layout && acceptsStrides(op->getResult(0), *layout, ignore)) {
        views.insert(op);
        newGroup(op, /*closed=*/true);
        return;
      }
    }
    // Of views in a row that nobody can read in place the last one is a kernel, the others inside.
    if (view && op->hasOneUse()) {
      Operation *user = *op->user_begin();
      if (getFusionRole(user) == FusionRole::Access && isa<StridedViewOpInterface>(user))
        return;
    }
    materialized.insert(op);
    newGroup(op, /*closed=*/false);
  }

  //===--------------------------------------------------------------------===//
  // What is stored
  //===--------------------------------------------------------------------===//

  /// Groups (-1: no kernel) that read `value` from elsewhere, inline readers looked through.
  void forEachOutsideReader(Value value, int own, llvm::function_ref<void(int)> fn) {
    for (Operation *user : value.getUsers()) {
      auto it = groupOf.find(user);
      bool isView = views.contains(user);
      if (it != groupOf.end() && !isView) {
        if (it->second != own)
          fn(groups[it->second].isKernel() ? it->second : -1);
        continue;
      }
      if (isView)
        fn(-1);
      if (!isInline(user) || user->hasTrait<OpTrait::IsTerminator>()) {
        if (!isView)
          fn(-1);
        continue;
      }
      for (Value result : user->getResults())
        forEachOutsideReader(result, own, fn);
    }
  }

  void decideStored() {
    for (Operation &op : block.without_terminator()) {
      auto it = groupOf.find(&op);
      if (it == groupOf.end() || groups[it->second].closed)
        continue;
      bool kernelsOnly = true;
      llvm::SmallSetVector<int, 4> readers;
      for (Value result : op.getResults())
        forEachOutsideReader(result, it->second, [&](int reader) {
          readers.insert(reader);
          kernelsOnly = kernelsOnly && reader >= 0;
        });
      if (readers.empty())
        continue;
      Recomputation again(op.getResult(0));
      if (kernelsOnly && getFusionRole(&op) == FusionRole::Pointwise &&
          getRank(op.getResult(0)) > 0 && recomputable(&op, again) &&
          pays(&op, again, readers.size())) {
        recomputed.insert(again.ops.begin(), again.ops.end());
        stored.insert(again.statistics.begin(), again.statistics.end());
        promoted.insert(again.statistics.begin(), again.statistics.end());
      } else
        stored.insert(&op);
    }
  }

  /// Whether `op` can be computed in another kernel, cheaply and from values that are stored
  /// anyway.
  bool recomputable(Operation *op, Recomputation &again) {
    if (!again.ops.insert(op))
      return true;
    if (auto model = dyn_cast<CostOpInterface>(op))
      again.cost += model.getElementCost();
    if (again.cost > recomputeCost)
      return false;
    for (Value operand : op->getOperands()) {
      bool possible = !readsByIndex(operand);
      forEachLeaf(operand, [&](Value leaf) {
        Operation *def = leaf.getDefiningOp();
        int g = groupOfValue(leaf);
        if (!def || g < 0 || groups[g].closed || stored.contains(def)) {
          if (again.isLarge(leaf))
            again.tensors.insert(leaf);
          return;
        }
        if (!groups[g].reduced.empty() && getRank(leaf) > 0 && getRank(leaf) < again.rank &&
            getRank(leaf) == int64_t(groups[g].keptAxes().size())) {
          again.statistics.insert(def);
          return;
        }
        possible =
            possible && getFusionRole(def) == FusionRole::Pointwise && recomputable(def, again);
      });
      if (!possible)
        return false;
    }
    return true;
  }
  /// Whether an inline producer reads where data says (an embedding): not cheap.
  bool readsByIndex(Value value) {
    Operation *def = value.getDefiningOp();
    if (!def || !isInline(def))
      return false;
    return isa<IndexOperandOpInterface>(def) ||
           llvm::any_of(def->getOperands(), [&](Value operand) { return readsByIndex(operand); });
  }

  /// Computing a value again that `readers` kernels need pays
  /// - soon after it was made, where that moves fewer bytes than storing and reading it (clearly
  ///   fewer, unless next to nothing is computed);
  /// - later, where it reads few tensors and keeps at most one of them longer than needed
  ///   otherwise: then it takes no more memory than the value itself would.
  bool pays(Operation *op, const Recomputation &again, unsigned readers) {
    if (again.tensors.size() > 2)
      return false;
    Value result = op->getResult(0);
    unsigned last = lastReader(result);
    if (last <= position[op] + kNear) {
      auto bits = [](Value value) { return getElementType(value).getIntOrFloatBitWidth(); };
      unsigned read = 0;
      for (Value leaf : again.tensors)
        read += bits(leaf);
      unsigned moved = read * readers, stored = bits(result) * (1 + readers);
      return again.cost <= kSmallCost ? moved <= stored : 4 * moved <= 3 * stored;
    }
    return llvm::count_if(again.tensors, [&](Value leaf) {
             return leaf.getDefiningOp() && lastReader(leaf) + kNear < last;
           }) <= 1;
  }
  unsigned lastReader(Value value) {
    unsigned last = 0;
    for (Operation *user : value.getUsers()) {
      last = std::max(last, position[user]);
      if (isInline(user))
        for (Value result : user->getResults())
          last = std::max(last, lastReader(result));
    }
    return last;
  }

  //===--------------------------------------------------------------------===//
  // Emission
  //===--------------------------------------------------------------------===//

  /// What a group reads for its op.
  void forEachRead(Operation *op, int g, llvm::function_ref<void(Value)> fn) {
    if (!groups[g].isKernel())
      llvm::for_each(op->getOperands(), fn);
    else
      forEachInput(op, g, fn);
  }
  /// Those that a kernel reads from outside, recomputed ones looked through.
  void forEachInput(Operation *op, int own, llvm::function_ref<void(Value)> fn) {
    for (Value operand : op->getOperands())
      forEachLeaf(operand, [&](Value leaf) {
        Operation *def = leaf.getDefiningOp();
        if (def && groupOfValue(leaf) == own)
          return;
        if (def && recomputed.contains(def))
          return forEachInput(def, own, fn);
        fn(leaf);
      });
  }

  void emit() {
    // Kahn's algorithm; among the ready groups the one that is due first.
    SmallVector<llvm::SmallSetVector<int, 8>> readers(groups.size());
    SmallVector<unsigned> missing(groups.size(), 0);
    std::vector<GroupRead> reads;
    for (auto [g, group] : llvm::enumerate(groups)) {
      llvm::SmallSetVector<int, 8> sources;
      for (Operation *op : group.members)
        forEachRead(op, g, [&](Value leaf) {
          int source = groupOfValue(leaf);
          if (source < 0 || source == int(g))
            return;
          sources.insert(source);
          // Scalars are made when they are needed, wherever they stand.
          reads.push_back({source, int(g), getRank(leaf) ? position[leaf.getDefiningOp()] : 0});
        });
      missing[g] = sources.size();
      for (int source : sources)
        readers[source].insert(g);
    }
    for (const Group &group : groups)
      priority.push_back(group.duePosition(position));
    advanceSources(reads, priority);
    orderUpdates(readers, missing);
    auto later = [&](int a, int b) { return priority[a] > priority[b]; };
    std::priority_queue<int, std::vector<int>, decltype(later)> ready(later);
    for (auto [g, group] : llvm::enumerate(groups))
      if (!group.members.empty() && missing[g] == 0)
        ready.push(g);
    OpBuilder builder(block.getTerminator());
    while (!ready.empty()) {
      int g = ready.top();
      ready.pop();
      emitGroup(builder, g);
      for (int reader : readers[g])
        if (--missing[reader] == 0)
          ready.push(reader);
    }
    Operation *terminator = block.getTerminator();
    for (OpOperand &operand : terminator->getOpOperands())
      operand.set(replacement.lookupOrDefault(operand.get()));
    // Everything that was not moved behind is now dead.
    SmallVector<Operation *> dead;
    for (Operation &op : block.without_terminator())
      if (!emitted.contains(&op))
        dead.push_back(&op);
    for (Operation *op : llvm::reverse(dead)) {
      op->dropAllUses();
      op->erase();
    }
  }

  /// The groups that read each value.
  using ReaderMap = DenseMap<Value, SmallVector<int>>;
  ReaderMap collectReaders() {
    ReaderMap map;
    for (auto [g, group] : llvm::enumerate(groups)) {
      // Where all is computed in other kernels there is none.
      if (llvm::all_of(group.members, [&](Operation *op) { return recomputed.contains(op); }))
        continue;
      for (Operation *op : group.members)
        forEachRead(op, g, [&](Value leaf) {
          SmallVector<int> &list = map[leaf];
          if (list.empty() || list.back() != int(g))
            list.push_back(g);
        });
    }
    return map;
  }
  /// Groups that read `value`, views of it looked through.
  void forEachReadingGroup(const ReaderMap &map, Value value, llvm::function_ref<void(int)> fn) {
    auto it = map.find(value);
    if (it == map.end())
      return;
    for (int g : it->second) {
      fn(g);
      Operation *op = groups[g].members.front();
      if (groups[g].closed && isa<StridedViewOpInterface>(op))
        forEachReadingGroup(map, op->getResult(0), fn);
    }
  }

  /// Whether `g` is emitted before `other`, by what has been found so far.
  bool precedes(ArrayRef<llvm::SmallSetVector<int, 8>> readers, int g, int other,
                llvm::DenseSet<int> &visited) {
    return llvm::any_of(readers[g], [&](int reader) {
      return reader == other ||
             (visited.insert(reader).second && precedes(readers, reader, other, visited));
    });
  }

  /// An update runs once nobody needs the old value any more, so that it happens in place, and then
  /// at once, so that the gradient is freed; or after all else, where that is asked for.
  void orderUpdates(SmallVector<llvm::SmallSetVector<int, 8>> &readers,
                    SmallVector<unsigned> &missing) {
    DenseMap<std::pair<StringRef, StringRef>, Value> arguments;
    auto text = [](Attribute attr) {
      return attr ? cast<StringAttr>(attr).getValue() : StringRef();
    };
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      arguments[{text(function.getArgAttr(i, kRoleAttr)),
                 text(function.getArgAttr(i, kNameAttr))}] = function.getArgument(i);
    Operation *terminator = block.getTerminator();
    ReaderMap map = collectReaders();
    for (auto [index, value] : llvm::enumerate(terminator->getOperands())) {
      if (text(function.getResultAttr(index, kRoleAttr)) != "update")
        continue;
      Value target = arguments.lookup({text(function.getResultAttr(index, kUpdatesAttr)),
                                       text(function.getResultAttr(index, kNameAttr))});
      int updater = groupOfValue(getReshaped(value) ? getReshaped(value) : value);
      if (!target || updater < 0)
        continue;
      forEachReadingGroup(map, target, [&](int reader) {
        llvm::DenseSet<int> visited;
        if (reader == updater || precedes(readers, updater, reader, visited))
          return;
        if (readers[reader].insert(updater))
          ++missing[updater];
      });
      bool onlyUpdates = llvm::all_of(groups[updater].members, [&](Operation *op) {
        return llvm::all_of(op->getUsers(), [&](Operation *user) {
          auto it = groupOf.find(user == value.getDefiningOp() ? op : user);
          return user == terminator || (it != groupOf.end() && it->second == updater);
        });
      });
      if (onlyUpdates)
        priority[updater] = scheduleUpdates ? 0 : std::numeric_limits<unsigned>::max();
    }
  }

  void emitGroup(OpBuilder &builder, int g) {
    Group &group = groups[g];
    Operation *first = group.members.front();
    if (!group.isKernel()) {
      IRMapping mapping;
      for (Value operand : first->getOperands())
        mapping.map(operand, replacement.lookupOrDefault(operand));
      Operation *moved = builder.clone(*first, mapping);
      emitted.insert(moved);
      for (auto [from, to] : llvm::zip(first->getResults(), moved->getResults()))
        replacement.map(from, to);
      return;
    }
    auto body = std::make_unique<Block>();
    OpBuilder inner(builder.getContext());
    inner.setInsertionPointToEnd(body.get());
    IRMapping mapping;
    SmallVector<Value> inputs;
    std::function<void(Value)> need = [&](Value value) {
      if (mapping.contains(value))
        return;
      Operation *def = value.getDefiningOp();
      bool clone = def && (isInline(def) || (recomputed.contains(def) && groupOfValue(value) != g));
      if (!clone) {
        inputs.push_back(replacement.lookupOrDefault(value));
        mapping.map(value, body->addArgument(value.getType(), value.getLoc()));
        return;
      }
      for (Value operand : def->getOperands())
        need(operand);
      inner.clone(*def, mapping);
    };
    SmallVector<Value> results, yielded;
    SmallVector<Location> locations;
    for (Operation *op : group.members) {
      for (Value operand : op->getOperands())
        need(operand);
      inner.clone(*op, mapping);
      locations.push_back(op->getLoc());
      bool isStored = group.closed || stored.contains(op);
      for (Value result : op->getResults()) {
        bool read = promoted.contains(op);
        forEachOutsideReader(result, g, [&](int) { read = true; });
        if (isStored && read) {
          results.push_back(result);
          yielded.push_back(mapping.lookup(result));
        }
      }
    }
    if (results.empty())
      return;
    // A bad index is reported at the kernel's first node.
    body->walk(
        [&](IndexOperandOpInterface op) { locations.insert(locations.begin(), op.getLoc()); });
    YieldOp::create(inner, first->getLoc(), yielded);
    auto fusion = FusionOp::create(builder, builder.getFusedLoc(locations),
                                   ValueRange(results).getTypes(), inputs);
    fusion.getBody().push_back(body.release());
    emitted.insert(fusion);
    for (auto [from, to] : llvm::zip(results, fusion.getResults()))
      replacement.map(from, to);
  }

  func::FuncOp function;
  Block &block;
  unsigned maxOps, recomputeCost;
  bool scheduleUpdates;
  DenseMap<Operation *, unsigned> position;
  SmallVector<Group> groups;
  /// Of the groups, by their numbers.
  GroupGraph graph;
  DenseMap<Operation *, int> groupOf;
  /// The group that the last scalar went to.
  int scalarGroup = -1;
  /// The last pointwise op that reads a value of its own shape.
  DenseMap<Value, Operation *> readBy;
  /// Access ops with a buffer of their own; access ops that library calls read through strides.
  llvm::DenseSet<Operation *> materialized, views;
  /// Views that are index arithmetic inside their readers.
  llvm::DenseSet<Operation *> lookedThrough;
  llvm::DenseSet<Operation *> stored, recomputed, emitted;
  /// Stored for the sake of values that are computed again.
  llvm::DenseSet<Operation *> promoted;
  /// Smaller runs earlier among the groups that are ready.
  SmallVector<unsigned> priority;
  IRMapping replacement;
};

class FormKernelsPass : public trainc::impl::FormKernelsPassBase<FormKernelsPass> {
public:
  using Base::Base;
  void runOnOperation() override {
    for (Operation &op : getOperation().getBody().front().without_terminator()) {
      if (isa<train::FusionOp>(op) || getFusionRole(&op) != FusionRole::None)
        continue;
      op.emitError("op '") << op.getName() << "' does not say how it becomes a kernel";
      return signalPassFailure();
    }
    Former(getOperation(), maxOps, recomputeCost, scheduleUpdates).run();
  }
};
} // namespace
