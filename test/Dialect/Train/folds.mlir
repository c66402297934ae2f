// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Folders: what canonicalize removes.
// RUN: trainc-opt %s --canonicalize | FileCheck %s

// CHECK-LABEL: func.func @neutral(
// CHECK-SAME: %[[X:.*]]: tensor<4xf32>
func.func @neutral(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %zero = train.full 0.0 : f32 : tensor<4xf32>
  %one = train.full 1.0 : f32 : tensor<4xf32>
  %0 = train.add %x, %zero : tensor<4xf32>
  %1 = train.add %zero, %x : tensor<4xf32>
  %2 = train.sub %x, %zero : tensor<4xf32>
  %3 = train.mul %x, %one : tensor<4xf32>
  %4 = train.mul %one, %x : tensor<4xf32>
  %5 = train.div %x, %one : tensor<4xf32>
  // CHECK-NEXT: return %[[X]], %[[X]], %[[X]], %[[X]], %[[X]], %[[X]]
  return %0, %1, %2, %3, %4, %5 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// x * 0 is not 0 where x is infinite, 0 - x and 1 / x are not x.
// CHECK-LABEL: func.func @kept(
func.func @kept(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %zero = train.full 0.0 : f32 : tensor<4xf32>
  %one = train.full 1.0 : f32 : tensor<4xf32>
  // CHECK: train.mul
  %0 = train.mul %x, %zero : tensor<4xf32>
  // CHECK: train.sub
  %1 = train.sub %zero, %x : tensor<4xf32>
  // CHECK: train.div
  %2 = train.div %one, %x : tensor<4xf32>
  return %0, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL: func.func @cast(
// CHECK-SAME: %[[X:.*]]: tensor<4xf32>
func.func @cast(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = train.cast %x : tensor<4xf32> -> tensor<4xf32>
  // A round trip through fewer bits loses some.
  // CHECK: %[[H:.*]] = train.cast %[[X]] : tensor<4xf32> -> tensor<4xf16>
  %1 = train.cast %x : tensor<4xf32> -> tensor<4xf16>
  // CHECK: %[[Y:.*]] = train.cast %[[H]] : tensor<4xf16> -> tensor<4xf32>
  %2 = train.cast %1 : tensor<4xf16> -> tensor<4xf32>
  // CHECK: return %[[X]], %[[Y]]
  return %0, %2 : tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL: func.func @broadcast(
// CHECK-SAME: %[[X:.*]]: tensor<4xf32>
func.func @broadcast(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<2x3x4xf32>, tensor<2x3xf32>) {
  %0 = train.broadcast %x axes = [0] : tensor<4xf32> -> tensor<4xf32>
  // CHECK-DAG: %[[B:.*]] = train.broadcast %[[X]] axes = [2] : tensor<4xf32> -> tensor<2x3x4xf32>
  %1 = train.broadcast %x axes = [1] : tensor<4xf32> -> tensor<3x4xf32>
  %2 = train.broadcast %1 axes = [1, 2] : tensor<3x4xf32> -> tensor<2x3x4xf32>
  // CHECK-DAG: %[[F:.*]] = train.full 1.500000e+00 : f32 : tensor<2x3xf32>
  %3 = train.full 1.5 : f32 : tensor<f32>
  %4 = train.broadcast %3 axes = [] : tensor<f32> -> tensor<2x3xf32>
  // CHECK: return %[[X]], %[[B]], %[[F]]
  return %0, %2, %4 : tensor<4xf32>, tensor<2x3x4xf32>, tensor<2x3xf32>
}

// CHECK-LABEL: func.func @reshape(
// CHECK-SAME: %[[X:.*]]: tensor<2x6xf32>
func.func @reshape(%x: tensor<2x6xf32>) -> (tensor<2x6xf32>, tensor<3x4xf32>, tensor<2x2xi64>) {
  %0 = train.reshape %x : tensor<2x6xf32> -> tensor<12xf32>
  %1 = train.reshape %0 : tensor<12xf32> -> tensor<2x6xf32>
  // CHECK-DAG: %[[R:.*]] = train.reshape %[[X]] : tensor<2x6xf32> -> tensor<3x4xf32>
  %2 = train.reshape %0 : tensor<12xf32> -> tensor<3x4xf32>
  // CHECK-DAG: %[[C:.*]] = train.constant dense<{{\[\[}}0, 1], [2, 3]]> : tensor<2x2xi64>
  %3 = train.constant dense<[0, 1, 2, 3]> : tensor<4xi64>
  %4 = train.reshape %3 : tensor<4xi64> -> tensor<2x2xi64>
  // CHECK: return %[[X]], %[[R]], %[[C]]
  return %1, %2, %4 : tensor<2x6xf32>, tensor<3x4xf32>, tensor<2x2xi64>
}

// CHECK-LABEL: func.func @transpose(
// CHECK-SAME: %[[X:.*]]: tensor<2x3x4xf32>
func.func @transpose(%x: tensor<2x3x4xf32>) -> (tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<3x4x2xf32>) {
  %0 = train.transpose %x permutation = [0, 1, 2] : tensor<2x3x4xf32> -> tensor<2x3x4xf32>
  %1 = train.transpose %x permutation = [2, 0, 1] : tensor<2x3x4xf32> -> tensor<4x2x3xf32>
  %2 = train.transpose %1 permutation = [1, 2, 0] : tensor<4x2x3xf32> -> tensor<2x3x4xf32>
  // CHECK: %[[T:.*]] = train.transpose %[[X]] permutation = [1, 2, 0] : tensor<2x3x4xf32> -> tensor<3x4x2xf32>
  %3 = train.transpose %1 permutation = [2, 0, 1] : tensor<4x2x3xf32> -> tensor<3x4x2xf32>
  // CHECK: return %[[X]], %[[X]], %[[T]]
  return %0, %2, %3 : tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<3x4x2xf32>
}

// CHECK-LABEL: func.func @slice(
// CHECK-SAME: %[[X:.*]]: tensor<?x4xf32, #train.dims<seq, 4>>
func.func @slice(%x: tensor<?x4xf32, #train.dims<seq, 4>>) -> (tensor<?x4xf32, #train.dims<seq, 4>>, tensor<?x4xf32, #train.dims<seq, 4>>) {
  %0 = train.slice %x starts = <0, 0> steps = [1, 1] : tensor<?x4xf32, #train.dims<seq, 4>> -> tensor<?x4xf32, #train.dims<seq, 4>>
  // Reversed is not the same, though it has the same type.
  // CHECK-NEXT: %[[R:.*]] = train.slice %[[X]] starts = <seq - 1, 0> steps = [-1, 1]
  %1 = train.slice %x starts = <seq - 1, 0> steps = [-1, 1] : tensor<?x4xf32, #train.dims<seq, 4>> -> tensor<?x4xf32, #train.dims<seq, 4>>
  // CHECK-NEXT: return %[[X]], %[[R]]
  return %0, %1 : tensor<?x4xf32, #train.dims<seq, 4>>, tensor<?x4xf32, #train.dims<seq, 4>>
}

// CHECK-LABEL: func.func @reduce(
// CHECK-SAME: %[[X:.*]]: tensor<4xf32>
func.func @reduce(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0 = train.reduce sum %x axes = [] : tensor<4xf32> -> tensor<4xf32>
  %1 = train.broadcast %x axes = [1] : tensor<4xf32> -> tensor<3x4xf32>
  %2 = train.reduce max %1 axes = [0] : tensor<3x4xf32> -> tensor<4xf32>
  // CHECK: %[[S:.*]] = train.reduce sum
  %3 = train.reduce sum %1 axes = [0] : tensor<3x4xf32> -> tensor<4xf32>
  // CHECK: return %[[X]], %[[X]], %[[S]]
  return %0, %2, %3 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// Randomness is data: an unused dropout goes.
// CHECK-LABEL: func.func @pure(
func.func @pure(%x: tensor<4xf32>, %k: tensor<i64>) -> tensor<4xf32> {
  // CHECK-NEXT: return
  %0 = train.dropout %x, %k {ratio = 0.5 : f64} : tensor<4xf32>, tensor<i64>
  return %x : tensor<4xf32>
}
