// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions that many work items share, in stages: launches behind each other. For each pass one
// stage sweeps the space, part by part, and leaves partial results in a temporary buffer; a second
// one combines them in order. Later passes read the totals from there.
#ifndef TRAINC_CODEGEN_REDUCTIONSTAGES_H
#define TRAINC_CODEGEN_REDUCTIONSTAGES_H

#include "trainc/Codegen/Structure.h"

namespace trainc::codegen {

/// ceil(a / b) for a size b that is at least 1.
train::DimAttr ceilDim(train::DimAttr a, train::DimAttr b);
train::DimAttr ceilDim(train::DimAttr a, int64_t b);
/// Product of the sizes of some axes.
train::DimAttr productOf(mlir::MLIRContext *context, llvm::ArrayRef<train::DimAttr> space,
                         llvm::ArrayRef<int64_t> axes);

/// Places in the stages' temporary buffer, one after another.
class TemporaryLayout {
public:
  /// Room for `count` elements; its byte offset.
  train::DimAttr add(train::DimAttr count, mlir::Type element);
  /// Null: nothing was added.
  train::DimAttr bytes;
};

/// The launches of a staged reduction and what they leave for each other.
struct ReductionStages {
  struct Stage {
    unsigned pass;
    /// Reads the space; makes totals.
    bool sweeps, totals;
  };
  /// `parts`: of the reduced positions, each with partial results of its own. Where there is one,
  /// the stage that sweeps has the totals.
  ReductionStages(train::FusionOp fusion, const Structure &structure, train::DimAttr parts);

  /// Behind the kernel's name; "" where there is one stage.
  std::string suffix(const Stage &stage) const;

  llvm::SmallVector<Stage> stages;
  /// Byte offsets of the partial results and the totals of a reduction.
  llvm::DenseMap<mlir::Operation *, train::DimAttr> partials, totals;
  /// The last pass with reductions: what comes after it can have the kept results.
  unsigned lastReducing = 0;
  TemporaryLayout temporary;
};

} // namespace trainc::codegen

#endif // TRAINC_CODEGEN_REDUCTIONSTAGES_H
