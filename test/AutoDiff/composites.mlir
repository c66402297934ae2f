// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --autodiff --split-input-file | FileCheck %s

// Guarded softmax: rows without a finite element let no cotangent through.
// CHECK-LABEL: func.func @gradients(
// CHECK: %[[Y:.*]] = train.softmax %{{.*}} axis = 1 guarded
// CHECK: %[[LIVE:.*]] = train.compare ne %[[Y]]
// CHECK: train.select %[[LIVE]]
func.func @forward(%w: tensor<4x8xf32> {train.role = "parameter", train.name = "w", train.trainable},
                   %x: tensor<4x8xf32> {train.role = "input", train.name = "x"})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %0 = train.softmax %w axis = 1 guarded : tensor<4x8xf32>
  %1 = train.mul %0, %x : tensor<4x8xf32>
  %2 = train.reduce sum %1 axes = [0, 1] : tensor<4x8xf32> -> tensor<f32>
  return %2 : tensor<f32>
}

// -----

// Layer normalisation uses its own mean and rstd; scale and bias get column sums.
// CHECK-LABEL: func.func @gradients(
// CHECK: %[[Y:.*]], %[[MEAN:.*]], %[[RSTD:.*]] = train.layer_norm
// CHECK-DAG: train.broadcast %[[RSTD]]
// CHECK-DAG: train.broadcast %[[MEAN]]
// CHECK: %[[DS:.*]] = train.reduce sum %{{.*}} axes = [0] : tensor<4x8xf32> -> tensor<8xf32>
// CHECK: %[[DB:.*]] = train.reduce sum %{{.*}} axes = [0] : tensor<4x8xf32> -> tensor<8xf32>
// CHECK: return %{{.*}}, %{{.*}}, %[[DS]], %[[DB]]
func.func @forward(%x: tensor<4x8xf32> {train.role = "parameter", train.name = "x", train.trainable},
                   %s: tensor<8xf32> {train.role = "parameter", train.name = "s", train.trainable},
                   %b: tensor<8xf32> {train.role = "parameter", train.name = "b", train.trainable})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %0, %m, %r = train.layer_norm %x, %s, %b {axis = 1 : i64, epsilon = 1.0e-5 : f64}
      : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>)
  %1 = train.reduce sum %0 axes = [0, 1] : tensor<4x8xf32> -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

// Cross entropy: no gather and no scatter, ignored rows are zero.
// CHECK-LABEL: func.func @gradients(
// CHECK: train.cross_entropy
// CHECK: train.iota 1 : tensor<4x8xi32>
// CHECK-NOT: train.gather
// CHECK-NOT: train.scatter
// CHECK: train.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<4x8xi1>, tensor<4x8xf32>
// CHECK: return
func.func @forward(%w: tensor<4x8xf32> {train.role = "parameter", train.name = "w", train.trainable},
                   %y: tensor<4xi64> {train.role = "input", train.name = "y"})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %0, %lse = train.cross_entropy %w, %y {ignore_index = -100 : i64}
      : (tensor<4x8xf32>, tensor<4xi64>) -> (tensor<4xf32>, tensor<4xf32>)
  %1 = train.reduce sum %0 axes = [0] : tensor<4xf32> -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

// Gradients of a product, in the layout of each operand.
// CHECK-LABEL: func.func @gradients(
// CHECK-SAME: %[[A:[a-z0-9]+]]: tensor<3x4xf32>
// CHECK-SAME: %[[B:[a-z0-9]+]]: tensor<5x4xf32>
// CHECK: train.matmul %[[A]], %[[B]] transposed
// CHECK-DAG: train.matmul %[[G:.*]], %[[B]] : tensor<3x5xf32>, tensor<5x4xf32> -> tensor<3x4xf32>
// CHECK-DAG: train.matmul %[[G]] transposed, %[[A]] : tensor<3x5xf32>, tensor<3x4xf32> -> tensor<5x4xf32>
func.func @forward(%a: tensor<3x4xf32> {train.role = "parameter", train.name = "a", train.trainable},
                   %b: tensor<5x4xf32> {train.role = "parameter", train.name = "b", train.trainable})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %0 = train.matmul %a, %b transposed : tensor<3x4xf32>, tensor<5x4xf32> -> tensor<3x5xf32>
  %1 = train.exp %0 : tensor<3x5xf32>
  %2 = train.reduce sum %1 axes = [0, 1] : tensor<3x5xf32> -> tensor<f32>
  return %2 : tensor<f32>
}
