// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sums down the columns that a kernel of rows makes on its way: a block does many rows, one after
// the other, and leaves the sums of its rows; a second stage adds these up in order.
#ifndef TRAINC_LIB_TARGET_CUDA_KERNELS_COLUMNSUMS_H
#define TRAINC_LIB_TARGET_CUDA_KERNELS_COLUMNSUMS_H

#include "Tiles.h"

namespace trainc::codegen {

/// Depends on structure and plan only: both stages make the same.
struct ColumnSums {
  /// `plan`: with lanes, threads of a row and rows of a block.
  ColumnSums(train::FusionOp fusion, const Structure &structure, const GpuPlan &plan);

  /// Rounds of rows, of which each block takes every parts-th.
  train::DimAttr rounds, parts;
  /// Length of a row, in elements and in vectors.
  train::DimAttr length;
  int64_t vectors;
  Tile total;
  /// Byte offsets of the blocks' sums: [parts, length] of the type that the reduction adds in.
  llvm::DenseMap<mlir::Operation *, train::DimAttr> partials;
  TemporaryLayout temporary;

  static mlir::Type stepType(mlir::Operation *reduction);
  /// Where a block's sums of a vector lie, in elements.
  train::ElementIndex partialOffset(GpuEmitter &e, mlir::Value part, mlir::Value vector) const;
};

/// Sets the stages and the temporary buffer of a plan for rows.
void planColumnSums(train::FusionOp fusion, const Structure &structure, GpuPlan &plan);
/// The second stage.
void mapColumnTotals(GpuKernel &kernel);

} // namespace trainc::codegen

#endif // TRAINC_LIB_TARGET_CUDA_KERNELS_COLUMNSUMS_H
