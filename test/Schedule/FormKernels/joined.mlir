// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What joins results of library calls needs no kernel: each call writes its part of one buffer. What joins results of one
// kernel is part of that.
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

// -----

// The gradients of both halves of what one product has made: one kernel reads each half once and stores both in their places.
// CHECK-LABEL: func.func @gate
// CHECK: train.fusion(%arg1, %arg0) : (tensor<4x16xbf16>, tensor<4x8xbf16>) -> tensor<4x16xbf16> {
// CHECK-COUNT-1: train.gelu_grad
// CHECK: %[[WHOLE:.*]] = train.concat
// CHECK-NEXT: train.yield %[[WHOLE]]
// CHECK-NOT: train.fusion
// CHECK: return
func.func @gate(%dy: tensor<4x8xbf16>, %both: tensor<4x16xbf16>, %w: tensor<16x8xbf16>) -> tensor<4x8xbf16> {
  %gate = train.slice %both starts = <0, 0> steps = [1, 1] : tensor<4x16xbf16> -> tensor<4x8xbf16>
  %up = train.slice %both starts = <0, 8> steps = [1, 1] : tensor<4x16xbf16> -> tensor<4x8xbf16>
  %0 = train.gelu %gate : tensor<4x8xbf16>
  %dup = train.mul %dy, %0 : tensor<4x8xbf16>
  %1 = train.mul %dy, %up : tensor<4x8xbf16>
  %2 = train.gelu_grad %gate : tensor<4x8xbf16>
  %dgate = train.mul %1, %2 : tensor<4x8xbf16>
  %3 = train.concat %dgate, %dup axis = 1 : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<4x16xbf16>
  %4 = train.matmul %3, %w : tensor<4x16xbf16>, tensor<16x8xbf16> -> tensor<4x8xbf16>
  return %4 : tensor<4x8xbf16>
}

// -----

// A part that others need is a result of its own beside the whole.
// CHECK-LABEL: func.func @part_read
// CHECK: %[[K:.*]]:2 = train.fusion(%arg0) : (tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<8x8xf32>)
// CHECK-NOT: train.fusion
// CHECK: return %[[K]]#1, %[[K]]#0
func.func @part_read(%x: tensor<4x8xf32>) -> (tensor<8x8xf32>, tensor<4x8xf32>) {
  %0 = train.exp %x : tensor<4x8xf32>
  %1 = train.tanh %x : tensor<4x8xf32>
  %2 = train.concat %0, %1 axis = 0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  return %2, %0 : tensor<8x8xf32>, tensor<4x8xf32>
}

// -----

// Parts of two kernels, of two shapes, of a kernel that sums up as well, and columns that lie between each other in the
// whole: a kernel of its own joins them.
// CHECK-LABEL: func.func @apart
// CHECK-COUNT-4: train.concat %arg
// CHECK-NOT: train.concat
// CHECK: return
func.func @apart(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>, %z: tensor<2x8xf32>, %c: tensor<4x1xf32>)
    -> (tensor<8x8xf32>, tensor<6x8xf32>, tensor<8x8xf32>, tensor<4xf32>, tensor<4x2xf32>) {
  %0 = train.gelu %x : tensor<4x8xf32>
  %1 = train.gelu %y : tensor<4x8xf32>
  %2 = train.gelu %z : tensor<2x8xf32>
  %3 = train.concat %0, %1 axis = 0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %4 = train.concat %0, %2 axis = 0 : (tensor<4x8xf32>, tensor<2x8xf32>) -> tensor<6x8xf32>
  %5 = train.reduce sum %1 axes = [1] : tensor<4x8xf32> -> tensor<4xf32>
  %6 = train.gelu_grad %y : tensor<4x8xf32>
  %7 = train.concat %1, %6 axis = 0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %8 = train.gelu %c : tensor<4x1xf32>
  %9 = train.gelu_grad %c : tensor<4x1xf32>
  %10 = train.concat %8, %9 axis = 1 : (tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x2xf32>
  return %3, %4, %7, %5, %10 : tensor<8x8xf32>, tensor<6x8xf32>, tensor<8x8xf32>, tensor<4xf32>, tensor<4x2xf32>
}
