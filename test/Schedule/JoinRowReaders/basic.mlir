// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One kernel sums up rows and goes on with them.
// RUN: trainc-opt %s --join-row-readers --remarks-filter=join-row-readers 2>&1 | FileCheck %s

// A norm of heads and the rotation behind it. The gradient needs the statistic: it is stored, too. What else stands between stays.
// CHECK: Joined
// CHECK-SAME: goes on with the rows that it sums up
// CHECK-LABEL: func.func @rotated
// CHECK: %[[F:.*]]:2 = train.fusion(%{{.*}}, %{{.*}}) : (tensor<64x4x16xf32>, tensor<64x16xf32>) -> (tensor<64x4xf32>, tensor<64x4x16xf32>)
// CHECK: %[[S:.*]] = train.reduce sum
// CHECK: train.broadcast %[[S]] axes = [0, 1]
// CHECK: train.concat
// CHECK: train.yield %[[S]], %
// CHECK: train.fusion(%{{.*}}) : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: return %[[F]]#1, %[[F]]#0
func.func @rotated(%x: tensor<64x4x16xf32>, %sin: tensor<64x16xf32>, %y: tensor<4xf32>) -> (tensor<64x4x16xf32>, tensor<64x4xf32>, tensor<4xf32>) {
  %0 = train.fusion(%x) : (tensor<64x4x16xf32>) -> tensor<64x4xf32> {
  ^bb0(%a: tensor<64x4x16xf32>):
    %3 = train.mul %a, %a : tensor<64x4x16xf32>
    %4 = train.reduce sum %3 axes = [2] : tensor<64x4x16xf32> -> tensor<64x4xf32>
    train.yield %4 : tensor<64x4xf32>
  }
  %1 = train.fusion(%y) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    %3 = train.exp %a : tensor<4xf32>
    train.yield %3 : tensor<4xf32>
  }
  %2 = train.fusion(%x, %0, %sin) : (tensor<64x4x16xf32>, tensor<64x4xf32>, tensor<64x16xf32>) -> tensor<64x4x16xf32> {
  ^bb0(%a: tensor<64x4x16xf32>, %s: tensor<64x4xf32>, %c: tensor<64x16xf32>):
    %3 = train.broadcast %s axes = [0, 1] : tensor<64x4xf32> -> tensor<64x4x16xf32>
    %4 = train.mul %a, %3 : tensor<64x4x16xf32>
    %5 = train.slice %4 starts = <0, 0, 0> steps = [1, 1, 1] : tensor<64x4x16xf32> -> tensor<64x4x8xf32>
    %6 = train.slice %4 starts = <0, 0, 8> steps = [1, 1, 1] : tensor<64x4x16xf32> -> tensor<64x4x8xf32>
    %7 = train.neg %6 : tensor<64x4x8xf32>
    %8 = train.concat %7, %5 axis = 2 : (tensor<64x4x8xf32>, tensor<64x4x8xf32>) -> tensor<64x4x16xf32>
    %9 = train.broadcast %c axes = [0, 2] : tensor<64x16xf32> -> tensor<64x4x16xf32>
    %10 = train.mul %8, %9 : tensor<64x4x16xf32>
    %11 = train.add %4, %10 : tensor<64x4x16xf32>
    train.yield %11 : tensor<64x4x16xf32>
  }
  return %2, %0, %1 : tensor<64x4x16xf32>, tensor<64x4xf32>, tensor<4xf32>
}
