// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --form-eval --autodiff --form-steps=micro=false | FileCheck %s

// A function that returns the updates itself: a step of them, guarded as any other; no @micro, no @update.
// CHECK-NOT: @micro
// CHECK-NOT: @update
// CHECK-LABEL: func.func @step
// CHECK-SAME: tensor<f32> {train.name = "loss", train.role = "loss"}
// CHECK-SAME: tensor<4xf32> {train.name = "w", train.role = "update", train.updates = "parameter"}
// CHECK: train.select
// CHECK-LABEL: func.func @eval
// CHECK-SAME: -> (tensor<f32> {train.loss_weight = "", train.name = "loss", train.role = "loss"})
func.func @forward(%w: tensor<4xf32> {train.role = "parameter", train.name = "w"})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"},
        tensor<4xf32> {train.role = "update", train.name = "w", train.updates = "parameter"}) {
  %0 = train.mul %w, %w : tensor<4xf32>
  %1 = train.reduce sum %0 axes = [0] : tensor<4xf32> -> tensor<f32>
  return %1, %0 : tensor<f32>, tensor<4xf32>
}
