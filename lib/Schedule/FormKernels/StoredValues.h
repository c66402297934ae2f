// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which values kernels store and which each reader computes again: the second step of forming
// kernels.
#ifndef TRAINC_SCHEDULE_FORMKERNELS_STOREDVALUES_H
#define TRAINC_SCHEDULE_FORMKERNELS_STOREDVALUES_H

#include "lib/Schedule/FormKernels/KernelGroups.h"

namespace trainc {

/// Ops that are no farther apart belong to the same few kernels.
constexpr unsigned kNear = 48;

/// What computing a value in another kernel takes.
struct Recomputation {
  explicit Recomputation(mlir::Value value)
      : rank(train::getRank(value)), elements(train::getNumElements(value.getType())) {}
  bool isLarge(mlir::Value leaf) const {
    train::DimAttr size = train::getNumElements(leaf.getType());
    std::optional<int64_t> known = size.getConstant(), own = elements.getConstant();
    if (known && own && *known <= *own / 16) // a table, or the scales of blocks
      return false;
    return train::getRank(leaf) >= rank || size == elements;
  }

  /// Of the value.
  int64_t rank;
  train::DimAttr elements;
  llvm::SmallSetVector<mlir::Operation *, 8> ops;
  /// Values of smaller rank, such as a row's mean, that have to be stored for it.
  llvm::SmallSetVector<mlir::Operation *, 4> statistics;
  /// Tensors as large as the value that are read for it.
  llvm::SmallSetVector<mlir::Value, 4> tensors;
  unsigned cost = 0;
};

/// Ops by what becomes of their results.
struct StoredValues {
  llvm::DenseSet<mlir::Operation *> stored, recomputed;
  /// Stored for the sake of values that are computed again.
  llvm::DenseSet<mlir::Operation *> promoted;
};

/// Whether `op` can be computed in another kernel, cheaply (an element costs `limit` at most) and
/// from values that are stored anyway: `stored` and those of closed groups.
bool isRecomputable(const KernelGroups &groups, mlir::Operation *op, unsigned limit,
                    const llvm::DenseSet<mlir::Operation *> &stored, Recomputation &again);

/// Whether the op is a cast of floats that loses nothing: its operand is what is worth storing.
bool widensFloat(mlir::Operation *op);

/// Decides on all ops of the block, once they have their groups.
StoredValues decideStored(mlir::Block &block, const KernelGroups &groups, unsigned recomputeCost);

} // namespace trainc

#endif // TRAINC_SCHEDULE_FORMKERNELS_STOREDVALUES_H
