// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reverse-mode differentiation of the train dialect, by interface.
#ifndef TRAINC_AUTODIFF_AUTODIFF_H
#define TRAINC_AUTODIFF_AUTODIFF_H

#include "dialects/Train/TrainDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace trainc {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/AutoDiff/AutoDiff.h.inc"

/// Emits, at `builder`, the cotangents of `wanted` for the cotangent `seed` of `of`, all values of
/// one block. Null in the result is zero. Fails, with a diagnostic, at an active op that has no
/// derivative.
mlir::FailureOr<llvm::SmallVector<mlir::Value>> buildCotangents(mlir::OpBuilder &builder,
                                                                mlir::Value of, mlir::Value seed,
                                                                mlir::ValueRange wanted);
} // namespace trainc

#endif // TRAINC_AUTODIFF_AUTODIFF_H
