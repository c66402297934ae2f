// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --pass-pipeline='builtin.module(func.func(move-transposes{in-nets}))' | FileCheck %s
// RUN: trainc-opt %s --pass-pipeline='builtin.module(func.func(move-transposes{in-nets}),decompose{convolutions},func.func(move-transposes{in-nets}))' | FileCheck %s --check-prefix=LATER
// RUN: trainc-opt %s --pass-pipeline='builtin.module(func.func(move-transposes))' | FileCheck %s --check-prefix=ANY

!first = tensor<2x8x6x6xf32>
!last = tensor<2x6x6x8xf32>

// A function without convolutions keeps its transposes, which are those of attention's heads, say.
// CHECK-LABEL: func.func @heads
// CHECK-SAME: -> tensor<2x6x6x8xf32> {
// CHECK-NEXT: train.transpose
// CHECK-NEXT: train.relu
// CHECK-NEXT: train.transpose
// ANY-LABEL: func.func @heads
// ANY-NEXT: train.relu %arg0
// ANY-NEXT: return
func.func @heads(%x: !last) -> !last {
  %0 = train.transpose %x permutation = [0, 3, 1, 2] : !last -> !first
  %1 = train.relu %0 : !first
  %2 = train.transpose %1 permutation = [0, 2, 3, 1] : !first -> !last
  return %2 : !last
}

// A later run knows what had convolutions that are matmuls by then.
// CHECK-LABEL: func.func @net
// CHECK: train.conv
// CHECK-NEXT: train.relu
// CHECK-NEXT: return
// LATER-LABEL: func.func @net
// LATER-SAME: train.has_convolutions
// LATER-NOT: train.conv
// LATER: return
func.func @net(%x: !last, %w: tensor<8x3x3x8xf32>) -> !last {
  %0 = train.conv %x, %w strides = [1, 1] dilations = [1, 1] low = <1, 1> high = <1, 1> groups = 1 : (!last, tensor<8x3x3x8xf32>) -> !last
  %1 = train.transpose %0 permutation = [0, 3, 1, 2] : !last -> !first
  %2 = train.relu %1 : !first
  %3 = train.transpose %2 permutation = [0, 2, 3, 1] : !first -> !last
  return %3 : !last
}

// A sum of everything reads what was moved, and nothing is left in the other order.
// CHECK-LABEL: func.func @sum
// CHECK: train.conv
// CHECK-NEXT: %[[R:.*]] = train.relu
// CHECK-NEXT: %[[S:.*]] = train.reduce sum %[[R]] axes = [0, 1, 2, 3] : tensor<2x6x6x8xf32> -> tensor<f32>
// CHECK-NEXT: return %[[S]]
func.func @sum(%x: !last, %w: tensor<8x3x3x8xf32>) -> tensor<f32> {
  %0 = train.conv %x, %w strides = [1, 1] dilations = [1, 1] low = <1, 1> high = <1, 1> groups = 1 : (!last, tensor<8x3x3x8xf32>) -> !last
  %1 = train.transpose %0 permutation = [0, 3, 1, 2] : !last -> !first
  %2 = train.relu %1 : !first
  %3 = train.reduce sum %2 axes = [0, 1, 2, 3] : !first -> tensor<f32>
  return %3 : tensor<f32>
}
