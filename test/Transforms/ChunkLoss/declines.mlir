// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-test-opt %s --split-input-file --chunk-loss="min-classes=8 min-rows=2 chunks=2" --remarks-filter=chunk-loss --remark-format=emitRemark 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t

// The gradient of a squared loss depends on the loss.
// CHECK-LABEL: func.func @forward
// CHECK-NOT: train.with_gradient
// REMARK: NotChunked{{.*}}Reason="its gradient depends on the losses", Remark="train.cross_entropy is computed at once"
func.func @forward(%w: tensor<8x4xf32> {train.role = "parameter", train.name = "w"},
    %x: tensor<6x4xf32> {train.role = "parameter", train.name = "x", train.trainable},
    %labels: tensor<6xi64> {train.role = "input", train.name = "labels"}) -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %0 = train.matmul %x, %w transposed : tensor<6x4xf32>, tensor<8x4xf32> -> tensor<6x8xf32>
  %loss, %lse = train.cross_entropy %0, %labels {ignore_index = -100 : i64} : (tensor<6x8xf32>, tensor<6xi64>) -> (tensor<6xf32>, tensor<6xf32>)
  %1 = train.mul %loss, %loss : tensor<6xf32>
  %2 = train.reduce sum %1 axes = [0] : tensor<6xf32> -> tensor<f32>
  return %2 : tensor<f32>
}

// -----

// CHECK-LABEL: func.func @forward
// CHECK-NOT: train.with_gradient
// REMARK: NotChunked{{.*}}its rows have fewer than 8 numbers
func.func @forward(%w: tensor<7x4xf32> {train.role = "parameter", train.name = "w"},
    %x: tensor<6x4xf32> {train.role = "parameter", train.name = "x", train.trainable},
    %labels: tensor<6xi64> {train.role = "input", train.name = "labels"}) -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %0 = train.matmul %x, %w transposed : tensor<6x4xf32>, tensor<7x4xf32> -> tensor<6x7xf32>
  %loss, %lse = train.cross_entropy %0, %labels {ignore_index = -100 : i64} : (tensor<6x7xf32>, tensor<6xi64>) -> (tensor<6xf32>, tensor<6xf32>)
  %1 = train.reduce sum %loss axes = [0] : tensor<6xf32> -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

// CHECK-LABEL: func.func @forward
// CHECK-NOT: train.with_gradient
// REMARK: NotChunked{{.*}}the weight of train.matmul is trained
func.func @forward(%w: tensor<1048576x4xf32> {train.role = "parameter", train.name = "w", train.trainable},
    %x: tensor<6x4xf32> {train.role = "input", train.name = "x"},
    %labels: tensor<6xi64> {train.role = "input", train.name = "labels"}) -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %0 = train.matmul %x, %w transposed : tensor<6x4xf32>, tensor<1048576x4xf32> -> tensor<6x1048576xf32>
  %loss, %lse = train.cross_entropy %0, %labels {ignore_index = -100 : i64} : (tensor<6x1048576xf32>, tensor<6xi64>) -> (tensor<6xf32>, tensor<6xf32>)
  %1 = train.reduce sum %loss axes = [0] : tensor<6xf32> -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

// CHECK-LABEL: func.func @forward
// CHECK-NOT: train.with_gradient
// REMARK: NotChunked{{.*}}more than its losses is read
func.func @forward(%w: tensor<8x4xf32> {train.role = "parameter", train.name = "w"},
    %x: tensor<6x4xf32> {train.role = "parameter", train.name = "x", train.trainable},
    %labels: tensor<6xi64> {train.role = "input", train.name = "labels"}) -> (tensor<f32> {train.role = "loss", train.name = "loss"}, tensor<6xf32> {train.role = "output", train.name = "lse"}) {
  %0 = train.matmul %x, %w transposed : tensor<6x4xf32>, tensor<8x4xf32> -> tensor<6x8xf32>
  %loss, %lse = train.cross_entropy %0, %labels {ignore_index = -100 : i64} : (tensor<6x8xf32>, tensor<6xi64>) -> (tensor<6xf32>, tensor<6xf32>)
  %1 = train.reduce sum %loss axes = [0] : tensor<6xf32> -> tensor<f32>
  return %1, %lse : tensor<f32>, tensor<6xf32>
}

// -----

// CHECK-LABEL: func.func @forward
// CHECK-NOT: train.with_gradient
// REMARK: NotChunked{{.*}}it has no more than 2 rows
func.func @forward(%w: tensor<8x4xf32> {train.role = "parameter", train.name = "w"},
    %x: tensor<2x4xf32> {train.role = "parameter", train.name = "x", train.trainable},
    %labels: tensor<2xi64> {train.role = "input", train.name = "labels"}) -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %0 = train.matmul %x, %w transposed : tensor<2x4xf32>, tensor<8x4xf32> -> tensor<2x8xf32>
  %loss, %lse = train.cross_entropy %0, %labels {ignore_index = -100 : i64} : (tensor<2x8xf32>, tensor<2xi64>) -> (tensor<2xf32>, tensor<2xf32>)
  %1 = train.reduce sum %loss axes = [0] : tensor<2xf32> -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

// CHECK-LABEL: func.func @forward
// CHECK-NOT: train.with_gradient
// REMARK: NotChunked{{.*}}the function returns no loss
func.func @forward(%w: tensor<8x4xf32> {train.role = "parameter", train.name = "w"},
    %x: tensor<6x4xf32> {train.role = "parameter", train.name = "x", train.trainable},
    %labels: tensor<6xi64> {train.role = "input", train.name = "labels"}) -> (tensor<f32> {train.role = "output", train.name = "loss"}) {
  %0 = train.matmul %x, %w transposed : tensor<6x4xf32>, tensor<8x4xf32> -> tensor<6x8xf32>
  %loss, %lse = train.cross_entropy %0, %labels {ignore_index = -100 : i64} : (tensor<6x8xf32>, tensor<6xi64>) -> (tensor<6xf32>, tensor<6xf32>)
  %1 = train.reduce sum %loss axes = [0] : tensor<6xf32> -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

// CHECK-LABEL: func.func @forward
// CHECK-NOT: train.with_gradient
// REMARK: NotChunked{{.*}}no projection makes its rows
func.func @forward(%x: tensor<6x8xf32> {train.role = "parameter", train.name = "x", train.trainable},
    %labels: tensor<6xi64> {train.role = "input", train.name = "labels"}) -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %loss, %lse = train.cross_entropy %x, %labels {ignore_index = -100 : i64} : (tensor<6x8xf32>, tensor<6xi64>) -> (tensor<6xf32>, tensor<6xf32>)
  %1 = train.reduce sum %loss axes = [0] : tensor<6xf32> -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

// Samples and positions lie apart in what makes the rows.
// CHECK-LABEL: func.func @forward
// CHECK-NOT: train.with_gradient
// REMARK: NotChunked{{.*}}testdialect.project does not keep rows apart
func.func @forward(%w: tensor<8x4xf32> {train.role = "parameter", train.name = "w"},
    %x: tensor<2x3x4xf32> {train.role = "parameter", train.name = "x", train.trainable},
    %labels: tensor<2x3xi64> {train.role = "input", train.name = "labels"}) -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %0 = testdialect.project %x, %w : (tensor<2x3x4xf32>, tensor<8x4xf32>) -> tensor<2x3x8xf32>
  %loss, %lse = train.cross_entropy %0, %labels {ignore_index = -100 : i64} : (tensor<2x3x8xf32>, tensor<2x3xi64>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
  %1 = train.reduce sum %loss axes = [0, 1] : tensor<2x3xf32> -> tensor<f32>
  return %1 : tensor<f32>
}
