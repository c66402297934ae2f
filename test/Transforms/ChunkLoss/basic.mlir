// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --split-input-file --chunk-loss="min-classes=8 min-rows=2 chunks=2" | FileCheck %s
// RUN: trainc-opt %s --split-input-file --chunk-loss="min-classes=8 min-rows=2 chunks=2" --remarks-filter=chunk-loss --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// Soft-capped logits of three axes: each chunk has its product, and its gradient before the next one.
// CHECK-LABEL: func.func @forward
// CHECK: %[[X:[0-9]+]] = train.reshape %{{.*}} -> tensor<6x4xf32>
// CHECK: train.slice %[[X]] starts = <0, 0> {{.*}} -> tensor<3x4xf32>
// CHECK: train.matmul {{.*}} -> tensor<3x8xf32>
// CHECK: train.cross_entropy {{.*}}tensor<3x8xf32>
// CHECK: train.matmul {{.*}} -> tensor<3x4xf32>
// CHECK: train.slice %[[X]] starts = <3, 0> {{.*}} -> tensor<3x4xf32>
// CHECK: train.matmul {{.*}} -> tensor<3x8xf32>
// CHECK: train.cross_entropy {{.*}}tensor<3x8xf32>
// CHECK: train.matmul {{.*}} -> tensor<3x4xf32>
// CHECK: %[[G:[0-9]+]] = train.concat {{.*}} -> tensor<6x4xf32>
// CHECK: train.with_gradient %{{.*}} of %[[X]] are %[[G]]
// REMARK: Chunked{{.*}}train.cross_entropy is computed in 2 chunks
func.func @forward(%w: tensor<8x4xf32> {train.role = "parameter", train.name = "w"},
    %e: tensor<4xf32> {train.role = "parameter", train.name = "e", train.trainable},
    %x: tensor<2x3x4xf32> {train.role = "input", train.name = "x"},
    %labels: tensor<2x3xi64> {train.role = "input", train.name = "labels"}) -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %0 = train.broadcast %e axes = [2] : tensor<4xf32> -> tensor<2x3x4xf32>
  %1 = train.mul %x, %0 : tensor<2x3x4xf32>
  %2 = train.reshape %1 : tensor<2x3x4xf32> -> tensor<6x4xf32>
  %3 = train.matmul %2, %w transposed : tensor<6x4xf32>, tensor<8x4xf32> -> tensor<6x8xf32>
  %4 = train.reshape %3 : tensor<6x8xf32> -> tensor<2x3x8xf32>
  %5 = train.tanh %4 : tensor<2x3x8xf32>
  %6 = train.full 3.0 : f32 : tensor<2x3x8xf32>
  %7 = train.mul %5, %6 : tensor<2x3x8xf32>
  %8 = train.reshape %7 : tensor<2x3x8xf32> -> tensor<6x8xf32>
  %9 = train.reshape %labels : tensor<2x3xi64> -> tensor<6xi64>
  %loss, %lse = train.cross_entropy %8, %9 {ignore_index = -100 : i64} : (tensor<6x8xf32>, tensor<6xi64>) -> (tensor<6xf32>, tensor<6xf32>)
  %10 = train.reduce sum %loss axes = [0] : tensor<6xf32> -> tensor<f32>
  %11 = train.full 1.666667e-01 : f32 : tensor<f32>
  %12 = train.mul %10, %11 : tensor<f32>
  return %12 : tensor<f32>
}

// -----

// A small trained branch beside the projection: its gradients are added up.
// CHECK-LABEL: func.func @forward
// CHECK: train.with_gradient %{{.*}} of %{{.*}}, %{{.*}} are {{.*}}tensor<6x2xf32>, tensor<8x2xf32>
// REMARK: Chunked
func.func @forward(%w: tensor<8x4xf32> {train.role = "parameter", train.name = "w"},
    %a: tensor<2x4xf32> {train.role = "parameter", train.name = "a", train.trainable},
    %b: tensor<8x2xf32> {train.role = "parameter", train.name = "b", train.trainable},
    %x: tensor<6x4xf32> {train.role = "input", train.name = "x"},
    %labels: tensor<6xi64> {train.role = "input", train.name = "labels"}) -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %0 = train.matmul %x, %w transposed : tensor<6x4xf32>, tensor<8x4xf32> -> tensor<6x8xf32>
  %1 = train.matmul %x, %a transposed : tensor<6x4xf32>, tensor<2x4xf32> -> tensor<6x2xf32>
  %2 = train.matmul %1, %b transposed : tensor<6x2xf32>, tensor<8x2xf32> -> tensor<6x8xf32>
  %3 = train.add %0, %2 : tensor<6x8xf32>
  %loss, %lse = train.cross_entropy %3, %labels {ignore_index = -100 : i64} : (tensor<6x8xf32>, tensor<6xi64>) -> (tensor<6xf32>, tensor<6xf32>)
  %4 = train.reduce sum %loss axes = [0] : tensor<6xf32> -> tensor<f32>
  return %4 : tensor<f32>
}
