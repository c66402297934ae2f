// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rows of a parameter that are looked up by their numbers: the modules beside projections that
// adapters are attached to.
#ifndef TRAINC_FORMULAS_EMBEDDINGS_H
#define TRAINC_FORMULAS_EMBEDDINGS_H

#include "dialects/Train/TrainDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace trainc {

/// result[i..., n] = table[indices[i...], n].
struct Embedding {
  mlir::Operation *op;
  mlir::BlockArgument table;
  mlir::Value indices;
  /// What readers read: the rows, or with `isPadding` the rows of which some are not trained.
  mlir::Value result;
  /// Where no gradient goes to the table, of the shape of the indices; null if it goes everywhere.
  mlir::Value isPadding;
};

/// All of a function of one block, in order.
llvm::SmallVector<Embedding> findEmbeddings(mlir::func::FuncOp function);

} // namespace trainc

#endif // TRAINC_FORMULAS_EMBEDDINGS_H
