// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Softmax and cross entropy, once they are decomposed, by their sums over a row.
#ifndef TRAINC_FORMULAS_ROWSUMS_H
#define TRAINC_FORMULAS_ROWSUMS_H

#include "dialects/Train/TrainDialect.h"
#include <optional>

namespace trainc {

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

} // namespace trainc

#endif // TRAINC_FORMULAS_ROWSUMS_H
