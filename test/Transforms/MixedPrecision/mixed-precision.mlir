// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --mixed-precision=type=bf16 | FileCheck %s
// RUN: trainc-opt %s --mixed-precision=type=f16 | FileCheck %s --check-prefix=F16
// RUN: trainc-opt %s --mixed-precision=type=bf16 --remark-format=emitRemark --remarks-filter=".*" 2>&1 | FileCheck %s --check-prefix=REMARK

// The product runs in the low type, the norm of its result does not. The cast of a moved operand is before the move.
// CHECK-LABEL: func.func @product
// CHECK-DAG: %[[X:.*]] = train.cast %arg0 : tensor<4x8xf32> -> tensor<4x8xbf16>
// CHECK-DAG: %[[W:.*]] = train.cast %arg1 : tensor<2x8xf32> -> tensor<2x8xbf16>
// CHECK: %[[T:.*]] = train.transpose %[[W]] {{.*}}xbf16>
// CHECK: %[[Y:.*]] = train.matmul %[[X]], %[[T]] : tensor<4x8xbf16>, tensor<8x2xbf16> -> tensor<4x2xbf16>
// CHECK: %[[Z:.*]] = train.cast %[[Y]] : tensor<4x2xbf16> -> tensor<4x2xf32>
// CHECK: train.softmax %[[Z]] axis = 1 : tensor<4x2xf32>
// F16: train.matmul {{.*}} -> tensor<4x2xf16>
// REMARK: remark: [Passed] Lowered
func.func @product(%x: tensor<4x8xf32>, %w: tensor<2x8xf32>) -> tensor<4x2xf32> {
  %0 = train.transpose %w permutation = [1, 0] : tensor<2x8xf32> -> tensor<8x2xf32>
  %1 = train.matmul %x, %0 : tensor<4x8xf32>, tensor<8x2xf32> -> tensor<4x2xf32>
  %2 = train.softmax %1 axis = 1 : tensor<4x2xf32>
  return %2 : tensor<4x2xf32>
}


// -----

// What was rounded before (attention's operands are) takes the low product itself: its moves are there once.
// CHECK-LABEL: func.func @rounded_part
// CHECK: %[[M:.*]] = train.matmul {{.*}} -> tensor<4x8xbf16>
// CHECK: %[[T:.*]]:2 = train.split %[[M]] axis = 1 : (tensor<4x8xbf16>) -> (tensor<4x4xbf16>, tensor<4x4xbf16>)
// CHECK: %[[W:.*]] = train.cast %[[T]]#0 : tensor<4x4xbf16> -> tensor<4x4xf32>
// CHECK: %[[S:.*]]:2 = train.split %[[M]] axis = 1
// CHECK: train.exp %[[W]]
// CHECK: return {{.*}}, %[[S]]#1
func.func @rounded_part(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> (tensor<4x4xf32>, tensor<4x4xbf16>) {
  %0 = train.matmul %x, %w : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  %1 = train.cast %0 : tensor<4x8xf32> -> tensor<4x8xbf16>
  %2:2 = train.split %0 axis = 1 : (tensor<4x8xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
  %3:2 = train.split %1 axis = 1 : (tensor<4x8xbf16>) -> (tensor<4x4xbf16>, tensor<4x4xbf16>)
  %4 = train.exp %2#0 : tensor<4x4xf32>
  return %4, %3#1 : tensor<4x4xf32>, tensor<4x4xbf16>
}

// -----

// Slices that take different elements are parts as those of a split: each is widened where it is read. Where two share
// elements their gradients are added, in f32.
// CHECK-LABEL: func.func @taken_apart
// CHECK: %[[M:.*]] = train.matmul {{.*}} -> tensor<4x8xbf16>
// CHECK-DAG: %[[A:.*]] = train.slice %[[M]] starts = <0, 0> {{.*}} -> tensor<4x4xbf16>
// CHECK-DAG: %[[B:.*]] = train.slice %[[M]] starts = <0, 5> {{.*}} -> tensor<4x3xbf16>
// CHECK-DAG: train.cast %[[A]] : tensor<4x4xbf16> -> tensor<4x4xf32>
// CHECK-DAG: train.cast %[[B]] : tensor<4x3xbf16> -> tensor<4x3xf32>
// CHECK-LABEL: func.func @shared
// CHECK: %[[M:.*]] = train.matmul {{.*}} -> tensor<4x8xbf16>
// CHECK: %[[W:.*]] = train.cast %[[M]]
// CHECK-DAG: train.slice %[[W]] starts = <0, 0>
// CHECK-DAG: train.slice %[[W]] starts = <0, 3>
func.func @taken_apart(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> (tensor<4x4xf32>, tensor<4x3xf32>) {
  %0 = train.matmul %x, %w : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  %1 = train.slice %0 starts = <0, 0> steps = [1, 1] : tensor<4x8xf32> -> tensor<4x4xf32>
  %2 = train.slice %0 starts = <0, 5> steps = [1, 1] : tensor<4x8xf32> -> tensor<4x3xf32>
  %3 = train.exp %1 : tensor<4x4xf32>
  %4 = train.exp %2 : tensor<4x3xf32>
  return %3, %4 : tensor<4x4xf32>, tensor<4x3xf32>
}
func.func @shared(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = train.matmul %x, %w : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  %1 = train.slice %0 starts = <0, 0> steps = [1, 1] : tensor<4x8xf32> -> tensor<4x4xf32>
  %2 = train.slice %0 starts = <0, 3> steps = [1, 1] : tensor<4x8xf32> -> tensor<4x4xf32>
  %3 = train.exp %1 : tensor<4x4xf32>
  %4 = train.exp %2 : tensor<4x4xf32>
  return %3, %4 : tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// Elements of a product that are taken by their indices are of its type, and so is their gradient.
// CHECK-LABEL: func.func @elements
// CHECK: %[[E:.*]] = train.gather_elements %{{.*}}, %{{.*}} axis = 1 : tensor<4x8xbf16>, tensor<4x2xi64> -> tensor<4x2xbf16>
// CHECK: train.cast %[[E]] : tensor<4x2xbf16> -> tensor<4x2xf32>
func.func @elements(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %i: tensor<4x2xi64>) -> tensor<4x2xf32> {
  %0 = train.matmul %x, %w : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  %1 = train.gather_elements %0, %i axis = 1 : tensor<4x8xf32>, tensor<4x2xi64> -> tensor<4x2xf32>
  %2 = train.exp %1 : tensor<4x2xf32>
  return %2 : tensor<4x2xf32>
}
