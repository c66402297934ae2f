// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The optimizers by name: the one table that passes and the driver look in. Adding an optimizer is
// an op with its formulas and a row of this table.
#ifndef TRAINC_DIALECTS_TRAIN_OPTIMIZER_H
#define TRAINC_DIALECTS_TRAIN_OPTIMIZER_H

#include "dialects/Train/TrainBuilder.h"

#include <functional>

namespace trainc::train {

/// Constants of an update; PyTorch's names and meanings. An optimizer ignores what it does not
/// have.
struct OptimizerOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double momentum = 0;
  bool nesterov = false;
  /// Whether averages are corrected for having begun at zero; only adamw-hf can do without.
  bool biasCorrection = true;
};

/// Operands of the update of one parameter. `gradient` and every element of `state` have the
/// parameter's shape; `lr` and `weightDecay` are float scalars, `step` is an i64 scalar, 1 for the
/// first update.
struct OptimizerOperands {
  mlir::Value parameter, gradient;
  llvm::SmallVector<mlir::Value> state;
  mlir::Value lr, weightDecay, step;
  /// The sum of all elements of the parameter's tensor, from this part of it; null: it is all.
  std::function<mlir::Value(TrainBuilder &tb, mlir::Value part)> sumOverRanks;
};

/// A tensor that an update hands to the next one: of the parameter's shape, zero before the first.
struct OptimizerState {
  llvm::StringRef name;
  /// No element is ever below zero.
  bool nonNegative = false;
};

/// A row of the table.
struct OptimizerSpec {
  llvm::StringRef name;
  /// PyTorch's defaults (LAMB: those of its paper's reference code).
  double defaultLr, defaultWeightDecay, defaultEpsilon;
  /// The state of one parameter.
  llvm::SmallVector<OptimizerState> (*states)(const OptimizerOptions &options);
  /// Emits the update: the new parameter, then the new state in the order of `states`.
  llvm::SmallVector<mlir::Value> (*build)(TrainBuilder &tb, const OptimizerOperands &operands,
                                          const OptimizerOptions &options);
};

/// All optimizers, sorted by name.
llvm::ArrayRef<OptimizerSpec> getOptimizers();
/// The optimizer called `name`, or null.
const OptimizerSpec *findOptimizer(llvm::StringRef name);

} // namespace trainc::train

#endif // TRAINC_DIALECTS_TRAIN_OPTIMIZER_H
