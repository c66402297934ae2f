// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --widen-types=products | FileCheck %s

// A matmul of bf16 keeps its factors, through views, and stores its sums; what reads it needs no cast.
// CHECK-LABEL: func.func @kept
// CHECK: %[[X:.*]] = train.cast %arg0 : tensor<4x8xf32> -> tensor<4x8xbf16>
// CHECK: %[[W:.*]] = train.transpose %arg1 permutation = [1, 0] : tensor<2x8xbf16> -> tensor<8x2xbf16>
// CHECK: %[[Y:.*]] = train.matmul %[[X]], %[[W]] : tensor<4x8xbf16>, tensor<8x2xbf16> -> tensor<4x2xf32>
// CHECK: train.exp %{{.*}} : tensor<4x2xf32>
func.func @kept(%x: tensor<4x8xf32>, %w: tensor<2x8xbf16>) -> tensor<4x2xf32> {
  %0 = train.cast %x : tensor<4x8xf32> -> tensor<4x8xbf16>
  %1 = train.transpose %w permutation = [1, 0] : tensor<2x8xbf16> -> tensor<8x2xbf16>
  %2 = train.matmul %0, %1 : tensor<4x8xbf16>, tensor<8x2xbf16> -> tensor<4x2xbf16>
  %3 = train.cast %2 : tensor<4x2xbf16> -> tensor<4x2xf32>
  %4 = train.exp %3 : tensor<4x2xf32>
  return %4 : tensor<4x2xf32>
}

// What is computed is f32, and so is a view of it; a factor is rounded where the graph has it.
// CHECK-LABEL: func.func @rounded
// CHECK: %[[P:.*]] = train.matmul %arg0, %arg1 : tensor<4x8xbf16>, tensor<8x4xbf16> -> tensor<4x4xf32>
// CHECK: %[[E:.*]] = train.exp %[[P]] : tensor<4x4xf32>
// CHECK: %[[T:.*]] = train.transpose %[[E]] permutation = [1, 0] : tensor<4x4xf32> -> tensor<4x4xf32>
// CHECK: %[[L:.*]] = train.cast %[[T]] : tensor<4x4xf32> -> tensor<4x4xbf16>
// CHECK: %[[R:.*]] = train.matmul %[[L]], %arg0 : tensor<4x4xbf16>, tensor<4x8xbf16> -> tensor<4x8xf32>
// CHECK: %[[N:.*]] = train.cast %[[R]] : tensor<4x8xf32> -> tensor<4x8xbf16>
// CHECK: return %[[N]]
func.func @rounded(%x: tensor<4x8xbf16>, %w: tensor<8x4xbf16>) -> tensor<4x8xbf16> {
  %0 = train.matmul %x, %w : tensor<4x8xbf16>, tensor<8x4xbf16> -> tensor<4x4xbf16>
  %1 = train.exp %0 : tensor<4x4xbf16>
  %2 = train.transpose %1 permutation = [1, 0] : tensor<4x4xbf16> -> tensor<4x4xbf16>
  %3 = train.matmul %2, %x : tensor<4x4xbf16>, tensor<4x8xbf16> -> tensor<4x8xbf16>
  return %3 : tensor<4x8xbf16>
}

// The library has none of f16.
// CHECK-LABEL: func.func @half
// CHECK: train.matmul {{.*}} : tensor<4x8xf32>, tensor<8x4xf32> -> tensor<4x4xf32>
func.func @half(%x: tensor<4x8xf16>, %w: tensor<8x4xf16>) -> tensor<4x4xf16> {
  %0 = train.matmul %x, %w : tensor<4x8xf16>, tensor<8x4xf16> -> tensor<4x4xf16>
  return %0 : tensor<4x4xf16>
}
