// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --widen-types | FileCheck %s

// Operands and results keep their type; what is between is f32.
// CHECK-LABEL: func.func @half
// CHECK-DAG: %[[X:.*]] = train.cast %arg0 : tensor<4xf16> -> tensor<4xf32>
// CHECK-DAG: %[[TWO:.*]] = train.full 2.000000e+00 : f32 : tensor<4xf32>
// CHECK-DAG: %[[C:.*]] = train.constant dense<[1.000000e+00, 2.000000e+00, 3.000000e+00, 5.000000e-01]> : tensor<4xf32>
// CHECK: %[[M:.*]] = train.mul %[[X]], %[[TWO]] : tensor<4xf32>
// CHECK: %[[Y:.*]] = train.add %[[M]], %[[C]] : tensor<4xf32>
// CHECK: %[[R:.*]] = train.cast %[[Y]] : tensor<4xf32> -> tensor<4xf16>
// CHECK: return %[[R]] : tensor<4xf16>
func.func @half(%x: tensor<4xf16>) -> tensor<4xf16> {
  %two = train.full 2.0 : f16 : tensor<4xf16>
  %c = train.constant dense<[1.0, 2.0, 3.0, 0.5]> : tensor<4xf16>
  %0 = train.mul %x, %two : tensor<4xf16>
  %1 = train.add %0, %c : tensor<4xf16>
  return %1 : tensor<4xf16>
}

// The graph's own cast rounds.
// CHECK-LABEL: func.func @rounded
// CHECK: %[[B:.*]] = train.cast %arg0 : tensor<4xf32> -> tensor<4xbf16>
// CHECK: %[[W:.*]] = train.cast %[[B]] : tensor<4xbf16> -> tensor<4xf32>
// CHECK: train.exp %[[W]] : tensor<4xf32>
func.func @rounded(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = train.cast %x : tensor<4xf32> -> tensor<4xbf16>
  %1 = train.exp %0 : tensor<4xbf16>
  %2 = train.cast %1 : tensor<4xbf16> -> tensor<4xf32>
  return %2 : tensor<4xf32>
}

// CHECK-LABEL: func.func @doubles
// CHECK-DAG: %[[L:.*]] = train.broadcast %arg0 axes = [0, 1, 3] : tensor<2x3x5xf64> -> tensor<2x3x4x5xf64>
// CHECK-DAG: %[[T:.*]] = train.transpose %arg1 permutation = [0, 2, 1] : tensor<2x5x4xf64> -> tensor<2x4x5xf64>
// CHECK-DAG: %[[R:.*]] = train.broadcast %[[T]] axes = [0, 2, 3] : tensor<2x4x5xf64> -> tensor<2x3x4x5xf64>
// CHECK: %[[P:.*]] = train.mul %[[L]], %[[R]]
// CHECK: train.reduce sum %[[P]] axes = [3] : tensor<2x3x4x5xf64> -> tensor<2x3x4xf64>
func.func @doubles(%x: tensor<2x3x5xf64>, %y: tensor<2x5x4xf64>) -> tensor<2x3x4xf64> {
  %0 = train.matmul %x, %y : tensor<2x3x5xf64>, tensor<2x5x4xf64> -> tensor<2x3x4xf64>
  return %0 : tensor<2x3x4xf64>
}

// A product of floats is the library's.
// CHECK-LABEL: func.func @floats
// CHECK: train.matmul
func.func @floats(%x: tensor<2x3xf32>, %y: tensor<3x2xf32>) -> tensor<2x2xf32> {
  %0 = train.matmul %x, %y : tensor<2x3xf32>, tensor<3x2xf32> -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}

// A convolution that is a call is one of f32.
// CHECK-LABEL: func.func @convolution
// CHECK: train.conv {{.*}} : (tensor<2x9x9x4xf32>, tensor<6x3x3x4xf32>) -> tensor<2x9x9x6xf32>
// CHECK: train.cast {{.*}} : tensor<2x9x9x6xf32> -> tensor<2x9x9x6xbf16>
func.func @convolution(%x: tensor<2x9x9x4xbf16>, %w: tensor<6x3x3x4xbf16>) -> tensor<2x9x9x6xbf16> {
  %y = train.conv %x, %w strides = [1, 1] dilations = [1, 1] low = <1, 1> high = <1, 1> groups = 1
      : (tensor<2x9x9x4xbf16>, tensor<6x3x3x4xbf16>) -> tensor<2x9x9x6xbf16>
  return %y : tensor<2x9x9x6xbf16>
}

// A plug-in's function has been written for its types: casts are around it, and none between two of them.
// CHECK-LABEL: func.func @external
// CHECK: %[[M:.*]] = train.add {{.*}} : tensor<4xf32>
// CHECK: %[[X:.*]] = train.cast %[[M]] : tensor<4xf32> -> tensor<4xf16>
// CHECK: %[[Y:.*]] = train.external "p" "f"(%[[X]]) flops <0> : (tensor<4xf16>) -> tensor<4xf16>
// CHECK: %[[Z:.*]] = train.external "p" "f"(%[[Y]]) flops <0> : (tensor<4xf16>) -> tensor<4xf16>
// CHECK: %[[V:.*]] = train.cast %[[Z]] : tensor<4xf16> -> tensor<4xf32>
// CHECK: train.neg %[[V]] : tensor<4xf32>
func.func @external(%x: tensor<4xf16>) -> tensor<4xf16> {
  %0 = train.add %x, %x : tensor<4xf16>
  %1 = train.external "p" "f"(%0) flops <0> : (tensor<4xf16>) -> tensor<4xf16>
  %2 = train.external "p" "f"(%1) flops <0> : (tensor<4xf16>) -> tensor<4xf16>
  %3 = train.neg %2 : tensor<4xf16>
  return %3 : tensor<4xf16>
}
