// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `form-steps`.
#ifndef TRAINC_TRANSFORMS_FORMSTEPS_TD
#define TRAINC_TRANSFORMS_FORMSTEPS_TD

include "mlir/Pass/PassBase.td"

def FormStepsPass : Pass<"form-steps", "::mlir::ModuleOp"> {
  let summary = "makes the functions that the runtime calls: @step, @micro, @update, @eval";
  let description = [{
    `@step` is `@gradients` and `@update` in one, for one micro-batch a step: a gradient is consumed where it
    appears. `@micro` adds the gradients of one micro-batch to accumulators (zeroed by the runtime before the
    first one), which `@update` then takes as gradients. Both compute the loss and state only; `@eval` is
    `form-eval`'s. `@forward`, `@gradients` and `@exchange` are removed.

    A loss that is not finite sets the state `nonfinite` (i32) to 1, and so does a `verdict` of `@update`, the norm
    that is clipped. While it is set, every update of `@step`, `@micro` and `@update` returns its argument unchanged.

    An update without a verdict runs as soon as its gradient is there, when others are not known yet: where an element
    of its result is not finite, it returns the old one, and so do those of its optimizer state that have its shape;
    the runtime is told once (`train.reports`). It is told of sums of `@micro` that are not finite, too, and can leave
    out `@update`.

    With `loss-scaling`, for f16, the loss is multiplied by the state `loss_scale` (0 at first, which stands for
    65536) before the gradients are taken, and these are divided by it again before they are clipped, added or
    used. Where one of an update's gradients is not finite, `@step` and `@update` leave parameters and optimizer
    state as they are and halve the scale, without setting `nonfinite`; after 2000 updates in a row they double
    it (`growth_count`). `skipped_steps` are not counted in the optimizer's step number.

    `@exchange`, where `distribute` has made it, stands in `@step` between the gradients and what is done with them; whether
    the loss of any rank is not finite is exchanged in front of it (`train.verdict`), and `@absent_step` has the same
    exchanges, of zeros, and the same updates, for a rank without a batch. Of several micro-batches it stands in `@update`,
    or in `@micro` in front of the accumulators (`train.in_step`); then `@absent` exchanges zeros, for a rank that
    has no such micro-batch. Or it stands in `@micro` behind the accumulators (`train.with_last`): the runtime leaves it out of all
    micro-batches but a step's last one, and a rank without any exchanges them in `@absent`. `@shards` and `@publish` stand
    around the update.

    Outputs of `@update`, the norm of the gradients, are those of `@step` and `@update`: of gradients that are no
    longer scaled, and summed up over all micro-batches.

    Without `@gradients` nothing is made (inference); without `@update` no `@step`, unless `micro` is
    off: then `@gradients` returns all updates itself (a model with an algorithm of its own).

    ```mlir
    // autodiff,attach-optimizer{kind=sgd},form-steps
    func.func @forward(%w: tensor<f32> {train.role = "parameter", train.name = "w", train.trainable},
                       %x: tensor<f32> {train.role = "input", train.name = "x"})
        -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
      %0 = train.mul %w, %x : tensor<f32>
      return %0 : tensor<f32>
    }
    // becomes
    func.func @step(%w: tensor<f32> ..., %x: ..., %nonfinite: tensor<i32> ..., %grad_scale: ..., %lr: ...)...-> (...train.role = "loss"}, ...train.updates = "parameter"}, ...train.updates = "state"}) {
    ...
    %result = train.sgd %w, %gradient, %lr, %weight_decay, %step {...} : ...
    ...
    func.func @micro(...) {
    ...
    ```
  }];
  let dependentDialects = ["::trainc::train::TrainDialect", "::mlir::func::FuncDialect"];
  let options = [
    Option<"micro", "micro", "bool", "true", "make @micro and keep @update, for gradient accumulation">,
    Option<"lossScaling", "loss-scaling", "bool", "false",
           "multiply the loss by a power of two that follows what the gradients' type can hold">,
  ];
}

#endif // TRAINC_TRANSFORMS_FORMSTEPS_TD
