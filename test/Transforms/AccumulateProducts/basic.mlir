// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --split-input-file --accumulate-products | FileCheck %s
// RUN: trainc-opt %s --split-input-file --accumulate-products --remarks-filter=accumulate-products --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// Sums that are stored in f32 are added to as they are.
// CHECK-LABEL: func.func @stored
// CHECK: %[[Q:[0-9]+]] = train.matmul
// CHECK: train.matmul {{.*}} plus %[[Q]] : tensor<6x{{.*}}xbf16>, tensor<{{.*}}xbf16>, tensor<6x8xf32> -> tensor<6x8xf32>
// REMARK: Accumulated
func.func @stored(%x: tensor<6x4xbf16>, %w: tensor<4x8xbf16>, %a: tensor<6x2xbf16>, %b: tensor<2x8xbf16>) -> tensor<6x8xf32> {
  %0 = train.matmul %x, %w : tensor<6x4xbf16>, tensor<4x8xbf16> -> tensor<6x8xf32>
  %1 = train.matmul %a, %b : tensor<6x2xbf16>, tensor<2x8xbf16> -> tensor<6x8xf32>
  %2 = train.add %0, %1 : tensor<6x8xf32>
  return %2 : tensor<6x8xf32>
}

// A chain, through the casts and reshapes of sums in f32. What sums over fewer comes first, but for the other products.
// CHECK-LABEL: func.func @chain
// CHECK: %[[P:[0-9]+]] = train.matmul %[[A:[a-z0-9]+]], %[[B:[a-z0-9]+]] transposed :
// CHECK: %[[S:[a-z0-9_]+]] = train.matmul %[[X:[a-z0-9]+]], %[[W:[a-z0-9]+]] plus %[[P]] : {{.*}} -> tensor<6x8xbf16>
// CHECK: %[[T:[a-z0-9_]+]] = train.matmul %[[X]], %{{[a-z0-9]+}} plus %[[S]] :
// CHECK: train.matmul %[[X]], %[[W]] plus %[[T]] :
// CHECK-NOT: train.add
// REMARK: Accumulated
func.func @chain(%x: tensor<6x4xbf16>, %w: tensor<4x8xbf16>, %v: tensor<4x8xbf16>, %a: tensor<6x2xbf16>, %b: tensor<8x2xbf16>) -> tensor<2x3x8xf32> {
  %0 = train.matmul %x, %w : tensor<6x4xbf16>, tensor<4x8xbf16> -> tensor<6x8xbf16>
  %1 = train.cast %0 : tensor<6x8xbf16> -> tensor<6x8xf32>
  %2 = train.matmul %x, %v : tensor<6x4xbf16>, tensor<4x8xbf16> -> tensor<6x8xbf16>
  %3 = train.cast %2 : tensor<6x8xbf16> -> tensor<6x8xf32>
  %4 = train.add %1, %3 : tensor<6x8xf32>
  %5 = train.reshape %4 : tensor<6x8xf32> -> tensor<2x3x8xf32>
  %6 = train.matmul %a, %b transposed : tensor<6x2xbf16>, tensor<8x2xbf16> -> tensor<6x8xbf16>
  %7 = train.reshape %6 : tensor<6x8xbf16> -> tensor<2x3x8xbf16>
  %8 = train.cast %7 : tensor<2x3x8xbf16> -> tensor<2x3x8xf32>
  %9 = train.add %5, %8 : tensor<2x3x8xf32>
  %10 = train.matmul %x, %w : tensor<6x4xbf16>, tensor<4x8xbf16> -> tensor<6x8xbf16>
  %11 = train.cast %10 : tensor<6x8xbf16> -> tensor<6x8xf32>
  %12 = train.reshape %11 : tensor<6x8xf32> -> tensor<2x3x8xf32>
  %13 = train.add %9, %12 : tensor<2x3x8xf32>
  return %13 : tensor<2x3x8xf32>
}
