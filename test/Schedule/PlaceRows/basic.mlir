// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels compute with their axes in the order in which their rows are read.
// RUN: trainc-opt %s --place-rows --remarks-filter=place-rows 2>&1 | FileCheck %s

// The gradient of a norm of heads, with a rotation of half rows, a sum down the columns and a vector of parameters: one kernel is left.
// Inputs are transposed where they are read; the one that was, is not any more.
// CHECK: Placed
// CHECK-SAME: stores rows where they are read
// CHECK-LABEL: func.func @heads
// CHECK: %[[F:.*]]:2 = train.fusion(%{{.*}}, %{{.*}}, %{{.*}}) : (tensor<2x4x64x16xf32>, tensor<2x64x4x16xf32>, tensor<16xf32>) -> (tensor<2x64x4x16xf32>, tensor<16xf32>)
// CHECK-NEXT: ^bb0(%[[D:.*]]: tensor<2x4x64x16xf32>, %[[X:.*]]: tensor<2x64x4x16xf32>, %[[S:.*]]: tensor<16xf32>)
// CHECK: train.broadcast %[[S]] axes = [3] : tensor<16xf32> -> tensor<2x64x4x16xf32>
// CHECK: %[[T:.*]] = train.transpose %[[D]] permutation = [0, 2, 1, 3]
// CHECK: %[[L:.*]] = train.slice %[[T]] starts = <0, 0, 0, 8> {{.*}} -> tensor<2x64x4x8xf32>
// CHECK: %[[N:.*]] = train.neg %[[L]] : tensor<2x64x4x8xf32>
// CHECK: train.pad %[[N]] {{.*}} low = <0, 0, 0, 0> : tensor<2x64x4x8xf32> -> tensor<2x64x4x16xf32>
// CHECK: train.mul %{{.*}}, %[[X]] : tensor<2x64x4x16xf32>
// CHECK: train.reduce sum {{.*}} axes = [3] : tensor<2x64x4x16xf32> -> tensor<2x64x4xf32>
// CHECK: train.broadcast {{.*}} axes = [0, 1, 2] : tensor<2x64x4xf32> -> tensor<2x64x4x16xf32>
// CHECK: train.reduce sum {{.*}} axes = [0, 1, 2] : tensor<2x64x4x16xf32> -> tensor<16xf32>
// CHECK-NOT: train.fusion
// CHECK: %[[R:.*]] = train.reshape %[[F]]#0 : tensor<2x64x4x16xf32> -> tensor<128x64xf32>
// CHECK: return %[[R]], %[[F]]#1
func.func @heads(%dy: tensor<2x4x64x16xf32>, %x: tensor<2x64x4x16xf32>, %scale: tensor<16xf32>) -> (tensor<128x64xf32>, tensor<16xf32>) {
  %0:2 = train.fusion(%dy, %x, %scale) : (tensor<2x4x64x16xf32>, tensor<2x64x4x16xf32>, tensor<16xf32>) -> (tensor<2x4x64x16xf32>, tensor<16xf32>) {
  ^bb0(%a: tensor<2x4x64x16xf32>, %b: tensor<2x64x4x16xf32>, %s: tensor<16xf32>):
    %3 = train.broadcast %s axes = [3] : tensor<16xf32> -> tensor<2x4x64x16xf32>
    %4 = train.slice %a starts = <0, 0, 0, 8> steps = [1, 1, 1, 1] : tensor<2x4x64x16xf32> -> tensor<2x4x64x8xf32>
    %5 = train.neg %4 : tensor<2x4x64x8xf32>
    %6 = train.pad %5 value = 0.0 : f32 low = <0, 0, 0, 0> : tensor<2x4x64x8xf32> -> tensor<2x4x64x16xf32>
    %7 = train.add %6, %3 : tensor<2x4x64x16xf32>
    %8 = train.transpose %b permutation = [0, 2, 1, 3] : tensor<2x64x4x16xf32> -> tensor<2x4x64x16xf32>
    %9 = train.mul %7, %8 : tensor<2x4x64x16xf32>
    %10 = train.reduce sum %9 axes = [3] : tensor<2x4x64x16xf32> -> tensor<2x4x64xf32>
    %11 = train.broadcast %10 axes = [0, 1, 2] : tensor<2x4x64xf32> -> tensor<2x4x64x16xf32>
    %12 = train.sub %9, %11 : tensor<2x4x64x16xf32>
    %13 = train.reduce sum %9 axes = [0, 1, 2] : tensor<2x4x64x16xf32> -> tensor<16xf32>
    train.yield %12, %13 : tensor<2x4x64x16xf32>, tensor<16xf32>
  }
  %1 = train.fusion(%0#0) : (tensor<2x4x64x16xf32>) -> tensor<2x64x4x16xf32> {
  ^bb0(%a: tensor<2x4x64x16xf32>):
    %3 = train.transpose %a permutation = [0, 2, 1, 3] : tensor<2x4x64x16xf32> -> tensor<2x64x4x16xf32>
    train.yield %3 : tensor<2x64x4x16xf32>
  }
  %2 = train.reshape %1 : tensor<2x64x4x16xf32> -> tensor<128x64xf32>
  return %2, %0#1 : tensor<128x64xf32>, tensor<16xf32>
}
