// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --mixed-precision=type=bf16 --remarks-filter=mixed-precision --remark-format=emitRemark 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t

// Declines: positions are integers that the low type does not hold; f64 stays.
// CHECK-LABEL: func.func @declined
// CHECK: train.matmul {{.*}} -> tensor<1024x8xf32>
// CHECK: train.matmul {{.*}} -> tensor<4x4xf64>
// REMARK: NotLowered{{.*}}an operand is made of integers, which bf16 does not hold exactly{{.*}}train.matmul stays in f32
func.func @declined(%f: tensor<1x8xf32>, %d: tensor<4x4xf64>) -> (tensor<1024x8xf32>, tensor<4x4xf64>) {
  %0 = train.iota 0 : tensor<1024x1xi64>
  %1 = train.cast %0 : tensor<1024x1xi64> -> tensor<1024x1xf32>
  %2 = train.matmul %1, %f : tensor<1024x1xf32>, tensor<1x8xf32> -> tensor<1024x8xf32>
  %3 = train.matmul %d, %d : tensor<4x4xf64>, tensor<4x4xf64> -> tensor<4x4xf64>
  return %2, %3 : tensor<1024x8xf32>, tensor<4x4xf64>
}

// As positions are that were folded; what the low type holds, and fractions, are rounded as data is.
// CHECK-LABEL: func.func @constants
// CHECK: train.matmul {{.*}} -> tensor<3x8xf32>
// CHECK: train.matmul {{.*}} -> tensor<3x8xbf16>
// CHECK: train.matmul {{.*}} -> tensor<3x8xbf16>
func.func @constants(%f: tensor<1x8xf32>) -> (tensor<3x8xf32>, tensor<3x8xf32>, tensor<3x8xf32>) {
  %0 = train.constant dense<[[0.0], [256.0], [257.0]]> : tensor<3x1xf32>
  %1 = train.constant dense<[[0.0], [128.0], [256.0]]> : tensor<3x1xf32>
  %2 = train.constant dense<[[0.5], [257.0], [256.0]]> : tensor<3x1xf32>
  %3 = train.matmul %0, %f : tensor<3x1xf32>, tensor<1x8xf32> -> tensor<3x8xf32>
  %4 = train.matmul %1, %f : tensor<3x1xf32>, tensor<1x8xf32> -> tensor<3x8xf32>
  %5 = train.matmul %2, %f : tensor<3x1xf32>, tensor<1x8xf32> -> tensor<3x8xf32>
  return %3, %4, %5 : tensor<3x8xf32>, tensor<3x8xf32>, tensor<3x8xf32>
}
