// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --decompose=keep=train.softmax | FileCheck %s

// What is no composite, and what keep names, stays as it is.
// CHECK-LABEL: func.func @kept
// CHECK-NEXT: %[[Y:.*]] = train.matmul %arg0, %arg1
// CHECK-NEXT: %[[E:.*]] = train.exp %[[Y]]
// CHECK-NEXT: %[[S:.*]] = train.softmax %[[E]] axis = 1
// CHECK-NEXT: return %[[S]]
func.func @kept(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> {
  %0 = train.matmul %x, %w : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  %1 = train.exp %0 : tensor<4x8xf32>
  %2 = train.softmax %1 axis = 1 : tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}
