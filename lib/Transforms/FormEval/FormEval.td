// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `form-eval`.
#ifndef TRAINC_TRANSFORMS_FORMEVAL_TD
#define TRAINC_TRANSFORMS_FORMEVAL_TD

include "mlir/Pass/PassBase.td"

def FormEvalPass : Pass<"form-eval", "::mlir::ModuleOp"> {
  let summary = "the forward pass for evaluation, and for training without what only evaluation needs";
  let description = [{
    `@eval` is `@forward` as `EvalModeOpInterface` has it (dropout is the identity), with all outputs and without
    updates and gradients. Where there is a loss, `@forward` keeps it, gradients and updates only: what made the other outputs is
    removed, so that passes on the training graph are not held back by values that a step never returns.

    Where the loss is a quotient of sums over rows, the mean of labels that count or of elements that a mask leaves,
    its denominator becomes an output of `@eval`, which the loss names (`train.loss_weight`): the losses of batches,
    weighted by it, give that of all rows. A denominator that is a multiple of the number of rows needs none
    (`train.loss_weight = ""`).

    ```mlir
    func.func @forward(%w, %x) -> (loss, output "logits")
    // becomes
    func.func @forward(%w, %x) -> (loss)
    func.func @eval(%w, %x) -> (loss, output "logits")
    ```
  }];
  let dependentDialects = ["::trainc::train::TrainDialect", "::mlir::func::FuncDialect"];
}

#endif // TRAINC_TRANSFORMS_FORMEVAL_TD
