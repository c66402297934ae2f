// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Of what a loss is the mean: the denominator of a quotient of sums over the rows of a batch. Means
// of batches, each weighted by its denominator, give the mean of all rows.
#ifndef TRAINC_FORMULAS_LOSSMEAN_H
#define TRAINC_FORMULAS_LOSSMEAN_H

#include "dialects/Train/TrainDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "trainc/Support/Obstacle.h"

namespace trainc {

struct LossMean {
  bool isMean = false;
  /// The denominator, a scalar, up to a factor that is the same for all batches; null where it
  /// follows from sizes.
  mlir::Value number = {};
  /// The denominator as a size expression, up to such a factor; null where it is a multiple of the
  /// number of rows, or `number` is set.
  train::DimAttr count = {};
  /// Why the loss is no such quotient.
  Obstacle obstacle = {};
};

/// Of `loss`, a value of `function`.
LossMean findLossMean(mlir::func::FuncOp function, mlir::Value loss);

} // namespace trainc

#endif // TRAINC_FORMULAS_LOSSMEAN_H
