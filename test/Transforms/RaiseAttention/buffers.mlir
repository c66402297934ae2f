// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A mask that a model keeps for its longest row, of which a batch takes the corner: a formula of more coordinates than
// there are scores (see `onnx.band`).
// RUN: trainc-opt %s --pass-pipeline='builtin.module(func.func(hoist-slices,canonicalize,raise-attention{type=bf16}))' | FileCheck %s

// CHECK-LABEL: func.func @local
// CHECK: train.attention {{.*}} causal {before = 255
// CHECK-NOT: train.softmax
func.func @local(%q: tensor<2x4x512x16xf32>, %k: tensor<2x4x512x16xf32>, %v: tensor<2x4x512x16xf32>) -> tensor<2x4x512x16xf32> {
  %column = train.iota 3 : tensor<1x1x2048x2048xi64>
  %row = train.iota 2 : tensor<1x1x2048x2048xi64>
  %0 = train.compare le %column, %row : tensor<1x1x2048x2048xi64> -> tensor<1x1x2048x2048xi1>
  %1 = train.full 255 : i64 : tensor<1x1x2048x2048xi64>
  %2 = train.add %column, %1 : tensor<1x1x2048x2048xi64>
  %3 = train.compare le %row, %2 : tensor<1x1x2048x2048xi64> -> tensor<1x1x2048x2048xi1>
  %4 = train.and %0, %3 : tensor<1x1x2048x2048xi1>
  %5 = train.slice %4 starts = <0, 0, 0, 0> steps = [1, 1, 1, 1] : tensor<1x1x2048x2048xi1> -> tensor<1x1x512x2048xi1>
  %6 = train.slice %5 starts = <0, 0, 0, 0> steps = [1, 1, 1, 1] : tensor<1x1x512x2048xi1> -> tensor<1x1x512x512xi1>
  %7 = train.reshape %6 : tensor<1x1x512x512xi1> -> tensor<512x512xi1>
  %8 = train.broadcast %7 axes = [2, 3] : tensor<512x512xi1> -> tensor<2x4x512x512xi1>
  %9 = train.matmul %q, %k transposed : tensor<2x4x512x16xf32>, tensor<2x4x512x16xf32> -> tensor<2x4x512x512xf32>
  %10 = train.full -3.40282347E+38 : f32 : tensor<2x4x512x512xf32>
  %11 = train.select %8, %9, %10 : tensor<2x4x512x512xi1>, tensor<2x4x512x512xf32>
  %12 = train.softmax %11 axis = 3 : tensor<2x4x512x512xf32>
  %13 = train.matmul %12, %v : tensor<2x4x512x512xf32>, tensor<2x4x512x16xf32> -> tensor<2x4x512x16xf32>
  return %13 : tensor<2x4x512x16xf32>
}
