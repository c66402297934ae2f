// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which values are computed again in other kernels and which are stored, and when kernels run.
// RUN: trainc-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(form-kernels{recompute-cost=130}))' | FileCheck %s

// Near, of one tensor: half the bytes that storing it would move.
// CHECK-LABEL: func.func @near_one_tensor
// CHECK: train.fusion(%{{[^,]*}}) : {{.*}} -> tensor<4xf32>
// CHECK: train.fusion(%arg0) : (tensor<4x8xf32>) -> tensor<8xf32>
// CHECK: train.exp
// CHECK: return
func.func @near_one_tensor(%x: tensor<4x8xf32>) -> (tensor<4xf32>, tensor<8xf32>) {
  %0 = train.exp %x : tensor<4x8xf32>
  %1 = train.reduce sum %0 axes = [1] : tensor<4x8xf32> -> tensor<4xf32>
  %2 = train.reduce sum %0 axes = [0] : tensor<4x8xf32> -> tensor<8xf32>
  return %1, %2 : tensor<4xf32>, tensor<8xf32>
}

// -----

// Near, of two tensors: as many bytes either way, so that only next to nothing is computed again.
// CHECK-LABEL: func.func @near_two_tensors
// CHECK: %[[K:.*]]:2 = train.fusion(%arg0, %arg1) : {{.*}} -> (tensor<4x8xf32>, tensor<4xf32>)
// CHECK: train.fusion(%[[K]]#0) : (tensor<4x8xf32>) -> tensor<8xf32>
// CHECK-NOT: train.exp
// CHECK: return
func.func @near_two_tensors(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> (tensor<4xf32>, tensor<8xf32>) {
  %a = train.mul %x, %y : tensor<4x8xf32>
  %0 = train.exp %a : tensor<4x8xf32>
  %1 = train.reduce sum %0 axes = [1] : tensor<4x8xf32> -> tensor<4xf32>
  %2 = train.reduce sum %0 axes = [0] : tensor<4x8xf32> -> tensor<8xf32>
  return %1, %2 : tensor<4xf32>, tensor<8xf32>
}

// -----

// Bytes count, not tensors: two of half the size are worth one of the whole.
// CHECK-LABEL: func.func @near_two_small_tensors
// CHECK: train.fusion(%arg0, %arg1) : {{.*}} -> tensor<4xf32>
// CHECK: train.fusion(%arg0, %arg1) : {{.*}} -> tensor<8xf32>
// CHECK: train.exp
// CHECK: return
func.func @near_two_small_tensors(%x: tensor<4x8xbf16>, %y: tensor<4x8xbf16>) -> (tensor<4xf32>, tensor<8xf32>) {
  %a = train.cast %x : tensor<4x8xbf16> -> tensor<4x8xf32>
  %b = train.cast %y : tensor<4x8xbf16> -> tensor<4x8xf32>
  %c = train.mul %a, %b : tensor<4x8xf32>
  %0 = train.exp %c : tensor<4x8xf32>
  %1 = train.reduce sum %0 axes = [1] : tensor<4x8xf32> -> tensor<4xf32>
  %2 = train.reduce sum %0 axes = [0] : tensor<4x8xf32> -> tensor<8xf32>
  return %1, %2 : tensor<4xf32>, tensor<8xf32>
}

// -----

// What a row's kernel has summed is stored, so that the columns' kernel computes the normalized rows again.
// CHECK-LABEL: func.func @statistics
// CHECK: %[[K:.*]]:2 = train.fusion(%arg0) : (tensor<4x8xf32>) -> (tensor<4xf32>, tensor<4xf32>)
// CHECK: train.fusion(%arg0, %[[K]]#0) : (tensor<4x8xf32>, tensor<4xf32>) -> tensor<8xf32>
// CHECK: train.div
// CHECK: return
func.func @statistics(%x: tensor<4x8xf32>) -> (tensor<4xf32>, tensor<8xf32>) {
  %0 = train.reduce sum %x axes = [1] : tensor<4x8xf32> -> tensor<4xf32>
  %1 = train.broadcast %0 axes = [0] : tensor<4xf32> -> tensor<4x8xf32>
  %2 = train.div %x, %1 : tensor<4x8xf32>
  %3 = train.reduce max %2 axes = [1] : tensor<4x8xf32> -> tensor<4xf32>
  %4 = train.reduce sum %2 axes = [0] : tensor<4x8xf32> -> tensor<8xf32>
  return %3, %4 : tensor<4xf32>, tensor<8xf32>
}

// -----

// Much later: of the two tensors that it reads again only %p is kept longer for it.
// CHECK-LABEL: func.func @later_keeps_one
// CHECK: %[[P:.*]] = train.matmul %arg0, %arg1
// CHECK: train.fusion(%[[P]], %arg0) : {{.*}} -> tensor<8xf32>
// CHECK-COUNT-50: train.matmul
// CHECK: train.fusion(%{{.*}}, %[[P]], %arg0) : {{.*}} -> tensor<8x8xf32>
// CHECK: train.exp
// CHECK: return
func.func @later_keeps_one(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> (tensor<8xf32>, tensor<8x8xf32>) {
  %p = train.matmul %x, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %q = train.matmul %w, %x : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %u = train.mul %p, %x : tensor<8x8xf32>
  %v = train.exp %u : tensor<8x8xf32>
  %s = train.reduce sum %v axes = [1] : tensor<8x8xf32> -> tensor<8xf32>
  %d = train.broadcast %s axes = [0] : tensor<8xf32> -> tensor<8x8xf32>
  %c0 = train.matmul %d, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c1 = train.matmul %c0, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c2 = train.matmul %c1, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c3 = train.matmul %c2, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c4 = train.matmul %c3, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c5 = train.matmul %c4, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c6 = train.matmul %c5, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c7 = train.matmul %c6, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c8 = train.matmul %c7, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c9 = train.matmul %c8, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c10 = train.matmul %c9, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c11 = train.matmul %c10, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c12 = train.matmul %c11, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c13 = train.matmul %c12, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c14 = train.matmul %c13, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c15 = train.matmul %c14, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c16 = train.matmul %c15, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c17 = train.matmul %c16, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c18 = train.matmul %c17, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c19 = train.matmul %c18, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c20 = train.matmul %c19, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c21 = train.matmul %c20, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c22 = train.matmul %c21, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c23 = train.matmul %c22, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c24 = train.matmul %c23, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c25 = train.matmul %c24, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c26 = train.matmul %c25, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c27 = train.matmul %c26, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c28 = train.matmul %c27, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c29 = train.matmul %c28, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c30 = train.matmul %c29, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c31 = train.matmul %c30, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c32 = train.matmul %c31, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c33 = train.matmul %c32, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c34 = train.matmul %c33, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c35 = train.matmul %c34, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c36 = train.matmul %c35, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c37 = train.matmul %c36, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c38 = train.matmul %c37, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c39 = train.matmul %c38, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c40 = train.matmul %c39, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c41 = train.matmul %c40, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c42 = train.matmul %c41, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c43 = train.matmul %c42, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c44 = train.matmul %c43, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c45 = train.matmul %c44, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c46 = train.matmul %c45, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c47 = train.matmul %c46, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c48 = train.matmul %c47, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c49 = train.matmul %c48, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %r = train.sub %c49, %v : tensor<8x8xf32>
  return %s, %r : tensor<8xf32>, tensor<8x8xf32>
}

// -----

// Both would be kept for so long: the value itself takes less.
// CHECK-LABEL: func.func @later_keeps_two
// CHECK: train.fusion({{.*}}) : {{.*}} -> (tensor<8x8xf32>, tensor<8xf32>)
// CHECK: train.fusion({{.*}}) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
// CHECK-NOT: train.exp
// CHECK: return
func.func @later_keeps_two(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> (tensor<8xf32>, tensor<8x8xf32>) {
  %p = train.matmul %x, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %q = train.matmul %w, %x : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %u = train.mul %p, %q : tensor<8x8xf32>
  %v = train.exp %u : tensor<8x8xf32>
  %s = train.reduce sum %v axes = [1] : tensor<8x8xf32> -> tensor<8xf32>
  %d = train.broadcast %s axes = [0] : tensor<8xf32> -> tensor<8x8xf32>
  %c0 = train.matmul %d, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c1 = train.matmul %c0, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c2 = train.matmul %c1, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c3 = train.matmul %c2, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c4 = train.matmul %c3, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c5 = train.matmul %c4, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c6 = train.matmul %c5, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c7 = train.matmul %c6, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c8 = train.matmul %c7, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c9 = train.matmul %c8, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c10 = train.matmul %c9, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c11 = train.matmul %c10, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c12 = train.matmul %c11, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c13 = train.matmul %c12, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c14 = train.matmul %c13, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c15 = train.matmul %c14, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c16 = train.matmul %c15, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c17 = train.matmul %c16, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c18 = train.matmul %c17, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c19 = train.matmul %c18, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c20 = train.matmul %c19, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c21 = train.matmul %c20, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c22 = train.matmul %c21, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c23 = train.matmul %c22, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c24 = train.matmul %c23, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c25 = train.matmul %c24, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c26 = train.matmul %c25, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c27 = train.matmul %c26, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c28 = train.matmul %c27, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c29 = train.matmul %c28, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c30 = train.matmul %c29, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c31 = train.matmul %c30, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c32 = train.matmul %c31, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c33 = train.matmul %c32, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c34 = train.matmul %c33, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c35 = train.matmul %c34, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c36 = train.matmul %c35, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c37 = train.matmul %c36, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c38 = train.matmul %c37, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c39 = train.matmul %c38, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c40 = train.matmul %c39, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c41 = train.matmul %c40, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c42 = train.matmul %c41, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c43 = train.matmul %c42, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c44 = train.matmul %c43, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c45 = train.matmul %c44, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c46 = train.matmul %c45, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c47 = train.matmul %c46, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c48 = train.matmul %c47, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c49 = train.matmul %c48, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %r = train.sub %c49, %v : tensor<8x8xf32>
  return %s, %r : tensor<8xf32>, tensor<8x8xf32>
}

// -----

// Sums down the columns of tensors of one shape share a kernel, though nothing else connects them; one of another
// shape has its own.
// CHECK-LABEL: func.func @column_sums
// CHECK: train.fusion(%arg0, %arg1) : {{.*}} -> (tensor<8xf32>, tensor<8xf32>)
// CHECK: train.fusion(%arg2) : (tensor<6x8xf32>) -> tensor<8xf32>
// CHECK-NOT: train.fusion
// CHECK: return
func.func @column_sums(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>, %z: tensor<6x8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %0 = train.reduce sum %x axes = [0] : tensor<4x8xf32> -> tensor<8xf32>
  %1 = train.reduce sum %y axes = [0] : tensor<4x8xf32> -> tensor<8xf32>
  %2 = train.reduce sum %z axes = [0] : tensor<6x8xf32> -> tensor<8xf32>
  return %0, %1, %2 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// -----

// Sums along rows need one pass each, and do not.
// CHECK-LABEL: func.func @row_sums
// CHECK: train.fusion(%arg0) : {{.*}} -> tensor<4xf32>
// CHECK: train.fusion(%arg1) : {{.*}} -> tensor<4xf32>
// CHECK: return
func.func @row_sums(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = train.reduce sum %x axes = [1] : tensor<4x8xf32> -> tensor<4xf32>
  %1 = train.reduce sum %y axes = [1] : tensor<4x8xf32> -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// Four to a kernel.
// CHECK-LABEL: func.func @most_column_sums
// CHECK: train.fusion(%arg0, %arg1, %arg2, %arg3)
// CHECK: train.fusion(%arg4)
// CHECK: return
func.func @most_column_sums(%x0: tensor<4x8xf32>, %x1: tensor<4x8xf32>, %x2: tensor<4x8xf32>, %x3: tensor<4x8xf32>, %x4: tensor<4x8xf32>)
    -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %0 = train.reduce sum %x0 axes = [0] : tensor<4x8xf32> -> tensor<8xf32>
  %1 = train.reduce sum %x1 axes = [0] : tensor<4x8xf32> -> tensor<8xf32>
  %2 = train.reduce sum %x2 axes = [0] : tensor<4x8xf32> -> tensor<8xf32>
  %3 = train.reduce sum %x3 axes = [0] : tensor<4x8xf32> -> tensor<8xf32>
  %4 = train.reduce sum %x4 axes = [0] : tensor<4x8xf32> -> tensor<8xf32>
  return %0, %1, %2, %3, %4 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// -----

// The kernel of both sums runs where the first of them stood, as soon as its operands are there, not where the second
// did: what they read is freed.
// CHECK-LABEL: func.func @due_where_the_first_stood
// CHECK: %[[A:.*]] = train.matmul %arg0, %arg1
// CHECK-NEXT: train.fusion(%arg0, %[[A]]) : {{.*}} -> (tensor<8xf32>, tensor<8xf32>)
// CHECK: %[[B:.*]] = train.matmul %[[A]], %arg1
// CHECK: train.matmul %[[B]], %arg1
func.func @due_where_the_first_stood(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8x8xf32>) {
  %0 = train.reduce sum %x axes = [0] : tensor<8x8xf32> -> tensor<8xf32>
  %1 = train.matmul %x, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %2 = train.matmul %1, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %3 = train.matmul %2, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %4 = train.reduce sum %1 axes = [0] : tensor<8x8xf32> -> tensor<8xf32>
  return %0, %4, %3 : tensor<8xf32>, tensor<8xf32>, tensor<8x8xf32>
}

// -----

// A reshape that joins axes of a value that can be computed again is index arithmetic in its reader.
// CHECK-LABEL: func.func @reshape_inside
// CHECK: train.fusion(%arg0) : {{.*}} -> tensor<4xf32>
// CHECK-NOT: train.reshape
// CHECK: train.fusion(%arg0) : {{.*}} -> tensor<2x2x8xf32>
// CHECK: train.reshape
// CHECK: train.tanh
// CHECK: return
func.func @reshape_inside(%x: tensor<4x8xf32>) -> (tensor<4xf32>, tensor<2x2x8xf32>) {
  %0 = train.exp %x : tensor<4x8xf32>
  %1 = train.reduce sum %0 axes = [1] : tensor<4x8xf32> -> tensor<4xf32>
  %2 = train.reshape %0 : tensor<4x8xf32> -> tensor<2x2x8xf32>
  %3 = train.tanh %2 : tensor<2x2x8xf32>
  return %1, %3 : tensor<4xf32>, tensor<2x2x8xf32>
}

// -----

// One that takes divisions to undo stays a view.
// CHECK-LABEL: func.func @reshape_outside
// CHECK: %[[K:.*]] = train.fusion(%arg0) : (tensor<2x2x8xf32>) -> tensor<2x2x8xf32>
// CHECK: %[[V:.*]] = train.reshape %[[K]]
// CHECK: train.fusion(%[[V]])
// CHECK: return
func.func @reshape_outside(%x: tensor<2x2x8xf32>) -> tensor<4x8xf32> {
  %0 = train.exp %x : tensor<2x2x8xf32>
  %1 = train.reshape %0 : tensor<2x2x8xf32> -> tensor<4x8xf32>
  %2 = train.tanh %1 : tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}
