// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --mixed-precision=products | FileCheck %s
// RUN: trainc-opt %s --mixed-precision=products --remark-format=emitRemark --remarks-filter=".*" 2>&1 | FileCheck %s --check-prefix=REMARK

// Matmuls alone; a convolution stays in f32, and that is told.
// CHECK-LABEL: func.func @both
// CHECK: train.conv {{.*}} : (tensor<2x9x9x4xf32>, tensor<6x3x3x4xf32>) -> tensor<2x9x9x6xf32>
// CHECK: train.matmul {{.*}} : tensor<4x8xbf16>, tensor<8x2xbf16> -> tensor<4x2xbf16>
// REMARK: remark: [Missed] NotLowered
// REMARK-SAME: Reason="the target computes only matmuls in bf16", Remark="train.conv stays in f32"
// REMARK: remark: [Passed] Lowered
func.func @both(%i: tensor<2x9x9x4xf32>, %f: tensor<6x3x3x4xf32>, %x: tensor<4x8xf32>, %w: tensor<8x2xf32>) -> (tensor<2x9x9x6xf32>, tensor<4x2xf32>) {
  %0 = train.conv %i, %f strides = [1, 1] dilations = [1, 1] low = <1, 1> high = <1, 1> groups = 1
      : (tensor<2x9x9x4xf32>, tensor<6x3x3x4xf32>) -> tensor<2x9x9x6xf32>
  %1 = train.matmul %x, %w : tensor<4x8xf32>, tensor<8x2xf32> -> tensor<4x2xf32>
  return %0, %1 : tensor<2x9x9x6xf32>, tensor<4x2xf32>
}
