// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kahn's algorithm over what the groups read of each other.

#include "lib/Schedule/FormKernels/Order.h"

#include "dialects/Train/Collectives/Collectives.h"
#include "trainc/Transforms/Support/HoistReshape.h"
#include <queue>

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace {

/// A kernel reads what another one makes at a position of the program.
struct GroupRead {
  int source, reader;
  unsigned made;
};

/// The reads of each group.
using ReadsOfGroups = SmallVector<SmallVector<const GroupRead *>, 0>;

/// Makes kernels due no later than those that wait for them. Ops that were joined to a kernel may
/// stand behind its readers, and what such an op reads behind these, too: all of it runs before the
/// first reader, so what the reader does not wait for is not to run in between. `due`: smaller is
/// earlier.
void advanceAwaited(const ReadsOfGroups &reads, MutableArrayRef<unsigned> due) {
  // As program order has it: a kernel runs where all that it reads is made, or later.
  SmallVector<unsigned> last(due);
  for (auto [g, above] : llvm::enumerate(reads))
    for (const GroupRead *read : above)
      last[g] = std::max(last[g], read->made);
  SmallVector<int> work(llvm::to_vector(llvm::seq<int>(0, due.size())));
  // Ends: a position only ever gets smaller.
  while (!work.empty()) {
    int reader = work.pop_back_val();
    for (const GroupRead *read : reads[reader])
      if (last[reader] < last[read->source]) {
        last[read->source] = last[reader];
        work.push_back(read->source);
      }
  }
  for (auto [position, bound] : llvm::zip_equal(due, last))
    position = std::min(position, bound);
}

/// Makes kernels due no later than those that read them, as far as what is read is made by then in
/// program order.
void advanceSources(const ReadsOfGroups &reads, MutableArrayRef<unsigned> due) {
  SmallVector<int> work(llvm::to_vector(llvm::seq<int>(0, due.size())));
  // Ends: a due position only ever gets smaller, and is never below where a value is made.
  while (!work.empty()) {
    int reader = work.pop_back_val();
    for (const GroupRead *read : reads[reader]) {
      unsigned needed = std::max(due[reader], read->made);
      if (needed < due[read->source]) {
        due[read->source] = needed;
        work.push_back(read->source);
      }
    }
  }
}

class Order {
  /// The groups that read each value.
  using ReaderMap = DenseMap<Value, SmallVector<int>>;

public:
  // Edges are set once for each pair of groups, so that `missing` counts groups.
  Order(const KernelGroups &groups, const StoredValues &values)
      : groups(groups), values(values), readers(groups.size()), missing(groups.size(), 0) {
    std::vector<GroupRead> reads;
    for (auto [g, group] : llvm::enumerate(groups.all())) {
      llvm::SmallSetVector<int, 8> sources;
      for (Operation *op : group.members)
        forEachRead(op, g, [&](Value leaf) {
          int source = groups.groupOf(leaf);
          if (source < 0 || source == int(g))
            return;
          sources.insert(source);
          // Scalars are made when they are needed, wherever they stand.
          reads.push_back(
              {source, int(g), getRank(leaf) ? groups.positionOf(leaf.getDefiningOp()) : 0});
        });
      missing[g] = sources.size();
      for (int source : sources)
        readers[source].insert(g);
    }
    // Priority is where a group is due by its own members, then no later than its readers' allow.
    for (const Group &group : groups.all())
      priority.push_back(group.duePosition(groups.getPositions()));
    ReadsOfGroups above(groups.size());
    for (const GroupRead &read : reads)
      above[read.reader].push_back(&read);
    advanceAwaited(above, priority);
    advanceSources(above, priority);
  }

  /// An update runs once nobody needs the old value any more, so that it happens in place, and then
  /// at once, so that the gradient is freed; or after all else, where that is asked for.
  void orderUpdates(func::FuncOp function, bool scheduleUpdates) {
    DenseMap<std::pair<StringRef, StringRef>, Value> arguments;
    auto text = [](Attribute attr) {
      return attr ? cast<StringAttr>(attr).getValue() : StringRef();
    };
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      arguments[{text(function.getArgAttr(i, kRoleAttr)),
                 text(function.getArgAttr(i, kNameAttr))}] = function.getArgument(i);
    Operation *terminator = function.getBody().front().getTerminator();
    // Collected once, before edges are added: they are reads of values, not orders.
    ReaderMap map = collectReaders();
    for (auto [index, value] : llvm::enumerate(terminator->getOperands())) {
      if (text(function.getResultAttr(index, kRoleAttr)) != "update")
        continue;
      Value target = arguments.lookup({text(function.getResultAttr(index, kUpdatesAttr)),
                                       text(function.getResultAttr(index, kNameAttr))});
      // Of what all ranks sum up in its place, what this rank makes.
      const Value summed = getSummedOverRanks(value);
      const Value made = summed ? summed : value;
      int updater = groups.groupOf(getReshaped(made) ? getReshaped(made) : made);
      if (!target || updater < 0)
        continue;
      // The update writes where the old value is read: all its readers come first.
      forEachReadingGroup(map, target, [&](int reader) {
        llvm::DenseSet<int> visited;
        // A cycle would be made: the reader already waits for the update. Then the update gets a
        // buffer, and a copy.
        if (reader == updater || precedes(updater, reader, visited))
          return;
        if (readers[reader].insert(updater))
          ++missing[updater];
      });
      // Sums of a gradient may be in its kernel, too.
      bool onlyUpdates = llvm::all_of(groups[updater].members, [&](Operation *op) {
        return llvm::all_of(op->getUsers(), [&](Operation *user) {
          return user == terminator || user->hasTrait<CollectiveCall>() ||
                 getRank(op->getResult(0)) == 0 ||
                 groups.groupOf(user == made.getDefiningOp() ? op : user) == updater;
        });
      });
      if (!onlyUpdates)
        continue;
      // 0 is before all that is ready.
      priority[updater] = scheduleUpdates ? 0 : std::numeric_limits<unsigned>::max();
      if (scheduleUpdates)
        advanceSums(map, updater);
    }
  }

  /// Sums of what an update reads, which it does not wait for, run beside it: a gradient is not
  /// kept for its norm.
  void advanceSums(const ReaderMap &map, int updater) {
    for (Operation *op : groups[updater].members)
      forEachRead(op, updater, [&](Value leaf) {
        auto it = map.find(leaf);
        if (!leaf.getDefiningOp() || getRank(leaf) == 0 || it == map.end())
          return;
        for (int g : it->second) {
          llvm::DenseSet<int> visited;
          if (g != updater && priority[g] != 0 && leavesScalars(g) &&
              !precedes(g, updater, visited))
            priority[g] = 0;
        }
      });
  }

  /// Collectives keep the order of the program.
  void orderCollectives(func::FuncOp function) {
    int last = -1;
    for (Operation &op : function.getBody().front()) {
      if (!op.hasTrait<CollectiveCall>())
        continue;
      const int group = groups.groupOf(&op);
      llvm::DenseSet<int> visited;
      // Verified behind the phase: kernels that hold what is not of one purpose could make a cycle.
      if (last >= 0 && !precedes(group, last, visited) && readers[last].insert(group))
        ++missing[group];
      last = group;
    }
  }

  /// Takes the groups one by one.
  /// Kahn's algorithm with a priority queue: n log n. Equal priorities go as the queue has them,
  /// which depends on the numbers of the groups only.
  SmallVector<int> take() {
    auto later = [&](int a, int b) { return priority[a] > priority[b]; };
    std::priority_queue<int, std::vector<int>, decltype(later)> ready(later);
    for (auto [g, group] : llvm::enumerate(groups.all()))
      if (!group.members.empty() && missing[g] == 0)
        ready.push(g);
    SmallVector<int> order;
    while (!ready.empty()) {
      order.push_back(ready.top());
      ready.pop();
      for (int reader : readers[order.back()])
        if (--missing[reader] == 0)
          ready.push(reader);
    }
    assert(order.size() ==
               size_t(llvm::count_if(groups.all(),
                                     [](const Group &group) { return !group.members.empty(); })) &&
           "no group depends on itself through others");
    return order;
  }

private:
  /// What a group reads for its op.
  /// A library call or a view reads its operands as they are; a kernel looks through what is inline
  /// or recomputed.
  void forEachRead(Operation *op, int g, llvm::function_ref<void(Value)> fn) const {
    if (!groups[g].isKernel())
      llvm::for_each(op->getOperands(), fn);
    else
      forEachInput(op, g, fn);
  }
  /// Those that a kernel reads from outside, recomputed ones looked through.
  void forEachInput(Operation *op, int own, llvm::function_ref<void(Value)> fn) const {
    for (Value operand : op->getOperands())
      groups.forEachLeaf(operand, [&](Value leaf) {
        Operation *def = leaf.getDefiningOp();
        if (def && groups.groupOf(leaf) == own)
          return;
        if (def && values.recomputed.contains(def))
          return forEachInput(def, own, fn);
        fn(leaf);
      });
  }

  ReaderMap collectReaders() const {
    ReaderMap map;
    for (auto [g, group] : llvm::enumerate(groups.all())) {
      // Where all is computed in other kernels there is none.
      if (llvm::all_of(group.members,
                       [&](Operation *op) { return values.recomputed.contains(op); }))
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
  /// A view of a parameter is read by what reads the view.
  void forEachReadingGroup(const ReaderMap &map, Value value,
                           llvm::function_ref<void(int)> fn) const {
    auto it = map.find(value);
    if (it == map.end())
      return;
    for (int g : it->second) {
      fn(g);
      assert(!groups[g].members.empty() && "what reads has members");
      Operation *op = groups[g].members.front();
      if (groups[g].closed && isa<StridedViewOpInterface>(op))
        forEachReadingGroup(map, op->getResult(0), fn);
    }
  }

  /// Whether other groups see nothing but scalars of it.
  bool leavesScalars(int g) const {
    return llvm::all_of(groups[g].members, [&](Operation *op) {
      return llvm::all_of(op->getResults(), [&](Value result) {
        return getRank(result) == 0 || llvm::all_of(result.getUsers(), [&](Operation *user) {
                 return user->getNumResults() > 0 && groups.groupOf(user->getResult(0)) == g;
               });
      });
    });
  }

  /// Whether `g` is emitted before `other`, by what has been found so far.
  /// Depth first over known edges; `visited` bounds it by the number of groups.
  bool precedes(int g, int other, llvm::DenseSet<int> &visited) const {
    return llvm::any_of(readers[g], [&](int reader) {
      return reader == other || (visited.insert(reader).second && precedes(reader, other, visited));
    });
  }

  const KernelGroups &groups;
  const StoredValues &values;
  /// Of each group: those that read it, and how many that it reads have not been taken.
  SmallVector<llvm::SmallSetVector<int, 8>> readers;
  SmallVector<unsigned> missing;
  /// Smaller runs earlier among the groups that are ready.
  SmallVector<unsigned> priority;
};
} // namespace

SmallVector<int> trainc::orderGroups(Block &block, const KernelGroups &groups,
                                     const StoredValues &values, bool scheduleUpdates) {
  Order order(groups, values);
  if (auto function = dyn_cast<func::FuncOp>(block.getParentOp())) {
    order.orderUpdates(function, scheduleUpdates);
    if (function->hasAttr(kInStepAttr))
      order.orderCollectives(function);
  }
  return order.take();
}
