// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parts make what the matmuls make: one row, one column and one summand, with either factor transposed.
// RUN: trainc-test-opt %s --mlir-disable-threading --test-evaluate -o /dev/null >%t.whole
// RUN: trainc-opt %s --pass-pipeline='builtin.module(func.func(expand-vector-products))' > %t.mlir
// RUN: FileCheck %s --input-file=%t.mlir
// RUN: trainc-test-opt %t.mlir --mlir-disable-threading --test-evaluate -o /dev/null | diff %t.whole -

// CHECK-LABEL: func.func @all
// CHECK-NOT: train.matmul
func.func @all(%a: tensor<2x1x3xf32> {testdialect.value = dense<[[[1.0, 2.0, -3.0]], [[4.0, -5.0, 6.0]]]> : tensor<2x1x3xf32>},
               %b: tensor<2x3x2xf32> {testdialect.value = dense<[[[1.0, 2.0], [3.0, -4.0], [5.0, 6.0]], [[-7.0, 8.0], [9.0, 1.0], [2.0, -3.0]]]> : tensor<2x3x2xf32>})
    -> (tensor<2x1x2xf32>, tensor<2x2x1xf32>, tensor<2x3x3xf32>, tensor<2x1x2xf32>, tensor<2x2x1xf32>) {
  %0 = train.matmul %a, %b : tensor<2x1x3xf32>, tensor<2x3x2xf32> -> tensor<2x1x2xf32>
  %1 = train.matmul %b transposed, %a transposed : tensor<2x3x2xf32>, tensor<2x1x3xf32> -> tensor<2x2x1xf32>
  %2 = train.matmul %a transposed, %a : tensor<2x1x3xf32>, tensor<2x1x3xf32> -> tensor<2x3x3xf32>
  %t = train.transpose %b permutation = [0, 2, 1] : tensor<2x3x2xf32> -> tensor<2x2x3xf32>
  %3 = train.matmul %a, %t transposed : tensor<2x1x3xf32>, tensor<2x2x3xf32> -> tensor<2x1x2xf32>
  %4 = train.matmul %t, %a transposed : tensor<2x2x3xf32>, tensor<2x1x3xf32> -> tensor<2x2x1xf32>
  return %0, %1, %2, %3, %4 : tensor<2x1x2xf32>, tensor<2x2x1xf32>, tensor<2x3x3xf32>, tensor<2x1x2xf32>, tensor<2x2x1xf32>
}
