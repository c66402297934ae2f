// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parts that were packed along an axis of their own are pieces of that axis and the next one.
// RUN: trainc-opt %s --raise-idioms --canonicalize --cse | FileCheck %s

train.symbol @batch min 1 input "x" axis 0

// view(b, s, 3, h, d).unbind(2)
// CHECK-LABEL: func.func @unbind
// CHECK: %[[R:.*]] = train.reshape %arg0 : tensor<2x5x24xf32> -> tensor<2x5x12x2xf32>
// CHECK: %[[S:.*]]:3 = train.split %[[R]] axis = 2 : {{.*}} -> (tensor<2x5x4x2xf32>, tensor<2x5x4x2xf32>, tensor<2x5x4x2xf32>)
// CHECK: return %[[S]]#0, %[[S]]#1, %[[S]]#2
func.func @unbind(%x: tensor<2x5x24xf32>) -> (tensor<2x5x4x2xf32>, tensor<2x5x4x2xf32>, tensor<2x5x4x2xf32>) {
  %0 = train.reshape %x : tensor<2x5x24xf32> -> tensor<2x5x3x4x2xf32>
  %v = train.slice %0 starts = <0, 0, 2, 0, 0> steps = [1, 1, 1, 1, 1] : tensor<2x5x3x4x2xf32> -> tensor<2x5x1x4x2xf32>
  %q = train.slice %0 starts = <0, 0, 0, 0, 0> steps = [1, 1, 1, 1, 1] : tensor<2x5x3x4x2xf32> -> tensor<2x5x1x4x2xf32>
  %k = train.slice %0 starts = <0, 0, 1, 0, 0> steps = [1, 1, 1, 1, 1] : tensor<2x5x3x4x2xf32> -> tensor<2x5x1x4x2xf32>
  %1 = train.reshape %q : tensor<2x5x1x4x2xf32> -> tensor<2x5x4x2xf32>
  %2 = train.reshape %k : tensor<2x5x1x4x2xf32> -> tensor<2x5x4x2xf32>
  %3 = train.reshape %v : tensor<2x5x1x4x2xf32> -> tensor<2x5x4x2xf32>
  return %1, %2, %3 : tensor<2x5x4x2xf32>, tensor<2x5x4x2xf32>, tensor<2x5x4x2xf32>
}

// view(b, s, 2, h, d).permute(2, 0, 3, 1, 4), of any batch: each part is transposed as it was with the others.
// CHECK-LABEL: func.func @permuted
// CHECK: %[[R:.*]] = train.reshape %arg0 : {{.*}} -> tensor<?x5x8x2xf32, #train.dims<batch, 5, 8, 2>>
// CHECK: %[[S:.*]]:2 = train.split %[[R]] axis = 2
// CHECK-DAG: train.transpose %[[S]]#0 permutation = [0, 2, 1, 3]
// CHECK-DAG: train.transpose %[[S]]#1 permutation = [0, 2, 1, 3]
func.func @permuted(%x: tensor<?x5x16xf32, #train.dims<batch, 5, 16>>) -> (tensor<?x4x5x2xf32, #train.dims<batch, 4, 5, 2>>, tensor<?x4x5x2xf32, #train.dims<batch, 4, 5, 2>>) {
  %0 = train.reshape %x : tensor<?x5x16xf32, #train.dims<batch, 5, 16>> -> tensor<?x5x2x4x2xf32, #train.dims<batch, 5, 2, 4, 2>>
  %1 = train.transpose %0 permutation = [2, 0, 3, 1, 4] : tensor<?x5x2x4x2xf32, #train.dims<batch, 5, 2, 4, 2>> -> tensor<2x?x4x5x2xf32, #train.dims<2, batch, 4, 5, 2>>
  %2 = train.slice %1 starts = <0, 0, 0, 0, 0> steps = [1, 1, 1, 1, 1] : tensor<2x?x4x5x2xf32, #train.dims<2, batch, 4, 5, 2>> -> tensor<1x?x4x5x2xf32, #train.dims<1, batch, 4, 5, 2>>
  %3 = train.slice %1 starts = <1, 0, 0, 0, 0> steps = [1, 1, 1, 1, 1] : tensor<2x?x4x5x2xf32, #train.dims<2, batch, 4, 5, 2>> -> tensor<1x?x4x5x2xf32, #train.dims<1, batch, 4, 5, 2>>
  %4 = train.reshape %2 : tensor<1x?x4x5x2xf32, #train.dims<1, batch, 4, 5, 2>> -> tensor<?x4x5x2xf32, #train.dims<batch, 4, 5, 2>>
  %5 = train.reshape %3 : tensor<1x?x4x5x2xf32, #train.dims<1, batch, 4, 5, 2>> -> tensor<?x4x5x2xf32, #train.dims<batch, 4, 5, 2>>
  return %4, %5 : tensor<?x4x5x2xf32, #train.dims<batch, 4, 5, 2>>, tensor<?x4x5x2xf32, #train.dims<batch, 4, 5, 2>>
}

// One part is not read: a split would have it.
// CHECK-LABEL: func.func @some
// CHECK-NOT: train.split
func.func @some(%0: tensor<2x3x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  %q = train.slice %0 starts = <0, 0, 0> steps = [1, 1, 1] : tensor<2x3x4xf32> -> tensor<2x1x4xf32>
  %k = train.slice %0 starts = <0, 2, 0> steps = [1, 1, 1] : tensor<2x3x4xf32> -> tensor<2x1x4xf32>
  %1 = train.reshape %q : tensor<2x1x4xf32> -> tensor<2x4xf32>
  %2 = train.reshape %k : tensor<2x1x4xf32> -> tensor<2x4xf32>
  return %1, %2 : tensor<2x4xf32>, tensor<2x4xf32>
}

// Behind the last axis there is none that the pieces could be of; and parts that keep the axis are no parts without it.
// CHECK-LABEL: func.func @last
// CHECK-NOT: train.split
func.func @last(%0: tensor<3x2xf32>, %x: tensor<2x4xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<1x4xf32>, tensor<1x4xf32>) {
  %a = train.slice %0 starts = <0, 0> steps = [1, 1] : tensor<3x2xf32> -> tensor<3x1xf32>
  %b = train.slice %0 starts = <0, 1> steps = [1, 1] : tensor<3x2xf32> -> tensor<3x1xf32>
  %1 = train.reshape %a : tensor<3x1xf32> -> tensor<3xf32>
  %2 = train.reshape %b : tensor<3x1xf32> -> tensor<3xf32>
  %c = train.slice %x starts = <0, 0> steps = [1, 1] : tensor<2x4xf32> -> tensor<1x4xf32>
  %d = train.slice %x starts = <1, 0> steps = [1, 1] : tensor<2x4xf32> -> tensor<1x4xf32>
  return %1, %2, %c, %d : tensor<3xf32>, tensor<3xf32>, tensor<1x4xf32>, tensor<1x4xf32>
}
