// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --autodiff --split-input-file --verify-diagnostics | FileCheck %s

// Gradients that the function returns itself are taken as they are, times grad_scale, in the order of the
// parameters; @forward loses them and what only they needed.
// CHECK-LABEL: func.func @forward
// CHECK-SAME: -> (tensor<f32> {train.name = "loss", train.role = "loss"}) {
// CHECK-NOT: train.sin
// CHECK-LABEL: func.func @gradients
// CHECK-SAME: %[[V:[a-z0-9]+]]: tensor<f32> {{[{]}}train.name = "v"
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<f32> {{[{]}}train.name = "w"
// CHECK-SAME: %[[SCALE:[a-z0-9]+]]: tensor<f32> {train.name = "grad_scale", train.role = "hyper"}
// CHECK-SAME: tensor<f32> {train.name = "v", train.role = "gradient"}, tensor<f32> {train.name = "w", train.role = "gradient"})
// CHECK: %[[S:.*]] = train.sin %[[V]]
// CHECK: %[[GV:.*]] = train.mul %[[W]], %[[SCALE]]
// CHECK: %[[GW:.*]] = train.mul %[[S]], %[[SCALE]]
// CHECK: return %{{.*}}, %[[GV]], %[[GW]]
func.func @forward(%v: tensor<f32> {train.role = "parameter", train.name = "v", train.trainable},
                   %w: tensor<f32> {train.role = "parameter", train.name = "w", train.trainable})
    -> (tensor<f32> {train.role = "gradient", train.name = "w"}, tensor<f32> {train.role = "loss", train.name = "loss"},
        tensor<f32> {train.role = "gradient", train.name = "v"}) {
  %0 = train.mul %v, %w : tensor<f32>
  %1 = train.sin %v : tensor<f32>
  return %1, %0, %w : tensor<f32>, tensor<f32>, tensor<f32>
}

// -----

// One that is missing is named.
// expected-error @below {{expected a gradient of the trainable parameter 'w'}}
func.func @forward(%v: tensor<f32> {train.role = "parameter", train.name = "v", train.trainable},
                   // expected-note@+1 {{the parameter is argument 1 'w' of @gradients, of type 'tensor<f32>'}}
                   %w: tensor<f32> {train.role = "parameter", train.name = "w", train.trainable})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}, tensor<f32> {train.role = "gradient", train.name = "v"}) {
  %0 = train.mul %v, %w : tensor<f32>
  return %0, %w : tensor<f32>, tensor<f32>
}
