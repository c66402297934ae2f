// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the row and column templates of the CPU share: coordinates, the roots of the passes, sums in
// blocks.
#ifndef TRAINC_LIB_TARGET_CPU_KERNELS_REDUCTIONMAP_H
#define TRAINC_LIB_TARGET_CPU_KERNELS_REDUCTIONMAP_H

#include "CpuEmitter.h"

namespace trainc::codegen {

/// Positions outside the vector axis that are summed before the sum moves up one level. Short, and
/// with as many levels as the count needs, so that no chain of additions is long: the error of a
/// sum stays that of some dozen additions.
inline constexpr int64_t kBlock = 16;

/// What the templates share: coordinates, and the passes' roots.
class ReductionMap {
public:
  /// The order of axes is the space's, so that the order of additions is the definition's.
  explicit ReductionMap(CpuEmitter &e);
  virtual ~ReductionMap() = default;

protected:
  /// Position in the space from the outer reduced coordinates and that on the vector axis.
  void setSpaceIndex(llvm::ArrayRef<train::ElementIndex> outer, const train::ElementIndex &vector);
  /// A result of the space that an earlier pass has stored, read back.
  /// Only at the current position: another one may not be stored yet.
  mlir::Value storedResult(mlir::Value value, llvm::ArrayRef<train::ElementIndex> index);
  /// Mapped operands of the pass's reductions; stores the pass's results and stashes.
  /// All values first, then all stores: a result may lie over an input.
  Values emitRoots(const Pass &pass);
  virtual void storeStash(mlir::Value, mlir::Value) {}
  /// Of all reductions of a pass, in lanes.
  Values identities(const Pass &pass);
  Values combineAll(const Pass &pass, mlir::ValueRange a, mlir::ValueRange b);
  using Leaf = llvm::function_ref<Values(mlir::Value, mlir::ValueRange)>;
  Values cascade(const Pass &pass, mlir::Value lower, mlir::Value upper, int64_t step,
                 std::optional<int64_t> count, llvm::ArrayRef<int64_t> levels,
                 mlir::ValueRange accumulators, Leaf leaf);

  CpuEmitter &e;
  const Structure &s;
  mlir::Operation *yield;
  llvm::SmallVector<int64_t> outerReduced;
  llvm::SmallVector<train::DimAttr> outerReducedSizes;
  mlir::Value outerReducedCount;
  std::optional<int64_t> knownOuterReduced;
  llvm::DenseMap<mlir::Value, std::pair<size_t, unsigned>> storedIn;
};

/// Sums of a block of columns.
class ColumnSums : public ReductionMap {
protected:
  ColumnSums(CpuEmitter &e, int64_t blockColumns) : ReductionMap(e), blockColumns(blockColumns) {}

  /// Work item `number` of those that are blocks of columns, for each position of the axes before.
  void setBlock(mlir::Value number);
  /// Arrays of one column block: level 0 takes elements, the last one has the total.
  /// In scratch, since a block of columns has more accumulators than registers.
  struct Array {
    mlir::Value pointer;
    mlir::Type element;
  };
  Array newArray(mlir::Type element);
  void makeAccumulators(mlir::Operation *op);
  void forEachColumn(llvm::function_ref<void(const train::ElementIndex &)> body);
  void whereMovesUp(unsigned level, llvm::function_ref<void()> body);
  void fill(const Pass &pass, unsigned level);
  void moveUp(const Pass &pass, unsigned level);
  void rows(const Pass &pass, mlir::Value lower, mlir::Value upper, unsigned level);
  /// Position within the block.
  train::ElementIndex inBlock() {
    const train::ElementIndex &column = e.keptIndex[vectorPosition];
    return {e.subIndex(column.base, lower), column.stride, {}};
  }
  mlir::Value loadArray(const Array &array) {
    return e.loadFrom(array.pointer, array.element, inBlock());
  }
  void storeArray(const Array &array, mlir::Value value) {
    e.storeTo(array.pointer, array.element, inBlock(), value);
  }

  const int64_t blockColumns;
  // Position of the vector axis among the kept ones.
  unsigned levels = 1, vectorPosition = 0;
  /// Whether there are blocks enough for the sums of a level to move up; null: known to be.
  llvm::SmallVector<mlir::Value> movesUp;
  int64_t arrayCount = 0;
  mlir::Value lower, upper;
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<Array>> accumulators;
};

} // namespace trainc::codegen

#endif // TRAINC_LIB_TARGET_CPU_KERNELS_REDUCTIONMAP_H
