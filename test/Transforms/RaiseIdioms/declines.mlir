// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --raise-idioms --remarks-filter=raise-idioms --remark-format=emitRemark 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t

// Declines: another constant; the erf of something else than what it is multiplied with.
// CHECK-LABEL: func.func @others
// CHECK-NOT: train.gelu
// REMARK-COUNT-2: NotRaised{{.*}}not the formula of a GELU{{.*}}train.erf stays as it is
// A tanh by itself is no news.
// REMARK-NOT: NotRaised
func.func @others(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %half = train.full 5.000000e-01 : f32 : tensor<8xf32>
  %root2 = train.full 1.410000e+00 : f32 : tensor<8xf32>
  %exact = train.full 1.41421354 : f32 : tensor<8xf32>
  %one = train.full 1.000000e+00 : f32 : tensor<8xf32>
  %0 = train.mul %x, %half : tensor<8xf32>
  %1 = train.div %x, %root2 : tensor<8xf32>
  %2 = train.erf %1 : tensor<8xf32>
  %3 = train.add %2, %one : tensor<8xf32>
  %4 = train.mul %0, %3 : tensor<8xf32>
  %5 = train.div %y, %exact : tensor<8xf32>
  %6 = train.erf %5 : tensor<8xf32>
  %7 = train.add %6, %one : tensor<8xf32>
  %8 = train.mul %0, %7 : tensor<8xf32>
  return %4, %8 : tensor<8xf32>, tensor<8xf32>
}

// CHECK-LABEL: func.func @plain
// CHECK: train.tanh %arg0
func.func @plain(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = train.tanh %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
