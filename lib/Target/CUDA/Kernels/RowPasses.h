// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The passes over a row that memory sees. Some reductions need none of their own: a sum that picks
// one element of the row, and a sum of exponentials below the row's maximum, which the pass that
// looks for the maximum can do as well.
#ifndef TRAINC_LIB_TARGET_CUDA_KERNELS_ROWPASSES_H
#define TRAINC_LIB_TARGET_CUDA_KERNELS_ROWPASSES_H

#include "trainc/Codegen/Structure.h"
#include "trainc/Formulas/RowSums.h"

namespace trainc::codegen {

/// sum(exp(x - max x)): the sum so far is rescaled where the maximum grows.
struct RescaledSum {
  mlir::Operation *maximum, *sum;
};

struct RowPass {
  /// Reductions that this pass finishes, without those of the pairs.
  llvm::SmallVector<mlir::Operation *> reductions;
  llvm::SmallVector<RescaledSum> rescaled;
  /// Results of the shape of the space that are stored here.
  llvm::SmallVector<unsigned> results;
  /// Sums down the columns whose operands are first known here.
  llvm::SmallVector<mlir::Operation *> columnSums;

  bool reduces() const { return !reductions.empty() || !rescaled.empty(); }
};

struct RowPasses {
  /// `rescale`: whether a pass costs more than exponentials that are computed twice.
  RowPasses(train::FusionOp fusion, const Structure &structure, bool rescale);

  llvm::SmallVector<RowPass> passes;
  /// By the reductions' results.
  llvm::DenseMap<mlir::Value, Pick> picks;
};

} // namespace trainc::codegen

#endif // TRAINC_LIB_TARGET_CUDA_KERNELS_ROWPASSES_H
