// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A kernel in the making.
#ifndef TRAINC_SCHEDULE_FORMKERNELS_GROUP_H
#define TRAINC_SCHEDULE_FORMKERNELS_GROUP_H

#include "dialects/Train/RowMoves.h"
#include "trainc/Analysis/StridedViews.h"
#include "llvm/ADT/SetVector.h"

namespace trainc {

inline bool isViewOfMoved(mlir::Operation *view);
inline bool isCopied(mlir::Operation *access);

/// Whether kernels alone read what `op` makes, index arithmetic in them looked through; not to know
/// where to read. `copies`: those that only copy count as well.
inline bool isReadInKernels(mlir::Operation *op, bool copies = false) {
  return llvm::all_of(op->getUsers(), [copies](mlir::Operation *user) {
    train::FusionRole role = getFusionRole(user);
    return role == train::FusionRole::Pointwise || role == train::FusionRole::Reduction ||
           (role == train::FusionRole::Access && !mlir::isa<train::IndexOperandOpInterface>(user) &&
            (isReadInKernels(user, copies) || (copies && isCopied(user)))) ||
           isViewOfMoved(user);
  });
}

/// Reads its operands element by element, so that inline producers are computed inside it.
inline bool readsElements(mlir::Operation *op) {
  switch (getFusionRole(op)) {
  case train::FusionRole::Pointwise:
  case train::FusionRole::Access:
  case train::FusionRole::Reduction:
  case train::FusionRole::Standalone:
    return true;
  default:
    return false;
  }
}

/// Whether rows of the result are rows of the operands: elements move along all axes but the last.
inline bool movesRows(mlir::Operation *op) {
  auto mapped = mlir::dyn_cast<train::AxisMapOpInterface>(op);
  if (!mapped || train::getRank(op->getResult(0)) < 2)
    return false;
  const train::AxisMap map = mapped.getAxisMap();
  const int64_t row = map.results[0].back();
  return row >= 0 && llvm::all_of(map.operands, [&](const auto &axes) {
           return !axes.empty() && axes.back() == row;
         });
}

/// Whether `view` is one of a value that only repeats fewer elements, or has rows from elsewhere,
/// and kernels alone read it: they read those, wherever the view has them.
inline bool isViewOfMoved(mlir::Operation *view) {
  auto access = mlir::dyn_cast<train::ElementAccessOpInterface>(view);
  if (getFusionRole(view) != train::FusionRole::View || !access || !access.hasElements() ||
      view->getNumOperands() != 1)
    return false;
  mlir::Operation *def = view->getOperand(0).getDefiningOp();
  auto moved = mlir::dyn_cast_if_present<train::ElementAccessOpInterface>(def);
  if (!moved || (!moved.onlyMoves() && !mlir::isa<train::SubrangeOpInterface>(def)) ||
      getFusionRole(def) != train::FusionRole::Access ||
      mlir::isa<train::IndexOperandOpInterface>(def))
    return false;
  if (movesRows(def))
    return isReadInKernels(view, /*copies=*/true);
  const train::DimAttr from = train::getNumElements(def->getOperand(0).getType()),
                       to = train::getNumElements(view->getOperand(0).getType());
  return def->getNumOperands() == 1 && from != to && train::divideExactly(to, from) &&
         isReadInKernels(view);
}

/// Whether a library call, or a view or join that is no kernel, reads `op` or a view of it.
inline bool hasReaderOutside(mlir::Operation *op) {
  return llvm::any_of(op->getUsers(), [](mlir::Operation *user) {
    if (isViewOfMoved(user))
      return false;
    return !readsElements(user) || isJoinedInPlace(user) ||
           (mlir::isa<train::StridedViewOpInterface>(user) && hasReaderOutside(user));
  });
}

/// Whether index arithmetic that others than kernels read is a kernel: nobody takes the strides
/// that it would have as a view of its operand.
inline bool isCopied(mlir::Operation *access) {
  if (isJoinedInPlace(access))
    return false;
  auto view = mlir::dyn_cast<train::StridedViewOpInterface>(access);
  std::optional<train::StridedLayout> layout =
      view ? view.getStridedView(contiguousLayout(access->getOperand(0).getType())) : std::nullopt;
  return !layout || !acceptsStrides(access->getResult(0), *layout, [](mlir::Operation *user) {
    return readsElements(user) && !mlir::isa<train::StridedViewOpInterface>(user);
  });
}

/// Ops that become one kernel, or one op that does not (closed).
struct Group {
  llvm::SmallVector<mlir::Operation *> members;
  /// Iteration space; `reduced` are its reduced axes.
  llvm::SmallVector<train::DimAttr> space;
  llvm::SmallVector<int64_t> reduced;
  bool closed = false;
  unsigned minPosition = 0, maxPosition = 0;
  /// Whether a member joins others, which are of the space, to a result that is not. Such a kernel
  /// has no reductions.
  bool joinsParts = false;
  /// Nothing that stands before this position may become part of the kernel.
  unsigned earliest = 0;

  llvm::SmallVector<int64_t> keptAxes() const {
    llvm::SmallVector<int64_t> axes;
    for (int64_t axis = 0; axis < int64_t(space.size()); ++axis)
      if (!llvm::is_contained(reduced, axis))
        axes.push_back(axis);
    return axes;
  }
  llvm::SmallVector<train::DimAttr> keptSpace() const {
    llvm::SmallVector<train::DimAttr> dims;
    for (int64_t axis : keptAxes())
      dims.push_back(space[axis]);
    return dims;
  }

  /// Whether it becomes a kernel.
  bool isKernel() const {
    return !closed || getFusionRole(members.front()) == train::FusionRole::Standalone;
  }
  /// A reduction where its first one stood, so that what it reads is freed, whatever was joined to
  /// it later; anything else where its last op stood.
  unsigned duePosition(const llvm::DenseMap<mlir::Operation *, unsigned> &position) const {
    unsigned due = maxPosition;
    for (mlir::Operation *op : members)
      if (getFusionRole(op) == train::FusionRole::Reduction)
        due = std::min(due, position.lookup(op));
    return due;
  }
  /// The sums of a scatter of rows, or what it makes of them: the kernel stores each element once,
  /// so that it needs no buffer beside an operand's. Null if it has none.
  mlir::Value rowSums() const {
    auto scatter = members.empty() ? train::ScatterOpInterface()
                                   : mlir::dyn_cast<train::ScatterOpInterface>(members.front());
    return closed && scatter && scatter.isRowScatter() && !scatter.hasUniqueIndices()
               ? members.back()->getResult(0)
               : mlir::Value();
  }
  /// Whether it has such sums, which nothing but `op` reads, and that element by element.
  bool endsInSumsFor(mlir::Operation *op) const {
    mlir::Value last = rowSums();
    return last && getFusionRole(op) == train::FusionRole::Pointwise && op->getNumResults() == 1 &&
           train::getDims(op->getResult(0)) == train::getDims(last) &&
           llvm::all_of(last.getUsers(), [&](mlir::Operation *user) { return user == op; });
  }
  /// Whether `op` repeats `value`, a kept one, along the reduced axes.
  bool repeatsKeptValue(mlir::Operation *op, mlir::Value value) const {
    auto mapped = mlir::dyn_cast<train::AxisMapOpInterface>(op);
    if (!mapped || reduced.empty() || op->getNumOperands() != 1 || op->getOperand(0) != value ||
        op->getNumResults() != 1 || train::getDims(op->getResult(0)) != space ||
        train::getDims(value) != keptSpace())
      return false;
    train::AxisMap map = mapped.getAxisMap();
    llvm::SmallVector<int64_t> kept = keptAxes();
    if (map.operands[0].size() != kept.size())
      return false;
    for (auto [loop, axis] : llvm::zip(map.operands[0], kept))
      if (loop < 0 || map.loops[loop] != train::LoopKind::Parallel || map.results[0][axis] != loop)
        return false;
    return true;
  }
};

/// The space in which an op runs that may be part of a kernel.
struct Space {
  llvm::SmallVector<train::DimAttr> full;
  llvm::SmallVector<int64_t> reduced;

  explicit Space(mlir::Operation *op) {
    if (auto reduction = mlir::dyn_cast<train::ReductionOpInterface>(op)) {
      full = train::getDims(op->getOperand(0));
      reduced = reduction.getReducedAxes();
    } else {
      full = train::getDims(op->getResult(0));
    }
  }
  bool fits(const Group &group) const {
    if (group.closed)
      return false;
    if (!reduced.empty())
      return !group.joinsParts && full == group.space &&
             (group.reduced.empty() || group.reduced == reduced);
    if (full == group.space)
      return true;
    return !group.reduced.empty() && full == group.keptSpace();
  }
  bool isColumnSum() const {
    return !reduced.empty() && reduced.front() == 0 && reduced.back() + 1 < int64_t(full.size());
  }
};

} // namespace trainc

#endif // TRAINC_SCHEDULE_FORMKERNELS_GROUP_H
