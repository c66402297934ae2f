// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --widen-types | FileCheck %s

// f32 and integers are computed as they are, and a graph's own rounding stays where it is.
// CHECK-LABEL: func.func @wide
// CHECK-NEXT: %[[N:.*]] = train.cast %arg0 : tensor<4xf32> -> tensor<4xbf16>
// CHECK-NEXT: %[[W:.*]] = train.cast %[[N]] : tensor<4xbf16> -> tensor<4xf32>
// CHECK-NEXT: %[[E:.*]] = train.exp %[[W]] : tensor<4xf32>
// CHECK-NEXT: %[[I:.*]] = train.add %arg1, %arg1 : tensor<4xi64>
// CHECK-NEXT: %[[P:.*]] = train.matmul %arg2, %arg2 : tensor<2x2xf32>
// CHECK-NEXT: return %[[E]], %[[I]], %[[P]]
func.func @wide(%x: tensor<4xf32>, %i: tensor<4xi64>, %m: tensor<2x2xf32>) -> (tensor<4xf32>, tensor<4xi64>, tensor<2x2xf32>) {
  %0 = train.cast %x : tensor<4xf32> -> tensor<4xbf16>
  %1 = train.cast %0 : tensor<4xbf16> -> tensor<4xf32>
  %2 = train.exp %1 : tensor<4xf32>
  %3 = train.add %i, %i : tensor<4xi64>
  %4 = train.matmul %m, %m : tensor<2x2xf32>, tensor<2x2xf32> -> tensor<2x2xf32>
  return %2, %3, %4 : tensor<4xf32>, tensor<4xi64>, tensor<2x2xf32>
}
