// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --autodiff --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s

// Derived ops keep the location of the node that they derive from.
// CHECK-LABEL: func.func @gradients(
// CHECK: train.exp %{{.*}} loc("exp_1")
// CHECK: train.sin %{{.*}} loc("sin_2")
// CHECK: train.cos %{{.*}} loc("sin_2")
// CHECK: train.mul %{{.*}} loc("sin_2")
// CHECK: train.mul %{{.*}} loc("exp_1")
func.func @forward(%w: tensor<f32> {train.role = "parameter", train.name = "w", train.trainable})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %0 = train.exp %w : tensor<f32> loc("exp_1")
  %1 = train.sin %0 : tensor<f32> loc("sin_2")
  return %1 : tensor<f32>
}
