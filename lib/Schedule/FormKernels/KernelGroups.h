// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// All groups of a function in the making: which op is in which, what they read of each other, and
// what may be together.
#ifndef TRAINC_SCHEDULE_FORMKERNELS_KERNELGROUPS_H
#define TRAINC_SCHEDULE_FORMKERNELS_KERNELGROUPS_H

#include "lib/Schedule/FormKernels/Group.h"
#include "lib/Schedule/FormKernels/GroupGraph.h"

namespace trainc {

/// Groups have numbers, from 0 in the order of `add`. One that was merged into another is empty.
class KernelGroups {
public:
  /// `maxOps`: the most that a kernel may hold.
  KernelGroups(mlir::Block &block, unsigned maxOps);

  int size() const { return groups.size(); }
  const Group &operator[](int g) const { return groups[g]; }
  llvm::ArrayRef<Group> all() const { return groups; }
  /// Of the op, of the op that makes the value; -1: none.
  int groupOf(mlir::Operation *op) const;
  int groupOf(mlir::Value value) const;
  /// Places of ops in program order.
  unsigned positionOf(mlir::Operation *op) const { return positions.lookup(op); }
  /// Where the kernel runs that holds the op: above it where a sum of the kernel stands.
  unsigned runPositionOf(mlir::Operation *op) const;
  const llvm::DenseMap<mlir::Operation *, unsigned> &getPositions() const { return positions; }

  //===--------------------------------------------------------------------===//
  // What reads and is read
  //===--------------------------------------------------------------------===//

  /// Computed inside every reader: index arithmetic and constants.
  bool isInline(mlir::Operation *op) const;
  /// An access op with a buffer of its own.
  bool isMaterialized(mlir::Operation *op) const { return materialized.contains(op); }
  /// Whether the value lies somewhere, to be read through strides: not what its readers compute, be
  /// it a constant or a view of one. Of what stands above the ops that have been assigned.
  bool isInMemory(mlir::Value value) const;
  /// The values that are read when `value` is, inline producers looked through.
  void forEachLeaf(mlir::Value value, llvm::function_ref<void(mlir::Value)> fn) const;
  /// Groups (-1: no kernel) that read `value` from elsewhere than from group `own`, inline readers
  /// looked through.
  void forEachOutsideReader(mlir::Value value, int own, llvm::function_ref<void(int)> fn) const;
  /// Where the last kernel or op runs that reads the value, inline readers looked through.
  unsigned lastReader(mlir::Value value) const;

  //===--------------------------------------------------------------------===//
  // What may be together
  //===--------------------------------------------------------------------===//

  /// The position before which `op` may not be computed: that of the last barrier above it.
  unsigned earliestOf(mlir::Operation *op) const;
  /// Whether every operand of `op` can be had if `op` were part of group `g`.
  bool operandsAllow(mlir::Operation *op, int g);
  /// Whether a group has room for so many ops.
  bool hasRoom(int g, size_t more = 1) const { return groups[g].members.size() + more <= maxOps; }

  //===--------------------------------------------------------------------===//
  // Changes
  //===--------------------------------------------------------------------===//

  /// A new group of `op`; a closed one takes no others.
  int add(mlir::Operation *op, bool closed);
  void join(mlir::Operation *op, int g);
  /// `op` joins members of the group: the kernel stores each in its place.
  void joinParts(mlir::Operation *op, int g);
  /// Lets the new group `g` be behind `before`, as if it read that.
  void orderBehind(int g, int before) { graph.addSource(g, before); }
  /// Puts the ops of group `other` behind those of `g`.
  void merge(int g, int other);
  /// Merges group `other` into `g` where the spaces agree and nothing in between depends on either.
  void tryMerge(int g, int other);

  /// The op gets a buffer of its own, though it could be computed inside its readers.
  void materialize(mlir::Operation *op) { materialized.insert(op); }
  /// Library calls read the op, an access, through strides.
  void keepAsView(mlir::Operation *op) { views.insert(op); }
  /// The op, a view, is index arithmetic inside its readers.
  void lookThrough(mlir::Operation *op) { lookedThrough.insert(op); }

private:
  llvm::SmallVector<mlir::Operation *> sourcesOf(mlir::Operation *op) const;
  void addSources(mlir::Operation *op);
  bool mayMerge(int g, int other);

  const unsigned maxOps;
  llvm::DenseMap<mlir::Operation *, unsigned> positions;
  llvm::SmallVector<Group> groups;
  /// Of the groups, by their numbers.
  GroupGraph graph;
  llvm::DenseMap<mlir::Operation *, int> numbers;
  llvm::DenseSet<mlir::Operation *> materialized, views, lookedThrough;
};

} // namespace trainc

#endif // TRAINC_SCHEDULE_FORMKERNELS_KERNELGROUPS_H
