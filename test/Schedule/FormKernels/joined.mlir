// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What joins results of library calls needs no kernel: each call writes its part of one buffer.
// RUN: trainc-opt %s --split-input-file --form-kernels | FileCheck %s

// Through views: the heads of each part are transposed, and lie side by side in rows of the whole.
// CHECK-LABEL: func.func @gradients
// CHECK: train.attention_grad
// CHECK-NOT: train.fusion
// CHECK: train.concat
// CHECK-NOT: train.fusion
// CHECK: return
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

// Calls of several ops, along the first axis; what a kernel reads is in one buffer, too.
// CHECK-LABEL: func.func @rows
// CHECK-COUNT-2: train.matmul
// CHECK-NEXT: train.concat
// CHECK-NEXT: train.fusion
func.func @rows(
    %x: tensor<4x4xf32> {train.role = "input", train.name = "x"},
    %y: tensor<4x8xf32> {train.role = "input", train.name = "y"})
    -> (tensor<8x8xf32> {train.role = "output", train.name = "z"}) {
  %0 = train.matmul %x, %y : tensor<4x4xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  %1 = train.matmul %x transposed, %y : tensor<4x4xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  %2 = train.concat %0, %1 axis = 0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %3 = train.exp %2 : tensor<8x8xf32>
  return %3 : tensor<8x8xf32>
}

// -----

// A part that others read, one that is there twice, one that a kernel makes, one that is added to
// in place: kernels join them.
// CHECK-LABEL: func.func @kernels
// CHECK-NOT: train.concat %{{[0-9]}}
// CHECK-COUNT-4: train.concat %arg
// CHECK-NOT: train.concat
// CHECK: return
func.func @kernels(%x: tensor<4x4xf32>, %y: tensor<4x8xf32>, %z: tensor<4x8xf32>)
    -> (tensor<8x8xf32>, tensor<4x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
  %0 = train.matmul %x, %y : tensor<4x4xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  %1 = train.matmul %x transposed, %y : tensor<4x4xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  %2 = train.concat %0, %1 axis = 0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %3 = train.matmul %x, %z : tensor<4x4xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  %4 = train.concat %3, %3 axis = 0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %5 = train.matmul %x transposed, %z : tensor<4x4xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  %6 = train.exp %z : tensor<4x8xf32>
  %7 = train.concat %5, %6 axis = 0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %8 = train.matmul %x, %6 : tensor<4x4xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  %9 = train.matmul %x, %y plus %z : tensor<4x4xf32>, tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  %10 = train.concat %8, %9 axis = 0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  return %2, %0, %4, %7, %10 : tensor<8x8xf32>, tensor<4x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}

// -----

// Products of one head are transposed alone, and a kernel reads the whole as well: no view is computed inside of a kernel that is none.
// CHECK-LABEL: func.func @transposed
// CHECK-COUNT-2: train.transpose
// CHECK: %[[WHOLE:.*]] = train.concat
// CHECK: train.fusion(%[[WHOLE]])
// CHECK: return
func.func @transposed(
    %a: tensor<2x12x7xf32> {train.role = "input", train.name = "a"},
    %b: tensor<2x12x7xf32> {train.role = "input", train.name = "b"},
    %s: tensor<2x7x7xf32> {train.role = "input", train.name = "s"},
    %w: tensor<24x5xf32> {train.role = "input", train.name = "w"})
    -> (tensor<24xf32> {train.role = "output", train.name = "sum"}, tensor<14x5xf32> {train.role = "output", train.name = "y"}) {
  %0 = train.matmul %a, %s : tensor<2x12x7xf32>, tensor<2x7x7xf32> -> tensor<2x12x7xf32>
  %1 = train.transpose %0 permutation = [0, 2, 1] : tensor<2x12x7xf32> -> tensor<2x7x12xf32>
  %2 = train.matmul %b, %s : tensor<2x12x7xf32>, tensor<2x7x7xf32> -> tensor<2x12x7xf32>
  %3 = train.transpose %2 permutation = [0, 2, 1] : tensor<2x12x7xf32> -> tensor<2x7x12xf32>
  %4 = train.concat %1, %3 axis = 2 : (tensor<2x7x12xf32>, tensor<2x7x12xf32>) -> tensor<2x7x24xf32>
  %5 = train.reduce sum %4 axes = [0, 1] : tensor<2x7x24xf32> -> tensor<24xf32>
  %6 = train.reshape %4 : tensor<2x7x24xf32> -> tensor<14x24xf32>
  %7 = train.matmul %6, %w : tensor<14x24xf32>, tensor<24x5xf32> -> tensor<14x5xf32>
  return %5, %7 : tensor<24xf32>, tensor<14x5xf32>
}
