// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A group never depends on itself through another one: what would make it so is refused.

#include "lib/Schedule/FormKernels/KernelGroups.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

/// Positions are those before anything moves: groups are told apart by them until the end.
KernelGroups::KernelGroups(Block &block, unsigned maxOps) : maxOps(maxOps) {
  for (auto [next, op] : llvm::enumerate(block))
    positions[&op] = next;
}

int KernelGroups::groupOf(Operation *op) const {
  auto it = numbers.find(op);
  return it == numbers.end() ? -1 : it->second;
}
int KernelGroups::groupOf(Value value) const {
  Operation *def = value.getDefiningOp();
  return def ? groupOf(def) : -1;
}

unsigned KernelGroups::runPositionOf(Operation *op) const {
  const int g = groupOf(op);
  return g < 0 ? positionOf(op) : std::min(positionOf(op), groups[g].duePosition(positions));
}

//===----------------------------------------------------------------------===//
// What reads and is read
//===----------------------------------------------------------------------===//

/// An access or a constant without a buffer; a view if its readers compute it.
bool KernelGroups::isInline(Operation *op) const {
  if (materialized.contains(op))
    return false;
  FusionRole role = getFusionRole(op);
  if (role == FusionRole::View)
    return lookedThrough.contains(op);
  return role == FusionRole::Access || (role == FusionRole::Pointwise && op->getNumOperands() == 0);
}

/// A view that is kept is computed by kernels, and yet lies where its operand does.
bool KernelGroups::isInMemory(Value value) const {
  Operation *def = value.getDefiningOp();
  return !def || views.contains(def) || !isInline(def);
}

/// A leaf may be told several times.
void KernelGroups::forEachLeaf(Value value, llvm::function_ref<void(Value)> fn) const {
  Operation *def = value.getDefiningOp();
  if (!def || !isInline(def))
    return fn(value);
  for (Value operand : def->getOperands())
    forEachLeaf(operand, fn);
}

SmallVector<Operation *> KernelGroups::sourcesOf(Operation *op) const {
  SmallVector<Operation *> sources;
  for (Value operand : op->getOperands())
    forEachLeaf(operand, [&](Value leaf) {
      if (Operation *def = leaf.getDefiningOp())
        sources.push_back(def);
    });
  return sources;
}

/// -1 for library calls, stored views and the terminator: they read memory.
void KernelGroups::forEachOutsideReader(Value value, int own,
                                        llvm::function_ref<void(int)> fn) const {
  for (Operation *user : value.getUsers()) {
    const int g = groupOf(user);
    bool isView = views.contains(user);
    if (g >= 0 && !isView) {
      if (g != own)
        fn(groups[g].isKernel() ? g : -1);
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

/// Readers behind library calls or kernels do not count: these read the value itself. Those of a
/// view do: it is the value's memory.
unsigned KernelGroups::lastReader(Value value) const {
  unsigned last = 0;
  for (Operation *user : value.getUsers()) {
    last = std::max(last, runPositionOf(user));
    if (isInline(user) || getFusionRole(user) == FusionRole::View)
      for (Value result : user->getResults())
        last = std::max(last, lastReader(result));
  }
  return last;
}

//===----------------------------------------------------------------------===//
// What may be together
//===----------------------------------------------------------------------===//

/// An operand is allowed if it is made inside, or by a group that does not depend on this one; one
/// of the group's own values behind index arithmetic only if that reads what each thread has kept.
bool KernelGroups::operandsAllow(Operation *op, int g) {
  const Group &group = groups[g];
  for (Value operand : op->getOperands()) {
    Operation *def = operand.getDefiningOp();
    if (!def || groupOf(operand) == g)
      continue;
    bool allowed = true;
    forEachLeaf(operand, [&](Value leaf) {
      int other = groupOf(leaf);
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

/// Barriers (what separates kernels) bound all that is computed from them.
unsigned KernelGroups::earliestOf(Operation *op) const {
  unsigned earliest = 0;
  for (Operation *source : sourcesOf(op)) {
    auto fusion = dyn_cast<FusionOpInterface>(source);
    if (fusion && fusion.separatesKernels())
      earliest = std::max(earliest, positionOf(source));
    else if (int g = groupOf(source); g >= 0)
      earliest = std::max(earliest, groups[g].earliest);
  }
  return earliest;
}

/// Spaces and reductions agree, there is room, no barrier lies between, and neither depends on the
/// other by a way through a third group.
bool KernelGroups::mayMerge(int g, int other) {
  const Group &a = groups[g], &b = groups[other];
  if (a.closed || b.closed || !hasRoom(g, b.members.size()) || a.minPosition < b.earliest ||
      b.minPosition < a.earliest || a.space != b.space ||
      (!a.reduced.empty() && !b.reduced.empty() && a.reduced != b.reduced) ||
      ((a.joinsParts || b.joinsParts) && !(a.reduced.empty() && b.reduced.empty())))
    return false;
  // As the two would be together, to ask what its threads keep.
  Group merged;
  merged.space = a.space;
  merged.reduced = a.reduced.empty() ? b.reduced : a.reduced;
  for (auto [x, y] : {std::pair(g, other), std::pair(other, g)})
    for (Operation *op : groups[x].members)
      for (Value operand : op->getOperands()) {
        bool blocked = false;
        Operation *def = operand.getDefiningOp();
        forEachLeaf(operand, [&](Value leaf) {
          int via = groupOf(leaf);
          if (via < 0 || via == x)
            return;
          blocked = blocked || (via == y ? !(leaf == operand || merged.repeatsKeptValue(def, leaf))
                                         : graph.dependsOn(via, y));
        });
        if (blocked)
          return false;
      }
  return true;
}

//===----------------------------------------------------------------------===//
// Changes
//===----------------------------------------------------------------------===//

void KernelGroups::addSources(Operation *op) {
  const int g = groupOf(op);
  for (Operation *source : sourcesOf(op))
    if (int other = groupOf(source); other >= 0 && other != g)
      graph.addSource(g, other);
}

/// A closed group (a library call, a view, a barrier) has no space: nothing may join it.
int KernelGroups::add(Operation *op, bool closed) {
  Group group;
  group.members.push_back(op);
  group.closed = closed;
  group.minPosition = group.maxPosition = positionOf(op);
  group.earliest = earliestOf(op);
  if (!closed) {
    Space space(op);
    group.space = space.full;
    group.reduced = space.reduced;
  }
  groups.push_back(std::move(group));
  const int g = graph.add();
  numbers[op] = g;
  addSources(op);
  return g;
}

/// The caller has asked operandsAllow; the op stands behind all members.
void KernelGroups::join(Operation *op, int g) {
  Group &group = groups[g];
  group.members.push_back(op);
  group.maxPosition = std::max(group.maxPosition, positionOf(op));
  group.earliest = std::max(group.earliest, earliestOf(op));
  Space space(op);
  if (!space.reduced.empty())
    group.reduced = space.reduced;
  numbers[op] = g;
  addSources(op);
}

/// The op is no index arithmetic of its readers any more: they find it in memory.
void KernelGroups::joinParts(Operation *op, int g) {
  assert(groups[g].reduced.empty() && "a kernel that reduces stores results of its space only");
  materialize(op);
  join(op, g);
  groups[g].joinsParts = true;
}

/// Group `other` stays behind, empty: numbers are never reused.
void KernelGroups::merge(int g, int other) {
  Group &a = groups[g], &b = groups[other];
  assert(g != other && !b.members.empty() && "what was merged away stays so");
  for (Operation *op : b.members)
    numbers[op] = g;
  graph.merge(g, other);
  a.members.append(std::exchange(b.members, {}));
  a.joinsParts |= b.joinsParts;
  a.minPosition = std::min(a.minPosition, b.minPosition);
  a.earliest = std::max(a.earliest, b.earliest);
  a.maxPosition = std::max(a.maxPosition, b.maxPosition);
}

void KernelGroups::tryMerge(int g, int other) {
  if (!mayMerge(g, other))
    return;
  Group &group = groups[g];
  if (group.reduced.empty())
    group.reduced = groups[other].reduced;
  merge(g, other);
  llvm::sort(group.members,
             [&](Operation *x, Operation *y) { return positionOf(x) < positionOf(y); });
}
