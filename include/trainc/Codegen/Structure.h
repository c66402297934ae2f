// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The loop template of a fusion: iteration space, passes over it, and which values each pass
// computes, keeps and stores. Nothing here knows the processor; the mappings read it.
#ifndef TRAINC_CODEGEN_STRUCTURE_H
#define TRAINC_CODEGEN_STRUCTURE_H

#include "dialects/Train/TrainDialect.h"

namespace trainc::codegen {

enum class Template {
  /// Every result has the shape of the space, or joins values of that shape; one pass, no
  /// reduction.
  Pointwise,
  /// The vector axis is reduced: a work item is one kept position.
  Row,
  /// The vector axis is kept: a work item is a block of it at one position of the other kept axes.
  Column,
  Scatter,
  Scan,
  /// A matmul with a factor that is computed in the kernel (GPUs only).
  Product,
};

/// One sweep over the reduced positions of a work item.
struct Pass {
  /// Reductions that this pass finishes; their operands depend on earlier passes only.
  llvm::SmallVector<mlir::Operation *> reductions;
  /// Results of the shape of the space that are stored here.
  llvm::SmallVector<unsigned> results;
  /// Values written to scratch here because a later pass needs them and they are dear (Row only).
  llvm::SmallVector<mlir::Value> stashes;
  /// Values of the kept shape that later passes want once for each kept position (Column only).
  llvm::SmallVector<mlir::Value> keptStashes;
};

/// A value that is stored at each position of the space: as the element of a result at the same
/// place, or so far behind it where the result joins several values.
struct Store {
  unsigned result;
  mlir::Value value;
  /// For each axis; empty: none.
  llvm::SmallVector<train::DimAttr> starts;
};

struct Structure {
  Template kind = Template::Pointwise;
  /// Sizes of the space; reduced and kept axes in ascending order. Without reductions all are kept.
  llvm::SmallVector<train::DimAttr> space;
  llvm::SmallVector<int64_t> reduced, kept;
  /// The innermost axis that is not of size 1: lanes run along it. -1 where the space is one
  /// element.
  int64_t vectorAxis = -1;
  /// All values have the space's shape or rank 0 and no op looks at coordinates: one axis will do.
  bool flat = false;
  llvm::SmallVector<Pass> passes;
  /// What is stored where there is one pass and no reduction (Pointwise, and Scatter behind its
  /// sums).
  llvm::SmallVector<Store> stores;
  /// Results of the kept shape, stored after the last pass.
  llvm::SmallVector<unsigned> keptResults;
  /// Row only: reductions over all kept axes of what a pass over a row has at hand, and the results
  /// of the row's shape that are made of them when all rows are done.
  llvm::SmallVector<mlir::Operation *> columnSums;
  llvm::SmallVector<unsigned> columnResults;
  /// The standalone op of Scatter, Scan and Product.
  mlir::Operation *standalone = nullptr;
  /// Whether the kernel's result is computed of the standalone op's, element by element.
  bool hasEpilogue = false;
  /// Sum of the element costs of the body.
  unsigned cost = 0;

  bool isReduced(int64_t axis) const { return llvm::is_contained(reduced, axis); }
};

/// Chooses the template of a fusion. Fails with a diagnostic at the op that does not fit.
/// `columnSums`: whether rows may have sums down their columns with them.
mlir::FailureOr<Structure> analyzeFusion(train::FusionOp fusion, bool columnSums = false);

/// Whether the formula of a pointwise op reads coordinates.
bool usesCoordinates(train::PointwiseOpInterface op);

/// Identity of a fusion up to locations and names of symbols, and the non-constant sizes in it in
/// the order of their first use. Equal keys have corresponding `dims`.
struct StructuralKey {
  std::string text;
  llvm::SmallVector<train::DimAttr> dims;
};
StructuralKey getStructuralKey(train::FusionOp fusion);

} // namespace trainc::codegen

#endif // TRAINC_CODEGEN_STRUCTURE_H
