// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `form-eval`.
#ifndef TRAINC_TRANSFORMS_FORMEVAL_TD
#define TRAINC_TRANSFORMS_FORMEVAL_TD

include "mlir/Pass/PassBase.td"

def FormEvalPass : Pass<"form-eval", "::mlir::ModuleOp"> {
  let summary = "the forward pass for evaluation, and for training without what only evaluation needs";
  let description = [{
    `@eval` is `@forward` as `EvalModeOpInterface` has it (dropout is the identity, also where it is written out as a
    drawn mask that is scaled by the inverse of what it keeps), with all outputs and without
    updates and gradients. Where there is a loss, `@forward` keeps it, gradients and updates only: what made the other outputs is
    removed, so that passes on the training graph are not held back by values that a step never returns.

    Where the loss is a quotient of sums over rows, the mean of labels that count or of elements that a mask leaves,
    its denominator becomes an output of `@eval`, which the loss names (`train.loss_weight`): the losses of batches,
    weighted by it, give that of all rows. The function `@loss_weight` computes it alone, for the micro-batches of a
    step, which are weighted before their gradients are added up. A denominator that is a multiple of the number of rows needs none
    (`train.loss_weight = ""`).

    ```mlir
    func.func @forward(%w: tensor<f32> {train.role = "parameter", train.name = "w", train.trainable},
                       %x: tensor<f32> {train.role = "input", train.name = "x"})
        -> (tensor<f32> {train.role = "loss", train.name = "loss"}, tensor<f32> {train.role = "output", train.name = "y"}) {
      %0 = train.mul %w, %x : tensor<f32>
      %1 = train.mul %0, %0 : tensor<f32>
      return %1, %0 : tensor<f32>, tensor<f32>
    }
    // becomes
    func.func @forward(%w: tensor<f32> {train.name = "w", train.role = "parameter", train.trainable},
        %x: tensor<f32> {train.name = "x", train.role = "input"})
        -> (tensor<f32> {train.name = "loss", train.role = "loss"}) {
      %0 = train.mul %w, %x : tensor<f32>
      %1 = train.mul %0, %0 : tensor<f32>
      return %1 : tensor<f32>
    }
    func.func @eval(%w: tensor<f32> {train.name = "w", train.role = "parameter", train.trainable},
        %x: tensor<f32> {train.name = "x", train.role = "input"})
        -> (tensor<f32> {train.loss_weight = "", train.name = "loss", train.role = "loss"},
            tensor<f32> {train.name = "y", train.role = "output"}) {
      %0 = train.mul %w, %x : tensor<f32>
      %1 = train.mul %0, %0 : tensor<f32>
      return %1, %0 : tensor<f32>, tensor<f32>
    }
    ```
  }];
  let dependentDialects = ["::trainc::train::TrainDialect", "::mlir::func::FuncDialect"];
}

#endif // TRAINC_TRANSFORMS_FORMEVAL_TD
