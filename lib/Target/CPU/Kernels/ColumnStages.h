// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Columns of many rows: items are parts of the rows instead of blocks of columns. However few
// columns there are, all threads have some of the rows, and a row is read from its begin to its
// end.
#ifndef TRAINC_LIB_TARGET_CPU_KERNELS_COLUMNSTAGES_H
#define TRAINC_LIB_TARGET_CPU_KERNELS_COLUMNSTAGES_H

#include "CpuEmitter.h"
#include "trainc/Codegen/ReductionStages.h"

namespace trainc::codegen {

/// The stages of a column kernel whose rows are cut. The order of additions is that of the kernel
/// without stages: a part is a whole block of the cascade.
struct ColumnStages : ReductionStages {
  /// Whether a kernel has stages; depends on the structure alone.
  static bool areMade(const Structure &structure);
  ColumnStages(train::FusionOp fusion, const Structure &structure);

  Launch plan(const Stage &stage, const Structure &structure) const;

  /// Rows, and columns of an item.
  train::DimAttr rows;
  int64_t sweepColumns;
  /// Byte offsets of what is made of totals for later passes.
  llvm::DenseMap<mlir::Value, train::DimAttr> keptStashes;
};

/// Emits the body of a stage's function.
void mapColumnStage(CpuEmitter &emitter, const ColumnStages &stages,
                    const ReductionStages::Stage &stage);

} // namespace trainc::codegen

#endif // TRAINC_LIB_TARGET_CPU_KERNELS_COLUMNSTAGES_H
