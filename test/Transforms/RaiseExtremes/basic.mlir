// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --pass-pipeline='builtin.module(func.func(raise-extremes))' --remarks-filter=raise-extremes --remark-format=emitRemark 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t

// Two axes of taps, whose position the gradient reads: it stays, the sum does not. Operands either way around.
// REMARK: Raised{{.*}}train.reduce is the maximum that its position was found by
// CHECK-LABEL: func.func @pool(
// CHECK-SAME: %[[X:.*]]: tensor<3x2x8xf32>
// CHECK: %[[M:.*]] = train.reduce max %[[X]] axes = [0, 1]
// CHECK: %[[F:.*]] = train.reduce min {{.*}} axes = [0, 1]
// CHECK-NOT: train.reduce
// CHECK: return %[[M]], %[[F]]
func.func @pool(%x: tensor<3x2x8xf32>) -> (tensor<8xf32>, tensor<8xi8>) {
  %0 = train.reduce max %x axes = [0, 1] : tensor<3x2x8xf32> -> tensor<8xf32>
  %1 = train.broadcast %0 axes = [2] : tensor<8xf32> -> tensor<3x2x8xf32>
  %2 = train.compare ge %x, %1 : tensor<3x2x8xf32> -> tensor<3x2x8xi1>
  %3 = train.is_nan %x : tensor<3x2x8xf32> -> tensor<3x2x8xi1>
  %4 = train.or %3, %2 : tensor<3x2x8xi1>
  %5 = train.iota 0 : tensor<3x2x8xi8>
  %6 = train.full 2 : i8 : tensor<3x2x8xi8>
  %7 = train.mul %5, %6 : tensor<3x2x8xi8>
  %8 = train.iota 1 : tensor<3x2x8xi8>
  %9 = train.add %8, %7 : tensor<3x2x8xi8>
  %10 = train.full 6 : i8 : tensor<3x2x8xi8>
  %11 = train.select %4, %9, %10 : tensor<3x2x8xi1>, tensor<3x2x8xi8>
  %12 = train.reduce min %11 axes = [0, 1] : tensor<3x2x8xi8> -> tensor<8xi8>
  %13 = train.broadcast %12 axes = [2] : tensor<8xi8> -> tensor<3x2x8xi8>
  %14 = train.compare eq %13, %9 : tensor<3x2x8xi8> -> tensor<3x2x8xi1>
  %15 = train.full 0.0 : f32 : tensor<3x2x8xf32>
  %16 = train.select %14, %x, %15 : tensor<3x2x8xi1>, tensor<3x2x8xf32>
  %17 = train.reduce sum %16 axes = [0, 1] : tensor<3x2x8xf32> -> tensor<8xf32>
  return %17, %12 : tensor<8xf32>, tensor<8xi8>
}
