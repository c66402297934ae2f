// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Dynamic loss scaling (Micikevicius et al. 2018), with the rules of torch.amp.GradScaler: the
// gradients of f16 are computed of the loss times a power of two, so that small ones do not vanish.
// All of it is state: no number goes to the host and back.
#ifndef TRAINC_TRANSFORMS_FORMSTEPS_LOSSSCALE_H
#define TRAINC_TRANSFORMS_FORMSTEPS_LOSSSCALE_H

#include "trainc/Transforms/Support/StepBuilder.h"

namespace trainc {

class LossScale {
public:
  /// Adds the state to the function being built: all of it where the function `changes` the scale.
  LossScale(StepBuilder &step, mlir::Location loc, bool changes);

  /// What the loss is multiplied by.
  mlir::Value getScale();
  /// A gradient of the loss, from one of the scaled loss.
  mlir::Value unscale(mlir::Value gradient);
  /// Notes whether an element of the gradient is not finite.
  void check(mlir::Value gradient);
  /// Of gradients that are shards: notes whether one was on any rank.
  void checkRanks();
  /// Whether one was: then this step is left out.
  mlir::Value getOverflow() const { return overflow; }
  /// Number of the update, steps that were left out not counted. For functions that change the
  /// scale, as is `finish`.
  mlir::Value countUpdates(mlir::Value stepNumber);
  /// Makes the next step's state results of the function; `keep`: where it must stay as it is.
  void finish(mlir::Value keep);

private:
  StepBuilder &step;
  mlir::Location loc;
  mlir::Value scaleState, countState, skippedState;
  mlir::Value scale, inverse, overflow;
};

} // namespace trainc

#endif // TRAINC_TRANSFORMS_FORMSTEPS_LOSSSCALE_H
