// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rows that are elsewhere, behind a reshape that joins axes (windows of an image put back), are read where they lie.
// RUN: trainc-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(form-kernels))' | FileCheck %s

// Windows as rows of the image: the norm reads the product itself, with its bias.
// CHECK-LABEL: func.func @windows_back
// CHECK: %[[P:.*]] = train.matmul
// CHECK: %[[V:.*]] = train.reshape %[[P]]
// CHECK: train.fusion(%[[V]], %arg2, %arg3)
// CHECK: train.transpose
// CHECK: train.reshape {{.*}} -> tensor<2x16x8xf32>
// CHECK: train.reduce sum
// CHECK-NOT: train.fusion
// CHECK: return
func.func @windows_back(%x: tensor<32x8xf32>, %w: tensor<8x8xf32>, %bias: tensor<8xf32>, %residual: tensor<2x16x8xf32>) -> tensor<2x16xf32> {
  %0 = train.matmul %x, %w : tensor<32x8xf32>, tensor<8x8xf32> -> tensor<32x8xf32>
  %1 = train.reshape %0 : tensor<32x8xf32> -> tensor<8x4x8xf32>
  %2 = train.broadcast %bias axes = [2] : tensor<8xf32> -> tensor<8x4x8xf32>
  %3 = train.add %1, %2 : tensor<8x4x8xf32>
  %4 = train.reshape %3 : tensor<8x4x8xf32> -> tensor<2x2x2x2x2x8xf32>
  %5 = train.transpose %4 permutation = [0, 1, 3, 2, 4, 5] : tensor<2x2x2x2x2x8xf32> -> tensor<2x2x2x2x2x8xf32>
  %6 = train.reshape %5 : tensor<2x2x2x2x2x8xf32> -> tensor<2x16x8xf32>
  %7 = train.add %6, %residual : tensor<2x16x8xf32>
  %8 = train.reduce sum %7 axes = [2] : tensor<2x16x8xf32> -> tensor<2x16xf32>
  return %8 : tensor<2x16xf32>
}

// -----

// A cyclic shift and windows of what it gives are one copy, which a product reads.
// CHECK-LABEL: func.func @shifted_windows
// CHECK: train.fusion(%arg0)
// CHECK: train.concat
// CHECK: train.reshape {{.*}} -> tensor<2x2x2x2x2x8xf32>
// CHECK: train.transpose
// CHECK: }
// CHECK-NOT: train.fusion
// CHECK: train.matmul
func.func @shifted_windows(%x: tensor<2x4x4x8xf32>, %w: tensor<8x8xf32>) -> tensor<32x8xf32> {
  %0 = train.slice %x starts = <0, 1, 0, 0> steps = [1, 1, 1, 1] : tensor<2x4x4x8xf32> -> tensor<2x3x4x8xf32>
  %1 = train.slice %x starts = <0, 0, 0, 0> steps = [1, 1, 1, 1] : tensor<2x4x4x8xf32> -> tensor<2x1x4x8xf32>
  %2 = train.concat %0, %1 axis = 1 : (tensor<2x3x4x8xf32>, tensor<2x1x4x8xf32>) -> tensor<2x4x4x8xf32>
  %3 = train.reshape %2 : tensor<2x4x4x8xf32> -> tensor<2x2x2x2x2x8xf32>
  %4 = train.transpose %3 permutation = [0, 1, 3, 2, 4, 5] : tensor<2x2x2x2x2x8xf32> -> tensor<2x2x2x2x2x8xf32>
  %5 = train.reshape %4 : tensor<2x2x2x2x2x8xf32> -> tensor<32x8xf32>
  %6 = train.matmul %5, %w : tensor<32x8xf32>, tensor<8x8xf32> -> tensor<32x8xf32>
  return %6 : tensor<32x8xf32>
}

// -----

// Elements that leave their row are copied once: every reader would read across.
// CHECK-LABEL: func.func @across
// CHECK: train.fusion(%arg0) : (tensor<2x8x4x4xf32>) -> tensor<2x4x4x8xf32>
// CHECK: train.reshape
// CHECK: train.fusion
func.func @across(%x: tensor<2x8x4x4xf32>) -> tensor<2x16xf32> {
  %0 = train.transpose %x permutation = [0, 2, 3, 1] : tensor<2x8x4x4xf32> -> tensor<2x4x4x8xf32>
  %1 = train.reshape %0 : tensor<2x4x4x8xf32> -> tensor<2x16x8xf32>
  %2 = train.reduce sum %1 axes = [2] : tensor<2x16x8xf32> -> tensor<2x16xf32>
  return %2 : tensor<2x16xf32>
}

// -----

// The gradient of every other row is that row, or zero: no array of both is stored.
// CHECK-LABEL: func.func @between_zeros
// CHECK: %[[G:.*]] = train.reshape %arg0
// CHECK: train.fusion(%[[G]], %arg1)
// CHECK: train.pad
// CHECK: train.reshape {{.*}} -> tensor<2x8x8xf32>
// CHECK: train.add
// CHECK-NOT: train.fusion
// CHECK: return
func.func @between_zeros(%g: tensor<2x4x8xf32>, %y: tensor<2x8x8xf32>) -> tensor<2x8x8xf32> {
  %0 = train.reshape %g : tensor<2x4x8xf32> -> tensor<2x4x1x8xf32>
  %1 = train.pad %0 value = 0.000000e+00 : f32 low = <0, 0, 0, 0> : tensor<2x4x1x8xf32> -> tensor<2x4x2x8xf32>
  %2 = train.reshape %1 : tensor<2x4x2x8xf32> -> tensor<2x8x8xf32>
  %3 = train.add %2, %y : tensor<2x8x8xf32>
  return %3 : tensor<2x8x8xf32>
}
