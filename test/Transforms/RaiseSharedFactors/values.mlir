// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The order of the merged axis changes no value.
// RUN: trainc-test-opt %s --test-evaluate --mlir-disable-threading -o /dev/null > %t.before
// RUN: trainc-test-opt %s --raise-shared-factors --test-evaluate --mlir-disable-threading -o /dev/null | diff %t.before -
// RUN: trainc-opt %s --raise-shared-factors | FileCheck %s
// CHECK: train.matmul {{.*}} : tensor<3x8x5xf32>, tensor<3x6x5xf32> -> tensor<3x8x6xf32>
func.func @gathered(%x: tensor<2x4x3x5xf32>, %p: tensor<3x6x5xf32>) -> tensor<2x4x3x4xf32> {
  %i = train.constant dense<[[0, 1, 2, 3], [5, 0, 1, 2], [4, 5, 0, 1], [3, 4, 5, 0]]> : tensor<4x4xi32>
  %0 = train.transpose %x permutation = [0, 2, 1, 3] : tensor<2x4x3x5xf32> -> tensor<2x3x4x5xf32>
  %1 = train.reshape %0 : tensor<2x3x4x5xf32> -> tensor<6x4x5xf32>
  %2 = train.broadcast %p axes = [1, 2, 3] : tensor<3x6x5xf32> -> tensor<2x3x6x5xf32>
  %3 = train.reshape %2 : tensor<2x3x6x5xf32> -> tensor<6x6x5xf32>
  %4 = train.matmul %1, %3 transposed : tensor<6x4x5xf32>, tensor<6x6x5xf32> -> tensor<6x4x6xf32>
  %5 = train.broadcast %i axes = [1, 2] : tensor<4x4xi32> -> tensor<6x4x4xi32>
  %6 = train.gather_elements %4, %5 axis = 2 : tensor<6x4x6xf32>, tensor<6x4x4xi32> -> tensor<6x4x4xf32>
  %7 = train.transpose %6 permutation = [0, 2, 1] : tensor<6x4x4xf32> -> tensor<6x4x4xf32>
  %8 = train.add %6, %7 : tensor<6x4x4xf32>
  %9 = train.reshape %8 : tensor<6x4x4xf32> -> tensor<2x3x4x4xf32>
  %10 = train.transpose %9 permutation = [0, 2, 1, 3] : tensor<2x3x4x4xf32> -> tensor<2x4x3x4xf32>
  return %10 : tensor<2x4x3x4xf32>
}
