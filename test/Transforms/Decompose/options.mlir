// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --decompose="keep=train.softmax" | FileCheck %s

// CHECK-LABEL: func.func @keep
// CHECK: train.softmax
// CHECK-NOT: train.log_softmax
func.func @keep(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = train.softmax %x axis = 1 : tensor<4x8xf32>
  %1 = train.log_softmax %0 axis = 1 : tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}
