// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Helpers of the pointwise ops in the .td files: axis maps and gradients too long to write there.
#ifndef TRAINC_DIALECTS_TRAIN_TRAINVJP_H
#define TRAINC_DIALECTS_TRAIN_TRAINVJP_H

#include "dialects/Train/TrainDialect.h"

namespace trainc::train::detail {

/// One parallel loop an axis; rank-0 operands address none.
AxisMap pointwiseAxisMap(mlir::Operation *op);
/// max ("gt") and min ("lt"): the winner takes the gradient, equal ones half each.
void extremumVJP(TrainBuilder &tb, llvm::StringRef wins, mlir::Value g, mlir::Value x,
                 mlir::Value y, llvm::ArrayRef<bool> needed, llvm::MutableArrayRef<mlir::Value> dx);
/// x^y: g * y * x^(y-1) and g * x^y * log(x) (0 where x <= 0).
void powVJP(TrainBuilder &tb, mlir::Value g, mlir::Value x, mlir::Value y, mlir::Value result,
            llvm::ArrayRef<bool> needed, llvm::MutableArrayRef<mlir::Value> dx);

/// sqrt(1 - x^2), the cosine of the angle whose sine is x; exact towards 1 and -1.
mlir::Value unitCosine(TrainBuilder &tb, mlir::Value x);
/// Second derivative of gelu at x.
mlir::Value geluSecondDerivative(TrainBuilder &tb, mlir::Value x, bool tanhForm);

} // namespace trainc::train::detail

#endif // TRAINC_DIALECTS_TRAIN_TRAINVJP_H
