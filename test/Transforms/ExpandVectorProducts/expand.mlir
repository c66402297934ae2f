// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(expand-vector-products,canonicalize))' --remarks-filter=expand-vector-products --remark-format=emitRemark 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t

// One query: its scores, where keys lie [batch, position, head, depth].
// CHECK-LABEL: func.func @scores
// CHECK: %[[K:.*]] = train.transpose %arg1 permutation = [0, 2, 1, 3]
// CHECK: %[[WIDE:.*]] = train.cast %[[K]]
// CHECK: %[[Q:.*]] = train.broadcast {{.*}} axes = [0, 1, 3]
// CHECK: %[[PRODUCTS:.*]] = train.mul %[[Q]], %[[WIDE]]
// CHECK: %[[SUMS:.*]] = train.reduce sum %[[PRODUCTS]] axes = [3]
// CHECK: train.cast %[[SUMS]] : tensor<2x3x5xf32> -> tensor<2x3x5xbf16>
// REMARK: train.matmul of vectors is made of multiplications and sums
func.func @scores(%q: tensor<2x3x1x4xbf16>, %k: tensor<2x5x3x4xbf16>) -> tensor<2x3x1x5xbf16> {
  %0 = train.transpose %k permutation = [0, 2, 3, 1] : tensor<2x5x3x4xbf16> -> tensor<2x3x4x5xbf16>
  %1 = train.matmul %q, %0 : tensor<2x3x1x4xbf16>, tensor<2x3x4x5xbf16> -> tensor<2x3x1x5xbf16>
  return %1 : tensor<2x3x1x5xbf16>
}

// -----

// The values' sum, down the columns; a column on the right, transposed, and sizes that are not known.
// CHECK-LABEL: func.func @sums
// CHECK: train.reduce sum {{.*}} axes = [1] : tensor<?x5x4xf64, #train.dims<b, 5, 4>>
// CHECK: train.reduce sum {{.*}} axes = [2] : tensor<?x5x4xf64, #train.dims<b, 5, 4>>
// CHECK-NOT: train.matmul
func.func @sums(%p: tensor<?x5x1xf64, #train.dims<b, 5, 1>>, %v: tensor<?x5x4xf64, #train.dims<b, 5, 4>>, %w: tensor<?x1x4xf64, #train.dims<b, 1, 4>>)
    -> (tensor<?x1x4xf64, #train.dims<b, 1, 4>>, tensor<?x5x1xf64, #train.dims<b, 5, 1>>) {
  %0 = train.matmul %p transposed, %v : tensor<?x5x1xf64, #train.dims<b, 5, 1>>, tensor<?x5x4xf64, #train.dims<b, 5, 4>> -> tensor<?x1x4xf64, #train.dims<b, 1, 4>>
  %1 = train.matmul %v, %w transposed : tensor<?x5x4xf64, #train.dims<b, 5, 4>>, tensor<?x1x4xf64, #train.dims<b, 1, 4>> -> tensor<?x5x1xf64, #train.dims<b, 5, 1>>
  return %0, %1 : tensor<?x1x4xf64, #train.dims<b, 1, 4>>, tensor<?x5x1xf64, #train.dims<b, 5, 1>>
}

// -----

// One summand: frequencies by positions.
// CHECK-LABEL: func.func @outer
// CHECK: train.mul
// CHECK-NOT: train.reduce
// CHECK-NOT: train.matmul
func.func @outer(%f: tensor<2x8x1xf32>, %p: tensor<2x6x1xf32>) -> tensor<2x8x6xf32> {
  %0 = train.matmul %f, %p transposed : tensor<2x8x1xf32>, tensor<2x6x1xf32> -> tensor<2x8x6xf32>
  return %0 : tensor<2x8x6xf32>
}

// -----

// Matrices, and what has no batch.
// CHECK-LABEL: func.func @kept
// CHECK-COUNT-2: train.matmul
// REMARK-NOT: Expanded{{.*}}kept
func.func @kept(%a: tensor<2x2x8xf32>, %b: tensor<2x8x2xf32>, %c: tensor<1x8xf32>, %d: tensor<8x4xf32>) -> (tensor<2x2x2xf32>, tensor<1x4xf32>) {
  %0 = train.matmul %a, %b : tensor<2x2x8xf32>, tensor<2x8x2xf32> -> tensor<2x2x2xf32>
  %1 = train.matmul %c, %d : tensor<1x8xf32>, tensor<8x4xf32> -> tensor<1x4xf32>
  return %0, %1 : tensor<2x2x2xf32>, tensor<1x4xf32>
}
