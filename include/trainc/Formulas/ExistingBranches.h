// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Low-rank branches that a graph has already, as an export of a model with adapters does: found by
// what they compute, not by names.
#ifndef TRAINC_FORMULAS_EXISTINGBRANCHES_H
#define TRAINC_FORMULAS_EXISTINGBRANCHES_H

#include "trainc/Analysis/Projections.h"
#include <string>

namespace trainc {

/// base(x) + scale * b(a(dropout(x))) within one sum.
struct ExistingBranch {
  Projection base, a, b;
  double scale = 1, dropout = 0;
};

/// Two projections in a row that are no branch.
struct NoBranch {
  Projection a, b;
  std::string reason;
};

struct ExistingBranches {
  llvm::SmallVector<ExistingBranch> found;
  llvm::SmallVector<NoBranch> missed;
};

/// In order.
ExistingBranches findExistingBranches(mlir::func::FuncOp function);

} // namespace trainc

#endif // TRAINC_FORMULAS_EXISTINGBRANCHES_H
