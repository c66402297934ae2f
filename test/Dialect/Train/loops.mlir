// RUN: trainc-opt %s | trainc-opt | FileCheck %s

// CHECK-LABEL: func.func @loop(
func.func @loop(%h: tensor<2x4xf32>, %x: tensor<?x2x4xf32, #train.dims<seq, 2, 4>>, %w: tensor<4x4xf32>) {
  // CHECK: %0:2 = train.loop(%arg0) scanned(%arg1) invariant(%arg2) steps <seq> reverse : (tensor<2x4xf32>, tensor<?x2x4xf32, #train.dims<seq, 2, 4>>, tensor<4x4xf32>) -> (tensor<2x4xf32>, tensor<?x2x4xf32, #train.dims<seq, 2, 4>>) {
  %0:2 = train.loop(%h) scanned(%x) invariant(%w) steps <seq> reverse : (tensor<2x4xf32>, tensor<?x2x4xf32, #train.dims<seq, 2, 4>>, tensor<4x4xf32>) -> (tensor<2x4xf32>, tensor<?x2x4xf32, #train.dims<seq, 2, 4>>) {
  ^bb0(%c: tensor<2x4xf32>, %s: tensor<2x4xf32>, %v: tensor<4x4xf32>):
    %1 = train.matmul %c, %v : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
    %2 = train.add %1, %s : tensor<2x4xf32>
    // CHECK: train.loop_yield %[[H:.*]], %[[H]] : tensor<2x4xf32>, tensor<2x4xf32>
    train.loop_yield %2, %2 : tensor<2x4xf32>, tensor<2x4xf32>
  }
  return
}

// CHECK-LABEL: func.func @within(
func.func @within(%lengths: tensor<?xi32, #train.dims<batch>>) -> tensor<?xi32, #train.dims<batch>> {
  // CHECK: train.within %arg0 to <seq> : tensor<?xi32, #train.dims<batch>>
  %0 = train.within %lengths to <seq> : tensor<?xi32, #train.dims<batch>>
  // CHECK: train.within %arg0 to <seq - 1> from_end : tensor<?xi32, #train.dims<batch>>
  %1 = train.within %lengths to <seq - 1> from_end : tensor<?xi32, #train.dims<batch>>
  return %0 : tensor<?xi32, #train.dims<batch>>
}
