// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --attach-optimizer=kind=sgd | FileCheck %s

// What is frozen has neither an update nor state; what the loss does not depend on is left out, and other functions stay.
// CHECK-LABEL: func.func @gradients
// CHECK-LABEL: func.func @eval
// CHECK-NEXT: return %arg0
// CHECK-LABEL: func.func @update
// CHECK-NOT: "frozen"
// CHECK-NOT: "unused"
// CHECK-COUNT-1: train.sgd
// CHECK-NOT: train.sgd
func.func @gradients(
    %w: tensor<8xf32> {train.role = "parameter", train.name = "w", train.trainable},
    %frozen: tensor<2xf32> {train.role = "parameter", train.name = "frozen"},
    %unused: tensor<2xf32> {train.role = "parameter", train.name = "unused", train.trainable})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}, tensor<8xf32> {train.role = "gradient", train.name = "w"},
        tensor<2xf32> {train.role = "gradient", train.name = "unused", train.unused}) {
  %0 = train.full 0.0 : f32 : tensor<f32>
  return %0, %w, %unused : tensor<f32>, tensor<8xf32>, tensor<2xf32>
}
func.func @eval(%w: tensor<8xf32> {train.role = "parameter", train.name = "w"}) -> (tensor<8xf32> {train.role = "output", train.name = "y"}) {
  return %w : tensor<8xf32>
}
