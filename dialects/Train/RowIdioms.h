// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is known of rows: ops that hand them on as they are, and formulas of softmax and cross
// entropy, once they are decomposed, by their sums over a row.
#ifndef TRAINC_DIALECTS_TRAIN_ROWIDIOMS_H
#define TRAINC_DIALECTS_TRAIN_ROWIDIOMS_H

#include "dialects/Train/TrainDialect.h"
#include <optional>

namespace trainc::train {

class TrainBuilder;

/// A cast of floats that loses nothing; false for null.
bool isWidening(mlir::Operation *op);
/// A reshape that leaves the last axis alone; false for null.
bool keepsColumns(mlir::Operation *op);

/// The reduction max x of sum(exp(x - max x)), in f32, or null. `kept`: the axes that remain.
mlir::Operation *matchMaximum(mlir::Operation *sum, llvm::ArrayRef<int64_t> kept);
/// The same of a reduction that tells its axes itself.
mlir::Operation *matchMaximum(mlir::Operation *op);

/// sum(select(iota == index, x, 0)), where the index is the same all over the row: x there, or 0.
struct Pick {
  mlir::OpOperand *element, *index;
};

/// That of a sum over `axis` alone, in f32.
std::optional<Pick> matchPick(mlir::Operation *sum, llvm::ArrayRef<int64_t> kept, int64_t axis);

/// Of each tuple of indices the number of its row, i64, in row-major order of the axes that are
/// indexed; below 0 counts from the end. `isValid`, if given: whether each index is in its axis.
mlir::Value buildRowNumbers(TrainBuilder &tb, GatherNdOp gather, mlir::Value *isValid = nullptr);

} // namespace trainc::train

#endif // TRAINC_DIALECTS_TRAIN_ROWIDIOMS_H
