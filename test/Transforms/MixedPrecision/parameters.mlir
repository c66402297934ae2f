// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --mixed-precision="type=bf16 parameters" | FileCheck %s

// Parameters of the low type say what they are rounded from; a frozen vector stays.
// CHECK: func.func @forward
// CHECK-SAME: tensor<2x8xbf16> {train.name = "w", train.quantized = {dtype = f32, format = "cast", shape = [2, 8]}, train.role = "parameter", train.trainable}
// CHECK-SAME: tensor<8xf32> {train.name = "table", train.role = "parameter"}
func.func @forward(%w: tensor<2x8xf32> {train.role = "parameter", train.name = "w", train.trainable},
    %t: tensor<8xf32> {train.role = "parameter", train.name = "table"},
    %x: tensor<4x8xf32> {train.role = "input", train.name = "x"}) -> tensor<4x2xf32> {
  %0 = train.broadcast %t axes = [1] : tensor<8xf32> -> tensor<4x8xf32>
  %1 = train.add %x, %0 : tensor<4x8xf32>
  %2 = train.matmul %1, %w transposed : tensor<4x8xf32>, tensor<2x8xf32> -> tensor<4x2xf32>
  return %2 : tensor<4x2xf32>
}

// In a model of the low type the residual stream is of it: an embedding's row plus a product, stored once and widened for its readers.
// Statistics of a row are f32, and what they scale.
// CHECK-LABEL: func.func @stream
// CHECK: %[[E:.*]] = train.gather
// CHECK: %[[P:.*]] = train.matmul {{.*}} -> tensor<4x8xbf16>
// CHECK: %[[A:.*]] = train.add %[[E]], {{.*}} : tensor<4x8xf32>
// CHECK: %[[L:.*]] = train.cast %[[A]] : tensor<4x8xf32> -> tensor<4x8xbf16>
// CHECK: %[[W:.*]] = train.cast %[[L]] : tensor<4x8xbf16> -> tensor<4x8xf32>
// CHECK: train.reduce sum %[[W]]
// CHECK: %[[N:.*]] = train.mul %[[W]], {{.*}} : tensor<4x8xf32>
// CHECK: return %[[W]], %[[N]], %[[N]]
func.func @stream(%w: tensor<8x8xf32> {train.role = "parameter", train.name = "w", train.trainable},
    %table: tensor<5x8xf32> {train.role = "parameter", train.name = "table", train.trainable},
    %ids: tensor<4xi64> {train.role = "input", train.name = "ids"}) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = train.gather %table, %ids axis = 0 : tensor<5x8xf32>, tensor<4xi64> -> tensor<4x8xf32>
  %1 = train.matmul %0, %w : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  %2 = train.add %0, %1 : tensor<4x8xf32>
  %3 = train.reduce sum %2 axes = [1] : tensor<4x8xf32> -> tensor<4xf32>
  %4 = train.broadcast %3 axes = [0] : tensor<4xf32> -> tensor<4x8xf32>
  %5 = train.mul %2, %4 : tensor<4x8xf32>
  return %2, %5, %5 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}

// What was normalised before it is added, as Gemma has it, is of the model's type, too, with rows of a batch (statistics of two axes) as
// without; so the residual stream is.
// CHECK-LABEL: func.func @sandwich
// CHECK: %[[B:.*]] = train.broadcast {{.*}} axes = [0, 1]
// CHECK: %[[N:.*]] = train.mul {{.*}}, %[[B]] : tensor<2x4x8xf32>
// CHECK: %[[S:.*]] = train.mul %[[N]], {{.*}} : tensor<2x4x8xf32>
// CHECK: %[[A:.*]] = train.add {{.*}}, %[[S]] : tensor<2x4x8xf32>
// CHECK: %[[L:.*]] = train.cast %[[A]] : tensor<2x4x8xf32> -> tensor<2x4x8xbf16>
// CHECK: %[[W:.*]] = train.cast %[[L]] : tensor<2x4x8xbf16> -> tensor<2x4x8xf32>
// CHECK: return %[[W]], %[[W]]
func.func @sandwich(%w: tensor<8x8xf32> {train.role = "parameter", train.name = "w", train.trainable},
    %scale: tensor<8xf32> {train.role = "parameter", train.name = "scale", train.trainable},
    %table: tensor<5x8xf32> {train.role = "parameter", train.name = "table", train.trainable},
    %ids: tensor<2x4xi64> {train.role = "input", train.name = "ids"}) -> (tensor<2x4x8xf32>, tensor<2x4x8xf32>) {
  %0 = train.gather %table, %ids axis = 0 : tensor<5x8xf32>, tensor<2x4xi64> -> tensor<2x4x8xf32>
  %10 = train.reshape %0 : tensor<2x4x8xf32> -> tensor<8x8xf32>
  %11 = train.matmul %10, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %1 = train.reshape %11 : tensor<8x8xf32> -> tensor<2x4x8xf32>
  %2 = train.mul %1, %1 : tensor<2x4x8xf32>
  %3 = train.reduce sum %2 axes = [2] : tensor<2x4x8xf32> -> tensor<2x4xf32>
  %4 = train.sqrt %3 : tensor<2x4xf32>
  %5 = train.broadcast %4 axes = [0, 1] : tensor<2x4xf32> -> tensor<2x4x8xf32>
  %6 = train.mul %1, %5 : tensor<2x4x8xf32>
  %7 = train.broadcast %scale axes = [2] : tensor<8xf32> -> tensor<2x4x8xf32>
  %8 = train.mul %6, %7 : tensor<2x4x8xf32>
  %9 = train.add %0, %8 : tensor<2x4x8xf32>
  return %9, %9 : tensor<2x4x8xf32>, tensor<2x4x8xf32>
}

// Rows of the low type: their indices are no numbers of it.
// CHECK-LABEL: func.func @rows
// CHECK: train.select_rows %{{.*}}, %arg1 inverse %arg2 axis = 0 : (tensor<4x8xbf16>, tensor<6xi32>, tensor<4xi32>) -> tensor<6x8xbf16>
func.func @rows(%w: tensor<8x8xf32> {train.role = "parameter", train.name = "w", train.trainable},
    %rows: tensor<6xi32>, %slots: tensor<4xi32>, %x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<6x8xf32>) {
  %0 = train.matmul %x, %w : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  %1 = train.matmul %0, %w : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  %2 = train.add %0, %1 : tensor<4x8xf32>
  %3 = train.select_rows %2, %rows inverse %slots axis = 0 : (tensor<4x8xf32>, tensor<6xi32>, tensor<4xi32>) -> tensor<6x8xf32>
  %4 = train.slice %3 starts = <0, 0> steps = [1, 1] : tensor<6x8xf32> -> tensor<4x8xf32>
  %5 = train.matmul %4, %w : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  %6 = train.matmul %3, %w : tensor<6x8xf32>, tensor<8x8xf32> -> tensor<6x8xf32>
  return %5, %6 : tensor<4x8xf32>, tensor<6x8xf32>
}
