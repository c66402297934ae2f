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
