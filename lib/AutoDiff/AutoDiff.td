// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `autodiff`.
#ifndef TRAINC_AUTODIFF_AUTODIFF_TD
#define TRAINC_AUTODIFF_AUTODIFF_TD

include "mlir/Pass/PassBase.td"

def AutoDiffPass : Pass<"autodiff", "::mlir::ModuleOp"> {
  let summary = "adds the gradients of the loss: @forward -> @gradients";
  let description = [{
    Reverse-mode differentiation. `@gradients` takes the arguments of `@forward` and the hyper-parameter
    `grad_scale`, the loss's cotangent, and returns the loss and one gradient for each trainable parameter, in
    the order of the arguments. `@forward` stays.

    An op is differentiated by `DifferentiableOpInterface::buildVJP` where it is active: an operand depends on
    a trainable parameter, and a result reaches the loss, both through differentiable operands. Cotangents of a
    value that is used several times are added in reverse program order. A parameter that the loss does not
    depend on gets zeros, and its result is marked `train.unused`, so that no optimizer touches it (PyTorch's
    `grad is None`).

    A function that returns gradients itself (`train.role = "gradient"`, as PyTorch's joint graphs and the
    training models of ONNX Runtime do) is not differentiated: these, times `grad_scale`, are those of
    `@gradients`, and `@forward` loses them.

    Fails where the loss is missing or not a float scalar, or where an active op has no derivative: the error
    names its node. Warns where the loss depends on no trainable parameter.

    ```mlir
    func.func @forward(%w: tensor<f32> {train.role = "parameter", train.name = "w", train.trainable},
                       %x: tensor<f32> {train.role = "input", train.name = "x"})
        -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
      %0 = train.mul %w, %x : tensor<f32>
      return %0 : tensor<f32>
    }
    // adds
    func.func @gradients(%w: tensor<f32> {train.name = "w", train.role = "parameter", train.trainable},
        %x: tensor<f32> {train.name = "x", train.role = "input"},
        %grad_scale: tensor<f32> {train.name = "grad_scale", train.role = "hyper"})
        -> (tensor<f32> {train.name = "loss", train.role = "loss"},
            tensor<f32> {train.name = "w", train.role = "gradient"}) {
      %0 = train.mul %w, %x : tensor<f32>
      %1 = train.mul %grad_scale, %x : tensor<f32>
      return %0, %1 : tensor<f32>, tensor<f32>
    }
    ```
  }];
  let dependentDialects = ["::trainc::train::TrainDialect", "::mlir::func::FuncDialect"];
}

#endif // TRAINC_AUTODIFF_AUTODIFF_TD
