// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A kernel in the making.
#ifndef TRAINC_TRANSFORMS_FORMKERNELS_GROUP_H
#define TRAINC_TRANSFORMS_FORMKERNELS_GROUP_H

#include "dialects/Train/TrainDialect.h"

namespace trainc {

/// Ops that become one kernel, or one op that does not (closed).
struct Group {
  llvm::SmallVector<mlir::Operation *> members;
  /// Iteration space; `reduced` are its reduced axes.
  llvm::SmallVector<train::DimAttr> space;
  llvm::SmallVector<int64_t> reduced;
  bool closed = false;
  unsigned minPosition = 0, maxPosition = 0;
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
      return full == group.space && (group.reduced.empty() || group.reduced == reduced);
    if (full == group.space)
      return true;
    return !group.reduced.empty() && full == group.keptSpace();
  }
  bool isColumnSum() const {
    return !reduced.empty() && reduced.front() == 0 && reduced.back() + 1 < int64_t(full.size());
  }
};

} // namespace trainc

#endif // TRAINC_TRANSFORMS_FORMKERNELS_GROUP_H
