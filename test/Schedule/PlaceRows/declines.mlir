// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What stays as it is, and what is told of it.
// RUN: trainc-opt %s --place-rows --remarks-filter=place-rows 2>&1 | FileCheck %s

// What a row comes to is read head by head.
// CHECK: KeptApart
// CHECK-SAME: another result of the kernel is read with its axes as they are
// CHECK-SAME: copies rows of train.fusion
// What was summed up along the other axis is read as it is, and so would be what it scales.
// CHECK: KeptApart
// CHECK-SAME: what the kernel computes would be read in two orders
// A running sum has its axes in one order, but for the one that it runs along, as all that ReorderOpInterface does not know.
// CHECK: KeptApart
// CHECK-SAME: an op of the kernel has its axes in one order

// CHECK-LABEL: func.func @statistics
// CHECK-COUNT-2: train.fusion
func.func @statistics(%x: tensor<4x64x16xf32>) -> (tensor<64x4x16xf32>, tensor<4x64xf32>) {
  %0:2 = train.fusion(%x) : (tensor<4x64x16xf32>) -> (tensor<4x64x16xf32>, tensor<4x64xf32>) {
  ^bb0(%a: tensor<4x64x16xf32>):
    %2 = train.reduce sum %a axes = [2] : tensor<4x64x16xf32> -> tensor<4x64xf32>
    %3 = train.broadcast %2 axes = [0, 1] : tensor<4x64xf32> -> tensor<4x64x16xf32>
    %4 = train.mul %a, %3 : tensor<4x64x16xf32>
    train.yield %4, %2 : tensor<4x64x16xf32>, tensor<4x64xf32>
  }
  %1 = train.fusion(%0#0) : (tensor<4x64x16xf32>) -> tensor<64x4x16xf32> {
  ^bb0(%a: tensor<4x64x16xf32>):
    %2 = train.transpose %a permutation = [1, 0, 2] : tensor<4x64x16xf32> -> tensor<64x4x16xf32>
    train.yield %2 : tensor<64x4x16xf32>
  }
  return %1, %0#1 : tensor<64x4x16xf32>, tensor<4x64xf32>
}

// CHECK-LABEL: func.func @two_orders
// CHECK-COUNT-2: train.fusion
func.func @two_orders(%x: tensor<4x4x16xf32>) -> tensor<4x4x16xf32> {
  %0 = train.fusion(%x) : (tensor<4x4x16xf32>) -> tensor<4x4x16xf32> {
  ^bb0(%a: tensor<4x4x16xf32>):
    %2 = train.reduce sum %a axes = [2] : tensor<4x4x16xf32> -> tensor<4x4xf32>
    %3 = train.transpose %2 permutation = [1, 0] : tensor<4x4xf32> -> tensor<4x4xf32>
    %4 = train.broadcast %3 axes = [0, 1] : tensor<4x4xf32> -> tensor<4x4x16xf32>
    %5 = train.mul %a, %4 : tensor<4x4x16xf32>
    train.yield %5 : tensor<4x4x16xf32>
  }
  %1 = train.fusion(%0) : (tensor<4x4x16xf32>) -> tensor<4x4x16xf32> {
  ^bb0(%a: tensor<4x4x16xf32>):
    %2 = train.transpose %a permutation = [1, 0, 2] : tensor<4x4x16xf32> -> tensor<4x4x16xf32>
    train.yield %2 : tensor<4x4x16xf32>
  }
  return %1 : tensor<4x4x16xf32>
}

// CHECK-LABEL: func.func @fixed
// CHECK-COUNT-2: train.fusion
func.func @fixed(%x: tensor<4x64x16xf32>, %i: tensor<4x64xi64>) -> tensor<64x4x16xf32> {
  %0 = train.fusion(%x, %i) : (tensor<4x64x16xf32>, tensor<4x64xi64>) -> tensor<4x64x16xf32> {
  ^bb0(%a: tensor<4x64x16xf32>, %b: tensor<4x64xi64>):
    %2 = train.reduce sum %a axes = [0, 1] : tensor<4x64x16xf32> -> tensor<16xf32>
    %3 = train.broadcast %2 axes = [1] : tensor<16xf32> -> tensor<32x16xf32>
    %4 = train.gather %3, %b axis = 0 : tensor<32x16xf32>, tensor<4x64xi64> -> tensor<4x64x16xf32>
    train.yield %4 : tensor<4x64x16xf32>
  }
  %1 = train.fusion(%0) : (tensor<4x64x16xf32>) -> tensor<64x4x16xf32> {
  ^bb0(%a: tensor<4x64x16xf32>):
    %2 = train.transpose %a permutation = [1, 0, 2] : tensor<4x64x16xf32> -> tensor<64x4x16xf32>
    train.yield %2 : tensor<64x4x16xf32>
  }
  return %1 : tensor<64x4x16xf32>
}

// Rows would be scattered; and what others read, too, is there anyway.
// CHECK-LABEL: func.func @columns
// CHECK-COUNT-4: train.fusion
func.func @columns(%x: tensor<64x16xf32>) -> (tensor<16x64xf32>, tensor<16x64xf32>, tensor<64x16xf32>) {
  %0 = train.fusion(%x) : (tensor<64x16xf32>) -> tensor<64x16xf32> {
  ^bb0(%a: tensor<64x16xf32>):
    %4 = train.exp %a : tensor<64x16xf32>
    train.yield %4 : tensor<64x16xf32>
  }
  %1 = train.fusion(%0) : (tensor<64x16xf32>) -> tensor<16x64xf32> {
  ^bb0(%a: tensor<64x16xf32>):
    %4 = train.transpose %a permutation = [1, 0] : tensor<64x16xf32> -> tensor<16x64xf32>
    train.yield %4 : tensor<16x64xf32>
  }
  %2 = train.fusion(%x) : (tensor<64x16xf32>) -> tensor<64x16xf32> {
  ^bb0(%a: tensor<64x16xf32>):
    %4 = train.tanh %a : tensor<64x16xf32>
    train.yield %4 : tensor<64x16xf32>
  }
  %3 = train.fusion(%2) : (tensor<64x16xf32>) -> tensor<16x64xf32> {
  ^bb0(%a: tensor<64x16xf32>):
    %4 = train.transpose %a permutation = [1, 0] : tensor<64x16xf32> -> tensor<16x64xf32>
    train.yield %4 : tensor<16x64xf32>
  }
  return %1, %3, %2 : tensor<16x64xf32>, tensor<16x64xf32>, tensor<64x16xf32>
}

// What is only checked stays a kernel: it would be read unchecked.
// CHECK-LABEL: func.func @checked
// CHECK: train.reduce sum
// CHECK: train.within
// CHECK: return
func.func @checked(%mask: tensor<4x7xi32>) -> tensor<4xi32> {
  %0 = train.fusion(%mask) : (tensor<4x7xi32>) -> tensor<4xi32> {
  ^bb0(%a: tensor<4x7xi32>):
    %2 = train.reduce sum %a axes = [1] : tensor<4x7xi32> -> tensor<4xi32>
    train.yield %2 : tensor<4xi32>
  }
  %1 = train.fusion(%0) : (tensor<4xi32>) -> tensor<4xi32> {
  ^bb0(%a: tensor<4xi32>):
    %2 = train.within %a to <7> : tensor<4xi32>
    train.yield %2 : tensor<4xi32>
  }
  return %1 : tensor<4xi32>
}
