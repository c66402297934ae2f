// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --raise-choices --remarks-filter=raise-choices --remark-format=emitRemark 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK <%t

// For two vectors a matrix nothing is gained.
// CHECK-LABEL: func.func @few
// REMARK: [Missed] NotSorted{{.*}}Function=few{{.*}}"there are 6 vectors for 3 matrices", Remark="train.matmul has a copy of a matrix for each vector"
// CHECK: train.gather %arg0, %arg2 axis = 0 : tensor<3x8x4xf32>, tensor<6xi64> -> tensor<6x8x4xf32>
func.func @few(%up: tensor<3x8x4xf32>, %x: tensor<6x4x1xf32>, %chosen: tensor<6xi64>) -> tensor<6x8x1xf32> {
  %0 = train.gather %up, %chosen axis = 0 : tensor<3x8x4xf32>, tensor<6xi64> -> tensor<6x8x4xf32>
  %1 = train.matmul %0, %x : tensor<6x8x4xf32>, tensor<6x4x1xf32> -> tensor<6x8x1xf32>
  return %1 : tensor<6x8x1xf32>
}

// The copies are read elsewhere, too, and stay.
// CHECK-LABEL: func.func @read_twice
// CHECK-NOT: train.select_rows
// CHECK: return
func.func @read_twice(%up: tensor<3x8x4xf32>, %x: tensor<9x4x1xf32>, %chosen: tensor<9xi64>) -> (tensor<9x8x1xf32>, tensor<9x8x4xf32>) {
  %0 = train.gather %up, %chosen axis = 0 : tensor<3x8x4xf32>, tensor<9xi64> -> tensor<9x8x4xf32>
  %1 = train.matmul %0, %x : tensor<9x8x4xf32>, tensor<9x4x1xf32> -> tensor<9x8x1xf32>
  return %1, %0 : tensor<9x8x1xf32>, tensor<9x8x4xf32>
}

// Matrices of two vectors each.
// CHECK-LABEL: func.func @two_columns
// CHECK-NOT: train.select_rows
// CHECK: return
func.func @two_columns(%up: tensor<3x8x4xf32>, %x: tensor<9x4x2xf32>, %chosen: tensor<9xi64>) -> tensor<9x8x2xf32> {
  %0 = train.gather %up, %chosen axis = 0 : tensor<3x8x4xf32>, tensor<9xi64> -> tensor<9x8x4xf32>
  %1 = train.matmul %0, %x : tensor<9x8x4xf32>, tensor<9x4x2xf32> -> tensor<9x8x2xf32>
  return %1 : tensor<9x8x2xf32>
}
