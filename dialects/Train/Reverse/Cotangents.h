// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reverse mode over the ops of one block, by interface.
#ifndef TRAINC_DIALECTS_TRAIN_REVERSE_COTANGENTS_H
#define TRAINC_DIALECTS_TRAIN_REVERSE_COTANGENTS_H

#include "dialects/Train/TrainDialect.h"

namespace trainc::train {

/// Why there are no cotangents.
struct CotangentProblem {
  mlir::Operation *op = nullptr;
  /// Of an op without a derivative, the wanted value that it stands between; else the operand whose
  /// gradient has another type, `gradient`.
  mlir::Value value;
  mlir::Type gradient;
};

/// Emits, at `builder`, the cotangents of `wanted` for the cotangents `seeds` of the values `of`,
/// all of one block; a seed may be null. Null in the result is zero. Fails at an active op that has
/// no derivative, or a wrong one, and tells it in `problem`.
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
buildCotangents(mlir::OpBuilder &builder, mlir::Block &block, llvm::ArrayRef<mlir::Value> of,
                llvm::ArrayRef<mlir::Value> seeds, mlir::ValueRange wanted,
                CotangentProblem &problem);

} // namespace trainc::train

#endif // TRAINC_DIALECTS_TRAIN_REVERSE_COTANGENTS_H
