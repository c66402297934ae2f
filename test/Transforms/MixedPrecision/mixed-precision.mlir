// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --mixed-precision=type=bf16 | FileCheck %s
// RUN: trainc-opt %s --mixed-precision=type=f16 | FileCheck %s --check-prefix=F16
// RUN: trainc-opt %s --mixed-precision=type=bf16 --remark-format=emitRemark --remarks-filter=".*" 2>&1 | FileCheck %s --check-prefix=REMARK

// The product runs in the low type, the norm of its result does not. The cast of a moved operand is before the move.
// CHECK-LABEL: func.func @product
// CHECK-DAG: %[[X:.*]] = train.cast %arg0 : tensor<4x8xf32> -> tensor<4x8xbf16>
// CHECK-DAG: %[[W:.*]] = train.cast %arg1 : tensor<2x8xf32> -> tensor<2x8xbf16>
// CHECK: %[[T:.*]] = train.transpose %[[W]] {{.*}}xbf16>
// CHECK: %[[Y:.*]] = train.matmul %[[X]], %[[T]] : tensor<4x8xbf16>, tensor<8x2xbf16> -> tensor<4x2xbf16>
// CHECK: %[[Z:.*]] = train.cast %[[Y]] : tensor<4x2xbf16> -> tensor<4x2xf32>
// CHECK: train.softmax %[[Z]] axis = 1 : tensor<4x2xf32>
// F16: train.matmul {{.*}} -> tensor<4x2xf16>
// REMARK: remark: [Passed] Lowered
func.func @product(%x: tensor<4x8xf32>, %w: tensor<2x8xf32>) -> tensor<4x2xf32> {
  %0 = train.transpose %w permutation = [1, 0] : tensor<2x8xf32> -> tensor<8x2xf32>
  %1 = train.matmul %x, %0 : tensor<4x8xf32>, tensor<8x2xf32> -> tensor<4x2xf32>
  %2 = train.softmax %1 axis = 1 : tensor<4x2xf32>
  return %2 : tensor<4x2xf32>
}

