// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls whose results are joined write parts of one buffer.
// RUN: trainc-test-opt %s --split-input-file --test-train-to-plan | FileCheck %s

// Through views: the heads of each part are transposed, and lie side by side in rows of the whole.
// CHECK-LABEL: plan.function @gradients
// CHECK: plan.attention {{.*}} gradients %{{[0-9]+}}, %[[WHOLE:[0-9]+]], %[[WHOLE]], %[[WHOLE]]
// CHECK-SAME: d_k_strides = #train.dims<1536, 16, 192>
// CHECK-SAME: d_q_strides = #train.dims<1536, 16, 192>, d_v_strides = #train.dims<1536, 16, 192>
// CHECK-SAME: offsets = #train.dims<0, 0, 0, 0, 0, 0, 0, 64, 128>
// CHECK-NEXT: plan.gemm %[[WHOLE]], %{{.*}} strides <192, 1>
func.func @gradients(
    %q: tensor<2x4x8x16xbf16> {train.role = "input", train.name = "q"},
    %o: tensor<2x4x8x16xbf16> {train.role = "input", train.name = "o"},
    %stats: tensor<2x4x8xf32> {train.role = "input", train.name = "stats"},
    %w: tensor<192x8xbf16> {train.role = "input", train.name = "w"})
    -> (tensor<16x8xbf16> {train.role = "output", train.name = "y"}) {
  %dq, %dk, %dv = train.attention_grad %q, %q, %q, %o, %stats, %o {scale = 0.25 : f64, dropout = 0.0 : f64}
    : (tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8xf32>, tensor<2x4x8x16xbf16>)
    -> (tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>)
  %0 = train.transpose %dq permutation = [0, 2, 1, 3] : tensor<2x4x8x16xbf16> -> tensor<2x8x4x16xbf16>
  %1 = train.reshape %0 : tensor<2x8x4x16xbf16> -> tensor<16x64xbf16>
  %2 = train.transpose %dk permutation = [0, 2, 1, 3] : tensor<2x4x8x16xbf16> -> tensor<2x8x4x16xbf16>
  %3 = train.reshape %2 : tensor<2x8x4x16xbf16> -> tensor<16x64xbf16>
  %4 = train.transpose %dv permutation = [0, 2, 1, 3] : tensor<2x4x8x16xbf16> -> tensor<2x8x4x16xbf16>
  %5 = train.reshape %4 : tensor<2x8x4x16xbf16> -> tensor<16x64xbf16>
  %6 = train.concat %1, %3, %5 axis = 1 : (tensor<16x64xbf16>, tensor<16x64xbf16>, tensor<16x64xbf16>) -> tensor<16x192xbf16>
  %7 = train.matmul %6, %w : tensor<16x192xbf16>, tensor<192x8xbf16> -> tensor<16x8xbf16>
  return %7 : tensor<16x8xbf16>
}

// -----

// Calls of several ops, along the first axis; what is returned is written where it is wanted.
// CHECK-LABEL: plan.function @rows
// CHECK: %[[WHOLE:[0-9]+]] = plan.buffer output "z" : tensor<8x8xf32>
// CHECK-NEXT: plan.gemm %{{.*}}, %{{.*}}, %[[WHOLE]] {{.*}} offsets <0, 0, 0>
// CHECK-NEXT: plan.gemm %{{.*}}, %{{.*}}, %[[WHOLE]] {{.*}} offsets <0, 0, 32>
// CHECK-NEXT: }
func.func @rows(
    %x: tensor<4x4xf32> {train.role = "input", train.name = "x"},
    %y: tensor<4x8xf32> {train.role = "input", train.name = "y"})
    -> (tensor<8x8xf32> {train.role = "output", train.name = "z"}) {
  %0 = train.matmul %x, %y : tensor<4x4xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  %1 = train.matmul %x transposed, %y : tensor<4x4xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  %2 = train.concat %0, %1 axis = 0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  return %2 : tensor<8x8xf32>
}
