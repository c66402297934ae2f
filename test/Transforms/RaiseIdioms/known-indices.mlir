// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Gathers of elements at indices that are made of constants read a slice of what is computed.
// RUN: trainc-opt %s --raise-idioms --canonicalize --remarks-filter=raise-idioms --remark-format=emitRemark 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t
// RUN: trainc-opt %s --raise-idioms --hoist-slices --canonicalize | FileCheck %s --check-prefix=HOISTED

// Rows of 24 elements, of which 9 to 14 are read: 8 to 15 are computed.
// REMARK: Raised{{.*}}train.gather_elements{{.*}}reads 8 of 24 elements of its axis, which are all that is computed
// CHECK-LABEL: func.func @relative
// CHECK-DAG: %[[I:.*]] = train.constant dense<{{\[\[}}4, 3, 2], [5, 4, 3], [6, 5, 4]]> : tensor<3x3xi32>
// CHECK-DAG: %[[S:.*]] = train.slice %{{.*}} starts = <0, 0, 8> steps = [1, 1, 1] : tensor<2x3x24xf32> -> tensor<2x3x8xf32>
// CHECK-DAG: %[[B:.*]] = train.broadcast %[[I]] axes = [1, 2] : tensor<3x3xi32> -> tensor<2x3x3xi32>
// CHECK: train.gather_elements %[[S]], %[[B]] axis = 2 : tensor<2x3x8xf32>, tensor<2x3x3xi32> -> tensor<2x3x3xf32>
// HOISTED-LABEL: func.func @relative
// HOISTED: train.matmul {{.*}} -> tensor<2x3x8xf32>
func.func @relative(%q: tensor<2x3x4xf32>, %k: tensor<2x24x4xf32>) -> tensor<2x3x3xf32> {
  %0 = train.matmul %q, %k transposed : tensor<2x3x4xf32>, tensor<2x24x4xf32> -> tensor<2x3x24xf32>
  %i = train.iota 0 : tensor<3x3xi64>
  %j = train.iota 1 : tensor<3x3xi64>
  %1 = train.sub %i, %j : tensor<3x3xi64>
  %middle = train.full 12 : i64 : tensor<3x3xi64>
  %2 = train.add %1, %middle : tensor<3x3xi64>
  %3 = train.broadcast %2 axes = [1, 2] : tensor<3x3xi64> -> tensor<2x3x3xi64>
  %4 = train.gather_elements %0, %3 axis = 2 : tensor<2x3x24xf32>, tensor<2x3x3xi64> -> tensor<2x3x3xf32>
  return %4 : tensor<2x3x3xf32>
}

// Most of the axis is read; the whole is an argument; an index counts from the end.
// CHECK-LABEL: func.func @kept
// CHECK-NOT: train.slice
func.func @kept(%x: tensor<2x16xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>) {
  %0 = train.exp %x : tensor<2x16xf32>
  %1 = train.sigmoid %x : tensor<2x16xf32>
  %ends = train.constant dense<[[0, 15], [1, 14]]> : tensor<2x2xi64>
  %first = train.constant dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>
  %last = train.constant dense<[[0, -1], [1, 0]]> : tensor<2x2xi64>
  %2 = train.gather_elements %0, %ends axis = 1 : tensor<2x16xf32>, tensor<2x2xi64> -> tensor<2x2xf32>
  %3 = train.gather_elements %x, %first axis = 1 : tensor<2x16xf32>, tensor<2x2xi64> -> tensor<2x2xf32>
  %4 = train.gather_elements %1, %last axis = 1 : tensor<2x16xf32>, tensor<2x2xi64> -> tensor<2x2xf32>
  return %2, %3, %4 : tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>
}
