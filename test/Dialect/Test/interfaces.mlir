// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The passes on ops that no line of dialects/ and lib/ knows (test/lib/TestDialect): what they need is what
// the ops say about themselves.
// RUN: trainc-test-opt %s | trainc-test-opt | FileCheck %s
// RUN: trainc-test-opt %s --hoist-slices | FileCheck %s --check-prefix=HOIST
// RUN: trainc-test-opt %s --autodiff | FileCheck %s --check-prefix=GRAD
// RUN: trainc-test-opt %s --hoist-slices --autodiff --canonicalize --cse --decompose --form-kernels \
// RUN:   | FileCheck %s --check-prefix=KERNEL
// RUN: not trainc-opt %s 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// Values are the same before and after.
// RUN: trainc-test-opt %s --autodiff --test-evaluate --mlir-disable-threading -o /dev/null > %t.plain
// RUN: trainc-test-opt %s --hoist-slices --autodiff --canonicalize --cse --decompose --form-kernels \
// RUN:   --test-evaluate --mlir-disable-threading -o /dev/null > %t.kernels
// RUN: diff %t.plain %t.kernels
// RUN: FileCheck %s --check-prefix=VALUES < %t.kernels

// UNKNOWN: error: {{.*}}testdialect

!tokens = tensor<?x8x4xf32, #train.dims<batch, 8, 4>>
!row = tensor<?x1xf32, #train.dims<batch, 1>>
!weights = tensor<?x4x4xf32, #train.dims<batch, 4, 4>>

// CHECK-LABEL: func.func @forward(
// CHECK: testdialect.squareplus %{{.*}} {b = 4.000000e+00 : f64} : tensor<?x8x4xf32, #train.dims<batch, 8, 4>>
// CHECK: testdialect.sum_squares %{{.*}} : tensor<?x8x4xf32, #train.dims<batch, 8, 4>> -> tensor<?x8xf32, #train.dims<batch, 8>>

// The selection moves above both ops and the product: one row of eight is computed.
// HOIST-LABEL: func.func @forward(
// HOIST: %[[X:.*]] = train.slice %{{.*}} starts = <0, 2, 0> steps = [1, 1, 1]
// HOIST-NEXT: %[[Y:.*]] = train.matmul %[[X]]
// HOIST-NEXT: %[[P:.*]] = testdialect.squareplus %[[Y]] {b = 4.000000e+00 : f64} : tensor<?x1x4xf32, #train.dims<batch, 1, 4>>
// HOIST-NEXT: testdialect.sum_squares %[[P]] : tensor<?x1x4xf32, #train.dims<batch, 1, 4>> -> tensor<?x1xf32, #train.dims<batch, 1>>

// Their gradients, sum_squares first: 2 p dy, then (1 + y / sqrt(y^2 + 4)) / 2.
// GRAD-LABEL: func.func @gradients(
// GRAD: %[[Y:.*]] = train.matmul
// GRAD: %[[P:.*]] = testdialect.squareplus %[[Y]]
// GRAD: testdialect.sum_squares %[[P]]
// GRAD: %[[D:.*]] = train.mul %[[P]]
// GRAD: %[[S:.*]] = train.sqrt
// GRAD: train.div %[[Y]], %[[S]]
// GRAD: train.matmul %{{.*}} transposed

// Both are one kernel with what autodiff made of them.
// KERNEL-LABEL: func.func @gradients(
// KERNEL: train.fusion
// KERNEL-NEXT: ^bb0
// KERNEL-NEXT: testdialect.squareplus
// KERNEL-NEXT: testdialect.sum_squares
// KERNEL: train.sqrt
// KERNEL: train.yield

// VALUES: @forward
// VALUES: @gradients
func.func @forward(%x: !tokens {train.role = "input", train.name = "x"},
                   %w: tensor<4x4xf32> {train.role = "parameter", train.name = "w", train.trainable})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %0 = train.broadcast %w axes = [1, 2] : tensor<4x4xf32> -> !weights
  %1 = train.matmul %x, %0 : !tokens, !weights -> !tokens
  %2 = testdialect.squareplus %1 {b = 4.0 : f64} : !tokens
  %3 = testdialect.sum_squares %2 : !tokens -> tensor<?x8xf32, #train.dims<batch, 8>>
  %4 = train.slice %3 starts = <0, 2> steps = [1, 1] : tensor<?x8xf32, #train.dims<batch, 8>> -> !row
  %5 = train.reduce sum %4 axes = [0, 1] : !row -> tensor<f32>
  return %5 : tensor<f32>
}
