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
    first one), which `@update` then takes as gradients. `@eval` is `@forward` as
    `EvalModeOpInterface` has it (dropout is the identity), with all outputs; `@step` and `@micro` compute the
    loss and state only. `@forward` and `@gradients` are removed.

    A loss that is not finite sets the state `nonfinite` (i32) to 1. While it is set, every update of `@step`,
    `@micro` and `@update` returns its argument unchanged.

    Without `@gradients` only `@eval` is made (inference); without `@update` no `@step`.

    ```mlir
    func.func @gradients(%w {train.role = "parameter", ...}, %x, %grad_scale) -> (loss, gradient of w)
    func.func @update(%w, %g {train.role = "gradient", ...}, %lr, ...) -> (update of w)
    // become, among others
    func.func @step(%w, %x, %nonfinite {train.role = "state", ...}, %grad_scale, %lr, ...)
        -> (loss, update of w, update of nonfinite)
    ```
  }];
  let dependentDialects = ["::trainc::train::TrainDialect", "::mlir::func::FuncDialect"];
  let options = [
    Option<"micro", "micro", "bool", "true", "make @micro and keep @update, for gradient accumulation">,
    Option<"eval", "eval", "bool", "true", "make @eval">,
  ];
}

#endif // TRAINC_TRANSFORMS_FORMSTEPS_TD
