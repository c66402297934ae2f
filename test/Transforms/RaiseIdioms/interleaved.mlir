// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rotary positions of neighbours: pairs have an axis of their own, so that one kernel rotates them.
// RUN: trainc-opt %s --raise-idioms --canonicalize --cse | FileCheck %s

// CHECK-LABEL: func.func @rotation
// CHECK: %[[P:.*]] = train.reshape %arg0 : tensor<2x5x8xf32> -> tensor<2x5x4x2xf32>
// CHECK-NOT: steps = [1, 1, 2]
// CHECK: %[[J:.*]] = train.concat {{.*}} axis = 3 : {{.*}} -> tensor<2x5x4x2xf32>
// CHECK: train.mul %[[J]], {{.*}} : tensor<2x5x4x2xf32>
// CHECK: train.mul %[[P]], {{.*}} : tensor<2x5x4x2xf32>
// CHECK: %[[S:.*]] = train.add {{.*}} : tensor<2x5x4x2xf32>
// CHECK: %[[Y:.*]] = train.reshape %[[S]] : tensor<2x5x4x2xf32> -> tensor<2x5x8xf32>
// CHECK: return %[[Y]]
func.func @rotation(%x: tensor<2x5x8xf32>, %sin: tensor<5x8xf32>, %cos: tensor<5x8xf32>) -> tensor<2x5x8xf32> {
  %even = train.slice %x starts = <0, 0, 0> steps = [1, 1, 2] : tensor<2x5x8xf32> -> tensor<2x5x4xf32>
  %odd = train.slice %x starts = <0, 0, 1> steps = [1, 1, 2] : tensor<2x5x8xf32> -> tensor<2x5x4xf32>
  %0 = train.neg %odd : tensor<2x5x4xf32>
  %1 = train.reshape %0 : tensor<2x5x4xf32> -> tensor<2x5x4x1xf32>
  %2 = train.reshape %even : tensor<2x5x4xf32> -> tensor<2x5x4x1xf32>
  %3 = train.concat %1, %2 axis = 3 : (tensor<2x5x4x1xf32>, tensor<2x5x4x1xf32>) -> tensor<2x5x4x2xf32>
  %4 = train.reshape %3 : tensor<2x5x4x2xf32> -> tensor<2x5x8xf32>
  %5 = train.broadcast %sin axes = [1, 2] : tensor<5x8xf32> -> tensor<2x5x8xf32>
  %6 = train.mul %4, %5 : tensor<2x5x8xf32>
  %7 = train.broadcast %cos axes = [1, 2] : tensor<5x8xf32> -> tensor<2x5x8xf32>
  %8 = train.mul %x, %7 : tensor<2x5x8xf32>
  %9 = train.add %8, %6 : tensor<2x5x8xf32>
  return %9 : tensor<2x5x8xf32>
}

// A step by itself, and rows that are not whole neighbours, stay slices.
// CHECK-LABEL: func.func @alone
// CHECK: steps = [1, 2]
func.func @alone(%x: tensor<5x8xf32>) -> tensor<5x4xf32> {
  %0 = train.slice %x starts = <0, 0> steps = [1, 2] : tensor<5x8xf32> -> tensor<5x4xf32>
  return %0 : tensor<5x4xf32>
}
// CHECK-LABEL: func.func @odd_row
// CHECK: steps = [1, 2]
// CHECK: steps = [1, 2]
func.func @odd_row(%x: tensor<5x7xf32>) -> (tensor<5x4xf32>, tensor<5x3xf32>) {
  %0 = train.slice %x starts = <0, 0> steps = [1, 2] : tensor<5x7xf32> -> tensor<5x4xf32>
  %1 = train.slice %x starts = <0, 1> steps = [1, 2] : tensor<5x7xf32> -> tensor<5x3xf32>
  return %0, %1 : tensor<5x4xf32>, tensor<5x3xf32>
}
