// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The loss scale as state: gradients that fit are used unscaled, others skip the step and halve the scale.
// RUN: split-file %s %t
// RUN: trainc-opt %t/fits.mlir --autodiff --attach-optimizer=kind=sgd --form-steps=loss-scaling | FileCheck %s --check-prefix=ROLES
// RUN: trainc-test-opt %t/fits.mlir --autodiff --attach-optimizer=kind=sgd --form-steps=loss-scaling --test-evaluate --mlir-disable-threading -o /dev/null | FileCheck %s --check-prefix=FITS
// RUN: trainc-test-opt %t/overflows.mlir --autodiff --attach-optimizer=kind=sgd --form-steps=loss-scaling --test-evaluate --mlir-disable-threading -o /dev/null | FileCheck %s --check-prefix=OVER

// ROLES: func.func @step(
// ROLES-SAME: tensor<i32> {train.name = "nonfinite", train.role = "state"}
// ROLES-SAME: tensor<f32> {train.name = "loss_scale", train.role = "state"}
// ROLES-SAME: tensor<i32> {train.name = "growth_count", train.role = "state"}
// ROLES-SAME: tensor<i64> {train.name = "skipped_steps", train.role = "state"}
// ROLES: func.func @micro(
// ROLES-SAME: tensor<f32> {train.name = "loss_scale", train.role = "state"}
// ROLES-NOT: growth_count
// ROLES: func.func @update(
// ROLES-SAME: {train.name = "skipped_steps", train.role = "state"}

// Arguments without a value are filled by the evaluator: 0.5 for floats, 0 for integers. A state of 0.5 is a scale of 0.5, and
// the gradient is that of grad_scale 0.5: w - 0.5 * (0.5 + 0.5 * w).
// FITS-LABEL: @step
// FITS-NEXT: []: 5
// FITS-NEXT: [2]: 1.25 2
// FITS-NEXT: []: 0.5
// FITS-NEXT: []: 1
// FITS-NEXT: []: 0
// FITS-NEXT: []: 0
// The accumulators 0.5, -1 and the gradient 0.5.
// FITS-LABEL: @micro
// FITS-NEXT: []: 5
// FITS-NEXT: [2]: 1 -0.5
// FITS-NEXT: []: 0

//--- fits.mlir
func.func @forward(%w: tensor<2xf32> {train.role = "parameter", train.name = "w", train.trainable,
                                      testdialect.value = dense<[2.0, 3.0]> : tensor<2xf32>})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %0 = train.reduce sum %w axes = [0] : tensor<2xf32> -> tensor<f32>
  return %0 : tensor<f32>
}

// The derivative of a square root at 0 is infinite, the loss is not.
// OVER-LABEL: @step
// OVER-NEXT: []: 2
// OVER-NEXT: [2]: 0 4
// OVER-NEXT: []: 0.25
// OVER-NEXT: []: 0
// OVER-NEXT: []: 1
// OVER-NEXT: []: 0
// OVER-LABEL: @micro
// OVER-NEXT: []: 2
// OVER-NEXT: [2]: inf -0.875

//--- overflows.mlir
func.func @forward(%w: tensor<2xf32> {train.role = "parameter", train.name = "w", train.trainable,
                                      testdialect.value = dense<[0.0, 4.0]> : tensor<2xf32>})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %1 = train.sqrt %w : tensor<2xf32>
  %0 = train.reduce sum %1 axes = [0] : tensor<2xf32> -> tensor<f32>
  return %0 : tensor<f32>
}
