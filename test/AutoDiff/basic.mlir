// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --autodiff --split-input-file | FileCheck %s

// The documented example: @forward stays, @gradients has the cotangent of the loss as an argument.
// CHECK-LABEL: func.func @forward
// CHECK-LABEL: func.func @gradients(
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<f32> {train.name = "w", train.role = "parameter", train.trainable}
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<f32> {train.name = "x", train.role = "input"}
// CHECK-SAME: %[[SCALE:[a-z0-9]+]]: tensor<f32> {train.name = "grad_scale", train.role = "hyper"}
// CHECK-SAME: -> (tensor<f32> {train.name = "loss", train.role = "loss"}, tensor<f32> {train.name = "w", train.role = "gradient"})
// CHECK: %[[LOSS:.*]] = train.mul %[[W]], %[[X]]
// CHECK: %[[G:.*]] = train.mul %[[SCALE]], %[[X]]
// CHECK: return %[[LOSS]], %[[G]]
func.func @forward(%w: tensor<f32> {train.role = "parameter", train.name = "w", train.trainable},
                   %x: tensor<f32> {train.role = "input", train.name = "x"})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %0 = train.mul %w, %x : tensor<f32>
  return %0 : tensor<f32>
}

// -----

// A value used twice: its cotangents are added, the later use's first. A parameter used twice (tied weights)
// has one gradient. Other outputs are gone.
// CHECK-LABEL: func.func @gradients(
// CHECK-SAME: -> (tensor<f32> {{[{].*[}]}}, tensor<f32> {{[{].*[}]}}) {
// CHECK: %[[E:.*]] = train.exp %[[W:[a-z0-9]+]]
// CHECK: %[[S:.*]] = train.sin %[[W]]
// CHECK: train.mul %[[E]], %[[S]]
// CHECK-DAG: %[[GE:.*]] = train.mul %[[SCALE:[a-z0-9]+]], %[[S]]
// CHECK-DAG: %[[GS:.*]] = train.mul %[[SCALE]], %[[E]]
// CHECK: %[[A:.*]] = train.mul %[[GS]], %{{.*}}
// CHECK: %[[B:.*]] = train.mul %[[GE]], %[[E]]
// CHECK: %[[G:.*]] = train.add %[[A]], %[[B]]
// CHECK-NOT: train.tanh
// CHECK: return %{{.*}}, %[[G]]
func.func @forward(%w: tensor<f32> {train.role = "parameter", train.name = "w", train.trainable})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}, tensor<f32> {train.role = "output", train.name = "o"}) {
  %0 = train.exp %w : tensor<f32>
  %1 = train.sin %w : tensor<f32>
  %2 = train.mul %0, %1 : tensor<f32>
  %3 = train.tanh %2 : tensor<f32>
  return %2, %3 : tensor<f32>, tensor<f32>
}

// -----

// Frozen parameters have no gradient, unused ones zeros; the product's other gradient is not computed.
// CHECK-LABEL: func.func @gradients(
// CHECK-SAME: tensor<2xf32> {train.name = "unused", train.role = "gradient", train.unused})
// CHECK: train.matmul
// CHECK: train.matmul %{{.*}} transposed
// CHECK-NOT: train.matmul
// CHECK: train.full 0.000000e+00 : f32 : tensor<2xf32>
func.func @forward(%w: tensor<4x4xf32> {train.role = "parameter", train.name = "w", train.trainable},
                   %frozen: tensor<4x4xf32> {train.role = "parameter", train.name = "frozen"},
                   %unused: tensor<2xf32> {train.role = "parameter", train.name = "unused", train.trainable})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %0 = train.matmul %frozen, %w : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %1 = train.reduce sum %0 axes = [0, 1] : tensor<4x4xf32> -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

// A product's right operand, the weight, has its gradient first: then the left one is needed no more.
// CHECK-LABEL: func.func @gradients(
// CHECK: %[[G:.*]] = train.broadcast
// CHECK: train.matmul %{{.*}} transposed, %[[G]]
// CHECK: train.matmul %[[G]], %{{.*}} transposed
// CHECK: return
func.func @forward(%v: tensor<4x3xf32> {train.role = "parameter", train.name = "v", train.trainable},
                   %w: tensor<3x4xf32> {train.role = "parameter", train.name = "w", train.trainable})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %0 = train.matmul %v, %w : tensor<4x3xf32>, tensor<3x4xf32> -> tensor<4x4xf32>
  %1 = train.reduce sum %0 axes = [0, 1] : tensor<4x4xf32> -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

// Integers and comparisons pass no gradient: the mask is data.
// CHECK-LABEL: func.func @gradients(
// CHECK: %[[M:.*]] = train.compare gt
// CHECK: train.select %[[M]]
// CHECK: train.select %[[M]]
// CHECK-NOT: train.select
// CHECK: return
func.func @forward(%w: tensor<4xf32> {train.role = "parameter", train.name = "w", train.trainable},
                   %x: tensor<4xf32> {train.role = "input", train.name = "x"})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %0 = train.compare gt %w, %x : tensor<4xf32> -> tensor<4xi1>
  %1 = train.select %0, %w, %x : tensor<4xi1>, tensor<4xf32>
  %2 = train.reduce sum %1 axes = [0] : tensor<4xf32> -> tensor<f32>
  return %2 : tensor<f32>
}

// -----

// Dropout's gradient is dropout of the cotangent with the same key, and keeps the node's location.
// CHECK-LABEL: func.func @gradients(
// CHECK: train.dropout %{{.*}}, %[[KEY:[a-z0-9]+]] {ratio = 5.000000e-01 : f64}
// CHECK: train.dropout %{{.*}}, %[[KEY]] {ratio = 5.000000e-01 : f64}
func.func @forward(%w: tensor<4xf32> {train.role = "parameter", train.name = "w", train.trainable},
                   %key: tensor<i64> {train.role = "hyper", train.name = "seed"})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %0 = train.dropout %w, %key {ratio = 0.5 : f64} : tensor<4xf32>, tensor<i64>
  %1 = train.reduce sum %0 axes = [0] : tensor<4xf32> -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

// A loss in half precision: the cotangent is cast to it.
// CHECK-LABEL: func.func @gradients(
// CHECK: train.cast %{{.*}} : tensor<f32> -> tensor<bf16>
func.func @forward(%w: tensor<bf16> {train.role = "parameter", train.name = "w", train.trainable})
    -> (tensor<bf16> {train.role = "loss", train.name = "loss"}) {
  %0 = train.exp %w : tensor<bf16>
  return %0 : tensor<bf16>
}

// -----

// A slice with a step: zeros follow each element along an axis of their own, from the start on, and nothing is scattered.
// CHECK-LABEL: func.func @gradients(
// CHECK-NOT: train.scatter_add
// CHECK: %[[A:.*]] = train.reshape {{.*}} : tensor<3x4xf32> -> tensor<3x4x1xf32>
// CHECK: %[[P:.*]] = train.pad %[[A]] {{.*}} low = <0, 0, 0> : tensor<3x4x1xf32> -> tensor<3x4x2xf32>
// CHECK: %[[J:.*]] = train.reshape %[[P]] : tensor<3x4x2xf32> -> tensor<3x8xf32>
// CHECK: %[[G:.*]] = train.pad %[[J]] {{.*}} low = <0, 1> : tensor<3x8xf32> -> tensor<3x9xf32>
// CHECK: return {{.*}}, %[[G]]
func.func @forward(%w: tensor<3x9xf32> {train.role = "parameter", train.name = "w", train.trainable},
                   %x: tensor<3x4xf32> {train.role = "input", train.name = "x"})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %0 = train.slice %w starts = <0, 1> steps = [1, 2] : tensor<3x9xf32> -> tensor<3x4xf32>
  %1 = train.mul %0, %x : tensor<3x4xf32>
  %2 = train.reduce sum %1 axes = [0, 1] : tensor<3x4xf32> -> tensor<f32>
  return %2 : tensor<f32>
}
