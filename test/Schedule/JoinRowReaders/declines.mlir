// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What stays two kernels.
// RUN: trainc-opt %s --join-row-readers --remarks-filter=join-row-readers 2>&1 | FileCheck %s
// RUN: trainc-opt %s --join-row-readers='distance=0' | FileCheck %s --check-prefix=DISTANCE
// RUN: trainc-opt %s --join-row-readers='max-length=4097' | FileCheck %s --check-prefix=LENGTH

// The sums of the row below are wanted, too.
// CHECK: KeptApart
// CHECK-SAME: it reads what the other one makes of other rows, too
// CHECK-LABEL: func.func @other_rows
// CHECK-COUNT-2: train.fusion
func.func @other_rows(%x: tensor<64x16xf32>) -> tensor<64x16xf32> {
  %0 = train.fusion(%x) : (tensor<64x16xf32>) -> tensor<64xf32> {
  ^bb0(%a: tensor<64x16xf32>):
    %2 = train.reduce sum %a axes = [1] : tensor<64x16xf32> -> tensor<64xf32>
    train.yield %2 : tensor<64xf32>
  }
  %1 = train.fusion(%x, %0) : (tensor<64x16xf32>, tensor<64xf32>) -> tensor<64x16xf32> {
  ^bb0(%a: tensor<64x16xf32>, %s: tensor<64xf32>):
    %2 = train.slice %s starts = <1> steps = [1] : tensor<64xf32> -> tensor<63xf32>
    %3 = train.pad %2 value = 0.0 : f32 low = <0> : tensor<63xf32> -> tensor<64xf32>
    %4 = train.broadcast %3 axes = [0] : tensor<64xf32> -> tensor<64x16xf32>
    %5 = train.mul %a, %4 : tensor<64x16xf32>
    train.yield %5 : tensor<64x16xf32>
  }
  return %1 : tensor<64x16xf32>
}

// A matmul stands between, which the reader needs.
// CHECK-LABEL: func.func @needs
// CHECK-COUNT-2: train.fusion
func.func @needs(%x: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %0 = train.fusion(%x) : (tensor<16x16xf32>) -> tensor<16xf32> {
  ^bb0(%a: tensor<16x16xf32>):
    %3 = train.reduce sum %a axes = [1] : tensor<16x16xf32> -> tensor<16xf32>
    train.yield %3 : tensor<16xf32>
  }
  %1 = train.matmul %x, %x : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
  %2 = train.fusion(%x, %0, %1) : (tensor<16x16xf32>, tensor<16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32> {
  ^bb0(%a: tensor<16x16xf32>, %s: tensor<16xf32>, %b: tensor<16x16xf32>):
    %3 = train.broadcast %s axes = [0] : tensor<16xf32> -> tensor<16x16xf32>
    %4 = train.mul %a, %3 : tensor<16x16xf32>
    %5 = train.add %4, %b : tensor<16x16xf32>
    train.yield %5 : tensor<16x16xf32>
  }
  return %2 : tensor<16x16xf32>
}

// As far apart as the option says.
// CHECK-LABEL: func.func @far
// CHECK: train.fusion
// CHECK-NOT: train.fusion
// CHECK: return
// DISTANCE-LABEL: func.func @far
// DISTANCE-COUNT-2: train.fusion
func.func @far(%x: tensor<16x16xf32>) -> (tensor<16x16xf32>, tensor<16x16xf32>) {
  %0 = train.fusion(%x) : (tensor<16x16xf32>) -> tensor<16xf32> {
  ^bb0(%a: tensor<16x16xf32>):
    %3 = train.reduce sum %a axes = [1] : tensor<16x16xf32> -> tensor<16xf32>
    train.yield %3 : tensor<16xf32>
  }
  %1 = train.matmul %x, %x : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
  %2 = train.fusion(%x, %0) : (tensor<16x16xf32>, tensor<16xf32>) -> tensor<16x16xf32> {
  ^bb0(%a: tensor<16x16xf32>, %s: tensor<16xf32>):
    %3 = train.broadcast %s axes = [0] : tensor<16xf32> -> tensor<16x16xf32>
    %4 = train.mul %a, %3 : tensor<16x16xf32>
    train.yield %4 : tensor<16x16xf32>
  }
  %4 = train.matmul %1, %2 : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
  return %4, %2 : tensor<16x16xf32>, tensor<16x16xf32>
}

// An update between the two writes what the second reads.
// CHECK-LABEL: func.func @updated
// CHECK-COUNT-3: train.fusion
func.func @updated(%x: tensor<16x16xf32>, %p: tensor<16xf32>) -> (tensor<16x16xf32>, tensor<16xf32>) {
  %0 = train.fusion(%x) : (tensor<16x16xf32>) -> tensor<16xf32> {
  ^bb0(%a: tensor<16x16xf32>):
    %3 = train.reduce sum %a axes = [1] : tensor<16x16xf32> -> tensor<16xf32>
    train.yield %3 : tensor<16xf32>
  }
  %1 = train.fusion(%p) : (tensor<16xf32>) -> tensor<16xf32> {
  ^bb0(%a: tensor<16xf32>):
    %3 = train.neg %a : tensor<16xf32>
    train.yield %3 : tensor<16xf32>
  }
  %2 = train.fusion(%x, %0, %p) : (tensor<16x16xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<16x16xf32> {
  ^bb0(%a: tensor<16x16xf32>, %s: tensor<16xf32>, %b: tensor<16xf32>):
    %3 = train.broadcast %s axes = [0] : tensor<16xf32> -> tensor<16x16xf32>
    %4 = train.mul %a, %3 : tensor<16x16xf32>
    %5 = train.broadcast %b axes = [1] : tensor<16xf32> -> tensor<16x16xf32>
    %6 = train.add %4, %5 : tensor<16x16xf32>
    train.yield %6 : tensor<16x16xf32>
  }
  return %2, %1 : tensor<16x16xf32>, tensor<16xf32>
}

// Longer than threads hold.
// CHECK-LABEL: func.func @long
// CHECK-COUNT-2: train.fusion
// LENGTH-LABEL: func.func @long
// LENGTH: train.fusion
// LENGTH-NOT: train.fusion
func.func @long(%x: tensor<16x4097xf32>) -> tensor<16x4097xf32> {
  %0 = train.fusion(%x) : (tensor<16x4097xf32>) -> tensor<16xf32> {
  ^bb0(%a: tensor<16x4097xf32>):
    %3 = train.reduce sum %a axes = [1] : tensor<16x4097xf32> -> tensor<16xf32>
    train.yield %3 : tensor<16xf32>
  }
  %1 = train.fusion(%x, %0) : (tensor<16x4097xf32>, tensor<16xf32>) -> tensor<16x4097xf32> {
  ^bb0(%a: tensor<16x4097xf32>, %s: tensor<16xf32>):
    %3 = train.broadcast %s axes = [0] : tensor<16xf32> -> tensor<16x4097xf32>
    %4 = train.mul %a, %3 : tensor<16x4097xf32>
    train.yield %4 : tensor<16x4097xf32>
  }
  return %1 : tensor<16x4097xf32>
}
