// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Dropout that a graph writes out: a mask of what is kept, made of random numbers, and its scale.
// PyTorch's exporters write Dropout2d so, and drop paths are written so in PyTorch.
#ifndef TRAINC_FORMULAS_DRAWNMASKS_H
#define TRAINC_FORMULAS_DRAWNMASKS_H

#include "dialects/Train/TrainDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace trainc {

/// A value in which a drawn mask, 1 with the probability `keep` and else 0, takes part, and what it
/// is without: `value` is x mask / keep, and `without` is x; or `value` is mask / keep, and
/// `without` is null, standing for 1.
struct DrawnMask {
  mlir::Value value, without;
  double keep;
};

/// Those of a function, in its order. Only a mask that keeps the mean is one: what is drawn and not
/// scaled by 1 / keep (tokens that are masked, noise) is part of what the model computes. Keep and
/// scale are compared to one part in 2048, the resolution at which the draw is looked at.
llvm::SmallVector<DrawnMask> findDrawnMasks(mlir::func::FuncOp function);

/// Puts what each is without in its place, and erases what is left without a use. They are all of
/// `findDrawnMasks`, in its order.
void dropMasks(mlir::func::FuncOp function, llvm::ArrayRef<DrawnMask> masks);

/// The ops of a function that draw random numbers.
llvm::SmallVector<mlir::Operation *> findDraws(mlir::func::FuncOp function);

} // namespace trainc

#endif // TRAINC_FORMULAS_DRAWNMASKS_H
