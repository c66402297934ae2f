// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Size expressions print in one canonical form, so equal sizes are equal types.
// RUN: trainc-opt %s --split-input-file | FileCheck %s

// Constants, symbols, sums and products.
// CHECK-LABEL: func.func private @sums
// CHECK-SAME: #train.dims<batch*seq + 1, 3>
func.func private @sums(tensor<?x3xf32, #train.dims<1 + seq * batch, 3>>)
// CHECK-LABEL: func.func private @collected
// CHECK-SAME: #train.dims<2*batch*seq + 3*seq>
func.func private @collected(tensor<?xf32, #train.dims<seq * batch + 3 * seq + batch * seq>>)
// CHECK-LABEL: func.func private @powers
// CHECK-SAME: #train.dims<seq*seq - 2*seq>
func.func private @powers(tensor<?xf32, #train.dims<seq * seq - 2 * seq>>)
// CHECK-LABEL: func.func private @negative
// CHECK-SAME: #train.dims<seq - 1>
func.func private @negative(tensor<?xf32, #train.dims<-1 + seq>>)

// Functions are atoms; with constant or divisible operands they vanish.
// CHECK-LABEL: func.func private @functions
// CHECK-SAME: #train.dims<floordiv(seq, 2), mod(seq, 4), max(batch, seq), min(7, batch)>
func.func private @functions(tensor<?x?x?x?xf32, #train.dims<floordiv(seq, 2), mod(seq, 4), max(seq, batch), min(batch, 7)>>)
// CHECK-LABEL: func.func private @divided
// CHECK-SAME: #train.dims<batch, 0>
func.func private @divided(tensor<?x0xf32, #train.dims<floordiv(batch * 8, 8), mod(4 * seq, 2)>>)
// What is left of a multiple is divided by itself, down.
// CHECK-LABEL: @halves
// CHECK-SAME: #train.dims<2*h - 1, h + 1, floordiv(h + 1, 2)>
func.func private @halves(tensor<?x?x?xf32, #train.dims<floordiv(4 * h - 1, 2), floordiv(2 * h + 3, 2), floordiv(h + 1, 2)>>)

// Shifts look alike, and a quotient of a quotient is one.
// CHECK-LABEL: @quotients
// CHECK-SAME: #train.dims<floordiv(h, 2) - 1, floordiv(h + 3, 8), floordiv(h, 2) + h, mod(h + 1, 4)>
func.func private @quotients(tensor<?x?x?x?xf32, #train.dims<floordiv(h - 2, 2), floordiv(floordiv(floordiv(h - 1, 2), 2) + 1, 2), floordiv(3 * h, 2), mod(5 * h - 3, 4)>>)

// The value of an expression, and its use in an attribute.
// CHECK-LABEL: func.func @values
func.func @values() -> (tensor<i64>, tensor<f32>) {
  // CHECK: train.dim <batch*seq> : tensor<i64>
  %0 = train.dim <seq * batch> : tensor<i64>
  // CHECK: train.dim <2*batch> : tensor<f32>
  %1 = train.dim <batch + batch> : tensor<f32>
  return %0, %1 : tensor<i64>, tensor<f32>
}

// Equal sizes written in two ways are one type: no cast between them.
// CHECK-LABEL: func.func @equal
func.func @equal(%x: tensor<?xf32, #train.dims<2 * n + 2>>) -> tensor<?xf32, #train.dims<n + 1 + n + 1>> {
  // CHECK: return %{{.*}} : tensor<?xf32, #train.dims<2*n + 2>>
  return %x : tensor<?xf32, #train.dims<n + n + 2>>
}
