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

// Much later: %p is kept in its place.
// CHECK-LABEL: func.func @later_keeps_one
// CHECK: %[[P:.*]] = train.matmul %arg0, %arg1
// CHECK: train.fusion(%[[P]]) : {{.*}} -> tensor<8xf32>
// CHECK-COUNT-50: train.matmul
// CHECK: train.fusion(%{{.*}}, %[[P]]) : {{.*}} -> tensor<8x8xf32>
// CHECK: train.exp
// CHECK: return
func.func @later_keeps_one(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> (tensor<8xf32>, tensor<8x8xf32>) {
  %p = train.matmul %x, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %q = train.matmul %w, %x : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %u = train.mul %p, %p : tensor<8x8xf32>
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

// A sum of a late matmul was joined to one that an early matmul waits for: the late matmul comes first, and what the early one does not
// wait for (a weight that is made for its reader) is not made in between.
// CHECK-LABEL: func.func @awaited
// CHECK-NEXT: train.matmul %arg1, %arg2
// CHECK-NEXT: %[[S:.*]]:2 = train.fusion
// CHECK: %[[E:.*]] = train.broadcast %[[S]]#0
// CHECK-NEXT: %[[M:.*]] = train.matmul %[[E]], %arg2
// CHECK-NEXT: %[[T:.*]] = train.fusion(%arg1)
// CHECK: train.tanh
// CHECK: train.matmul %[[M]], %[[T]]
func.func @awaited(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8xf32>) {
  %0 = train.reduce sum %x axes = [0] : tensor<8x8xf32> -> tensor<8xf32>
  %1 = train.broadcast %0 axes = [1] : tensor<8xf32> -> tensor<8x8xf32>
  %2 = train.matmul %1, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %3 = train.tanh %y : tensor<8x8xf32>
  %4 = train.matmul %2, %3 : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %5 = train.matmul %y, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %6 = train.reduce sum %5 axes = [0] : tensor<8x8xf32> -> tensor<8xf32>
  return %4, %6 : tensor<8x8xf32>, tensor<8xf32>
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

// -----

// A mask that all heads read through a reshape and a broadcast is made in each reader, however late, of the small tensor
// that it comes from.
// CHECK-LABEL: func.func @mask_inside
// CHECK-NOT: -> tensor<2x1x8x8xf32> {
// CHECK: train.fusion(%arg0, %arg1) : (tensor<2x4x8x8xf32>, tensor<2x8xi1>) -> tensor<2x4x8xf32>
// CHECK: train.select
// CHECK-COUNT-50: train.matmul
// CHECK: train.fusion(%{{.*}}, %arg1) : (tensor<2x4x8x8xf32>, tensor<2x8xi1>) -> tensor<2x4x8xf32>
// CHECK: train.select
// CHECK: return
func.func @mask_inside(%x: tensor<2x4x8x8xf32>, %m: tensor<2x8xi1>) -> (tensor<2x4x8xf32>, tensor<2x4x8xf32>) {
  %0 = train.broadcast %m axes = [0, 3] : tensor<2x8xi1> -> tensor<2x1x8x8xi1>
  %1 = train.full 0.0 : f32 : tensor<2x1x8x8xf32>
  %2 = train.full -1.0e38 : f32 : tensor<2x1x8x8xf32>
  %3 = train.select %0, %1, %2 : tensor<2x1x8x8xi1>, tensor<2x1x8x8xf32>
  %4 = train.reshape %3 : tensor<2x1x8x8xf32> -> tensor<2x8x8xf32>
  %5 = train.broadcast %4 axes = [0, 2, 3] : tensor<2x8x8xf32> -> tensor<2x4x8x8xf32>
  %6 = train.add %x, %5 : tensor<2x4x8x8xf32>
  %7 = train.reduce max %6 axes = [3] : tensor<2x4x8x8xf32> -> tensor<2x4x8xf32>
  %p0 = train.matmul %x, %x : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<2x4x8x8xf32>
  %p1 = train.matmul %p0, %x : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<2x4x8x8xf32>
  %p2 = train.matmul %p1, %x : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<2x4x8x8xf32>
  %p3 = train.matmul %p2, %x : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<2x4x8x8xf32>
  %p4 = train.matmul %p3, %x : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<2x4x8x8xf32>
  %p5 = train.matmul %p4, %x : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<2x4x8x8xf32>
  %p6 = train.matmul %p5, %x : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<2x4x8x8xf32>
  %p7 = train.matmul %p6, %x : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<2x4x8x8xf32>
  %p8 = train.matmul %p7, %x : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<2x4x8x8xf32>
  %p9 = train.matmul %p8, %x : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<2x4x8x8xf32>
  %p10 = train.matmul %p9, %x : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<2x4x8x8xf32>
  %p11 = train.matmul %p10, %x : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<2x4x8x8xf32>
  %p12 = train.matmul %p11, %x : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<2x4x8x8xf32>
  %p13 = train.matmul %p12, %x : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<2x4x8x8xf32>
  %p14 = train.matmul %p13, %x : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<2x4x8x8xf32>
  %p15 = train.matmul %p14, %x : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<2x4x8x8xf32>
  %p16 = train.matmul %p15, %x : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<2x4x8x8xf32>
  %p17 = train.matmul %p16, %x : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<2x4x8x8xf32>
  %p18 = train.matmul %p17, %x : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<2x4x8x8xf32>
  %p19 = train.matmul %p18, %x : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<2x4x8x8xf32>
  %p20 = train.matmul %p19, %x : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<2x4x8x8xf32>
  %p21 = train.matmul %p20, %x : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<2x4x8x8xf32>
  %p22 = train.matmul %p21, %x : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<2x4x8x8xf32>
  %p23 = train.matmul %p22, %x : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<2x4x8x8xf32>
  %p24 = train.matmul %p23, %x : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<2x4x8x8xf32>
  %p25 = train.matmul %p24, %x : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<2x4x8x8xf32>
  %p26 = train.matmul %p25, %x : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<2x4x8x8xf32>
  %p27 = train.matmul %p26, %x : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<2x4x8x8xf32>
  %p28 = train.matmul %p27, %x : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<2x4x8x8xf32>
  %p29 = train.matmul %p28, %x : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<2x4x8x8xf32>
  %p30 = train.matmul %p29, %x : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<2x4x8x8xf32>
  %p31 = train.matmul %p30, %x : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<2x4x8x8xf32>
  %p32 = train.matmul %p31, %x : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<2x4x8x8xf32>
  %p33 = train.matmul %p32, %x : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<2x4x8x8xf32>
  %p34 = train.matmul %p33, %x : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<2x4x8x8xf32>
  %p35 = train.matmul %p34, %x : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<2x4x8x8xf32>
  %p36 = train.matmul %p35, %x : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<2x4x8x8xf32>
  %p37 = train.matmul %p36, %x : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<2x4x8x8xf32>
  %p38 = train.matmul %p37, %x : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<2x4x8x8xf32>
  %p39 = train.matmul %p38, %x : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<2x4x8x8xf32>
  %p40 = train.matmul %p39, %x : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<2x4x8x8xf32>
  %p41 = train.matmul %p40, %x : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<2x4x8x8xf32>
  %p42 = train.matmul %p41, %x : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<2x4x8x8xf32>
  %p43 = train.matmul %p42, %x : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<2x4x8x8xf32>
  %p44 = train.matmul %p43, %x : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<2x4x8x8xf32>
  %p45 = train.matmul %p44, %x : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<2x4x8x8xf32>
  %p46 = train.matmul %p45, %x : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<2x4x8x8xf32>
  %p47 = train.matmul %p46, %x : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<2x4x8x8xf32>
  %p48 = train.matmul %p47, %x : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<2x4x8x8xf32>
  %p49 = train.matmul %p48, %x : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<2x4x8x8xf32>
  %8 = train.add %p49, %5 : tensor<2x4x8x8xf32>
  %9 = train.reduce max %8 axes = [3] : tensor<2x4x8x8xf32> -> tensor<2x4x8xf32>
  return %7, %9 : tensor<2x4x8xf32>, tensor<2x4x8xf32>
}

// -----

// A table of sines that all heads read is stored: each head would compute it.
// CHECK-LABEL: func.func @table_stored
// CHECK: train.fusion(%arg1) : (tensor<1x8x4xf32>) -> tensor<1x8x4xf32>
// CHECK: train.sin
// CHECK-NOT: train.sin
// CHECK: return
func.func @table_stored(%x: tensor<2x4x8x4xf32>, %p: tensor<1x8x4xf32>) -> tensor<2x4x8x4xf32> {
  %0 = train.sin %p : tensor<1x8x4xf32>
  %1 = train.reshape %0 : tensor<1x8x4xf32> -> tensor<8x4xf32>
  %2 = train.broadcast %1 axes = [2, 3] : tensor<8x4xf32> -> tensor<2x4x8x4xf32>
  %3 = train.mul %x, %2 : tensor<2x4x8x4xf32>
  return %3 : tensor<2x4x8x4xf32>
}

// -----

// A float that was widened is stored as it was: every reader widens it again.
// CHECK-LABEL: func.func @widened
// CHECK: %[[K:.*]]:2 = train.fusion(%arg0, %arg1, %arg2) : {{.*}} -> (tensor<4x8xbf16>, tensor<4xf32>)
// CHECK: train.fusion(%[[K]]#0) : (tensor<4x8xbf16>) -> tensor<8xf32>
// CHECK: train.cast
// CHECK: return
func.func @widened(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>, %z: tensor<4x8xf32>) -> (tensor<4xf32>, tensor<8xf32>) {
  %0 = train.add %x, %y : tensor<4x8xf32>
  %1 = train.mul %0, %z : tensor<4x8xf32>
  %2 = train.cast %1 : tensor<4x8xf32> -> tensor<4x8xbf16>
  %3 = train.cast %2 : tensor<4x8xbf16> -> tensor<4x8xf32>
  %4 = train.reduce sum %3 axes = [1] : tensor<4x8xf32> -> tensor<4xf32>
  %5 = train.reduce sum %3 axes = [0] : tensor<4x8xf32> -> tensor<8xf32>
  return %4, %5 : tensor<4xf32>, tensor<8xf32>
}

// -----

// The gradient of a norm without a mean: the product that the rows are summed up of is one that the kernel of the column sums
// computes. Three tensors are read for it, which the kernel of the rows reads in any case: it is not stored.
// CHECK-LABEL: func.func @read_in_any_case
// CHECK: train.fusion({{.*}} -> tensor<8xf32> {
// CHECK: train.fusion({{.*}} -> tensor<4x8xbf16> {
// CHECK: train.reduce sum {{.*}} axes = [1]
// CHECK: return
func.func @read_in_any_case(%dy: tensor<4x8xbf16>, %x: tensor<4x8xbf16>, %y: tensor<4x8xbf16>, %r: tensor<4xf32>, %w: tensor<8xf32>) -> (tensor<8xf32>, tensor<4x8xbf16>) {
  %0 = train.cast %dy : tensor<4x8xbf16> -> tensor<4x8xf32>
  %1 = train.cast %x : tensor<4x8xbf16> -> tensor<4x8xf32>
  %2 = train.cast %y : tensor<4x8xbf16> -> tensor<4x8xf32>
  %3 = train.add %1, %2 : tensor<4x8xf32>
  %4 = train.broadcast %r axes = [0] : tensor<4xf32> -> tensor<4x8xf32>
  %5 = train.mul %3, %4 : tensor<4x8xf32>
  %6 = train.mul %0, %5 : tensor<4x8xf32>
  %7 = train.reduce sum %6 axes = [0] : tensor<4x8xf32> -> tensor<8xf32>
  %8 = train.broadcast %w axes = [1] : tensor<8xf32> -> tensor<4x8xf32>
  %9 = train.mul %0, %8 : tensor<4x8xf32>
  %10 = train.mul %9, %3 : tensor<4x8xf32>
  %11 = train.reduce sum %10 axes = [1] : tensor<4x8xf32> -> tensor<4xf32>
  %12 = train.broadcast %11 axes = [0] : tensor<4xf32> -> tensor<4x8xf32>
  %13 = train.mul %12, %3 : tensor<4x8xf32>
  %14 = train.mul %9, %4 : tensor<4x8xf32>
  %15 = train.add %14, %13 : tensor<4x8xf32>
  %16 = train.cast %15 : tensor<4x8xf32> -> tensor<4x8xbf16>
  return %7, %16 : tensor<8xf32>, tensor<4x8xbf16>
}
