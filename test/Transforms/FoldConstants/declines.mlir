// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --split-input-file --fold-constants='max-elements=4' --remarks-filter=fold-constants --remark-format=emitRemark 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t

// Larger than max-elements; of a symbolic size.
// CHECK-LABEL: func.func @large
// CHECK: train.iota
// CHECK: train.mul
// REMARK: the result has more than 4 elements or a symbolic size
func.func @large() -> tensor<2x3xf32> {
  %0 = train.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
  %1 = train.iota 1 : tensor<2x3xf32>
  %2 = train.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %3 = train.broadcast %2 axes = [0] : tensor<2xf32> -> tensor<2x3xf32>
  %4 = train.mul %1, %3 : tensor<2x3xf32>
  return %4 : tensor<2x3xf32>
}

// -----

// CHECK-LABEL: func.func @symbolic
// CHECK: train.broadcast
// REMARK: the result has more than 4 elements or a symbolic size{{.*}}Suggestion="give sizes numbers: trainc --dim NAME=N"
func.func @symbolic() -> tensor<?x2xf32, #train.dims<n, 2>> {
  %0 = train.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %1 = train.broadcast %0 axes = [1] : tensor<2xf32> -> tensor<?x2xf32, #train.dims<n, 2>>
  return %1 : tensor<?x2xf32, #train.dims<n, 2>>
}

// -----

// What is read from an argument is no constant, and random numbers are drawn by the step.
// CHECK-LABEL: func.func @arguments
// CHECK: train.exp %arg0
// CHECK: train.random_bits %arg1
func.func @arguments(%x: tensor<2xf32>, %key: tensor<i64>) -> (tensor<2xf32>, tensor<2xi32>) {
  %0 = train.exp %x : tensor<2xf32>
  %1 = train.random_bits %key : tensor<i64> -> tensor<2xi32>
  return %0, %1 : tensor<2xf32>, tensor<2xi32>
}
