// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions that many blocks share, in stages (ReductionStages.h). Where one block does all of it,
// the first stage has the totals.
#ifndef TRAINC_LIB_TARGET_CUDA_KERNELS_STAGEDREDUCTION_H
#define TRAINC_LIB_TARGET_CUDA_KERNELS_STAGEDREDUCTION_H

#include "Tiles.h"

namespace trainc::codegen {

/// Sets the plan's stages and temporary buffer.
void planStages(const ReductionStages &layout, train::DimAttr sweepBlocks,
                train::DimAttr totalBlocks, GpuPlan &plan);

/// What the mappings share: coordinates, and the roots of the passes.
class StagedReduction {
protected:
  /// `vectorAxis` and `reduced`: which axis vectors lie along, and the reduced axes from the
  /// outermost loop to the innermost; the order may be another than the space's.
  StagedReduction(GpuKernel &kernel, train::DimAttr parts, int64_t vectorAxis,
                  llvm::ArrayRef<int64_t> reduced);
  StagedReduction(GpuKernel &kernel, train::DimAttr parts)
      : StagedReduction(kernel, parts, kernel.structure.vectorAxis, kernel.structure.reduced) {}

  /// Begins the next stage of the kernel.
  void begin(unsigned pass);
  /// Position in the space from the outer reduced coordinates and that on the vector axis.
  void setSpaceIndex(llvm::ArrayRef<train::ElementIndex> outer, const train::ElementIndex &vector);
  /// The pass at the positions lower, lower + step, ... below upper, which `moveTo` makes the
  /// current ones of the space: combines the reductions' operands, stores the results.
  Values sweep(const Pass &pass, mlir::Value lower, mlir::Value upper, int64_t step,
               unsigned unroll, llvm::function_ref<void(mlir::Value)> moveTo);
  /// Neutral elements of the pass's reductions in the current number of lanes.
  Values identities(const Pass &pass);
  Values combineAll(const Pass &pass, mlir::ValueRange a, mlir::ValueRange b);
  /// Takes the totals of a pass for what is evaluated from now on.
  void setTotals(const Pass &pass, mlir::ValueRange values);
  /// The totals at hand, for another time: those of other columns may come in between.
  using Totals = llvm::DenseMap<mlir::Value, mlir::Value>;
  Totals takeTotals() { return std::exchange(current, Totals()); }
  void putTotals(Totals totals) { current = std::move(totals); }
  /// Writes the totals that later passes read, and the kept results after the last reduction;
  /// for the threads that have them.
  void storeTotals(unsigned pass, mlir::ValueRange values);
  void storeKept();

  /// Partial results of a reduction; in elements from their begin.
  mlir::Value loadPartial(mlir::Operation *op, const train::ElementIndex &offset);
  void storePartial(mlir::Operation *op, const train::ElementIndex &offset, mlir::Value value);
  /// The type that a reduction's steps have.
  static mlir::Type stepType(mlir::Operation *op);

  GpuKernel &kernel;
  const Structure &s;
  ReductionStages layout;
  GpuEmitter *e = nullptr;
  mlir::Operation *yield;
  int64_t vectorAxis;
  llvm::SmallVector<int64_t> outerReduced;
  llvm::SmallVector<train::DimAttr> outerReducedSizes, keptSizes;

private:
  mlir::Value lookUp(mlir::Value value, llvm::ArrayRef<train::ElementIndex> index);

  /// Totals that the thread has at hand.
  Totals current;
  llvm::DenseMap<mlir::Value, unsigned> reducedIn;
  /// Results of the space, by the pass that stores them.
  llvm::DenseMap<mlir::Value, std::pair<unsigned, unsigned>> storedIn;
};

/// Vectors whose loads should be in flight together in a thread that reads the space.
unsigned chooseUnroll(train::FusionOp fusion, const Structure &structure, unsigned lanes);

} // namespace trainc::codegen

#endif // TRAINC_LIB_TARGET_CUDA_KERNELS_STAGEDREDUCTION_H
