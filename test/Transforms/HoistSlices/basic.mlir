// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --hoist-slices --canonicalize | FileCheck %s
// Idempotent: a second run changes nothing.
// RUN: trainc-opt %s --hoist-slices --canonicalize > %t.once
// RUN: trainc-opt %s --hoist-slices --canonicalize --hoist-slices --canonicalize | diff %t.once -

!rows = tensor<?x?x16xf32, #train.dims<batch, seq, 16>>
!wide = tensor<?x?x32xf32, #train.dims<batch, seq, 32>>

train.symbol @batch min 1 input "x" axis 0
train.symbol @seq min 1 input "x" axis 1

// The documented example.
// CHECK-LABEL: func.func @add
// CHECK: %[[X:.*]] = train.slice %arg0 {{.*}} : tensor<4x8x16xf32> -> tensor<4x1x16xf32>
// CHECK: %[[Y:.*]] = train.slice %arg1 {{.*}} : tensor<4x8x16xf32> -> tensor<4x1x16xf32>
// CHECK: %[[SUM:.*]] = train.add %[[X]], %[[Y]] : tensor<4x1x16xf32>
// CHECK: return %[[SUM]]
func.func @add(%x: tensor<4x8x16xf32>, %y: tensor<4x8x16xf32>) -> tensor<4x1x16xf32> {
  %0 = train.add %x, %y : tensor<4x8x16xf32>
  %1 = train.slice %0 starts = <0, 0, 0> steps = [1, 1, 1] : tensor<4x8x16xf32> -> tensor<4x1x16xf32>
  return %1 : tensor<4x1x16xf32>
}

// The first token of every sequence: through GELU, a batched product, a normalisation, dropout (index 0 keeps its
// coordinates) and a residual. The axis is dropped at the end.
// CHECK-LABEL: func.func @first_token
// CHECK: train.gather %arg0, %{{.*}} axis = 1 : {{.*}} -> tensor<?x1x16xf32, #train.dims<batch, 1, 16>>
// CHECK: train.gather %arg1, %{{.*}} axis = 1
// CHECK-NOT: train.gather
// CHECK: train.add %{{.*}} : tensor<?x1x16xf32, #train.dims<batch, 1, 16>>
// CHECK: train.dropout %{{.*}} : tensor<?x1x16xf32, #train.dims<batch, 1, 16>>
// CHECK: train.layer_norm {{.*}} -> (tensor<?x1x16xf32, #train.dims<batch, 1, 16>>, tensor<?x1xf32
// CHECK: train.matmul {{.*}} -> tensor<?x1x32xf32, #train.dims<batch, 1, 32>>
// CHECK: train.gelu
// CHECK: train.reshape {{.*}} -> tensor<?x32xf32, #train.dims<batch, 32>>
func.func @first_token(%x: !rows, %y: !rows, %s: tensor<16xf32>, %b: tensor<16xf32>,
                       %w: tensor<?x16x32xf32, #train.dims<batch, 16, 32>>, %key: tensor<i64>)
    -> tensor<?x32xf32, #train.dims<batch, 32>> {
  %0 = train.add %x, %y : !rows
  %1 = train.dropout %0, %key {ratio = 0.1 : f64} : !rows, tensor<i64>
  %2, %m, %r = train.layer_norm %1, %s, %b {axis = 2 : i64, epsilon = 1.0e-5 : f64}
      : (!rows, tensor<16xf32>, tensor<16xf32>)
      -> (!rows, tensor<?x?xf32, #train.dims<batch, seq>>, tensor<?x?xf32, #train.dims<batch, seq>>)
  %3 = train.matmul %2, %w : !rows, tensor<?x16x32xf32, #train.dims<batch, 16, 32>> -> !wide
  %4 = train.gelu %3 : !wide
  %i = train.constant dense<0> : tensor<i64>
  %5 = train.gather %4, %i axis = 1 : !wide, tensor<i64> -> tensor<?x32xf32, #train.dims<batch, 32>>
  return %5 : tensor<?x32xf32, #train.dims<batch, 32>>
}

// A linear layer, whose rows are batch times sequence: the reshapes around it are passed too. The bias has no
// such axis and stays.
// CHECK-LABEL: func.func @linear
// CHECK: train.gather %arg0, %{{.*}} axis = 1
// CHECK: train.exp %{{.*}} : tensor<?x1x16xf32, #train.dims<batch, 1, 16>>
// CHECK: train.matmul %{{.*}}, %arg1 : {{.*}} -> tensor<?x32xf32, #train.dims<batch, 32>>
// CHECK: train.broadcast %arg2
// CHECK: train.add
// CHECK-NOT: train.gather
// CHECK: return
func.func @linear(%x: !rows, %w: tensor<16x32xf32>, %b: tensor<32xf32>) -> tensor<?x32xf32, #train.dims<batch, 32>> {
  %e = train.exp %x : !rows
  %0 = train.reshape %e : !rows -> tensor<?x16xf32, #train.dims<batch*seq, 16>>
  %1 = train.matmul %0, %w : tensor<?x16xf32, #train.dims<batch*seq, 16>>, tensor<16x32xf32>
      -> tensor<?x32xf32, #train.dims<batch*seq, 32>>
  %2 = train.reshape %1 : tensor<?x32xf32, #train.dims<batch*seq, 32>> -> !wide
  %3 = train.broadcast %b axes = [2] : tensor<32xf32> -> !wide
  %4 = train.add %2, %3 : !wide
  %i = train.full 1 : i64 : tensor<i64>
  %5 = train.gather %4, %i axis = 1 : !wide, tensor<i64> -> tensor<?x32xf32, #train.dims<batch, 32>>
  return %5 : tensor<?x32xf32, #train.dims<batch, 32>>
}

// Rows of a product through a transpose, columns of the other operand; softmax along the other axis.
// CHECK-LABEL: func.func @rows_and_columns
// CHECK-DAG: %[[A:.*]] = train.slice %arg0 starts = <0, 2> steps = [1, 1] : tensor<16x8xf32> -> tensor<16x2xf32>
// CHECK-DAG: train.transpose %[[A]]
// CHECK: train.softmax %{{.*}} axis = 1 : tensor<2x16xf32>
// CHECK: train.matmul {{.*}} -> tensor<2x3xf32>
func.func @rows_and_columns(%a: tensor<16x8xf32>, %b: tensor<16x12xf32>) -> tensor<2x3xf32> {
  %0 = train.transpose %a permutation = [1, 0] : tensor<16x8xf32> -> tensor<8x16xf32>
  %1 = train.softmax %0 axis = 1 : tensor<8x16xf32>
  %2 = train.matmul %1, %b : tensor<8x16xf32>, tensor<16x12xf32> -> tensor<8x12xf32>
  %3 = train.slice %2 starts = <2, 0> steps = [1, 1] : tensor<8x12xf32> -> tensor<2x12xf32>
  %4 = train.slice %3 starts = <0, 1> steps = [1, 4] : tensor<2x12xf32> -> tensor<2x3xf32>
  return %4 : tensor<2x3xf32>
}

// A reshape that keeps the axis.
// CHECK-LABEL: func.func @heads
// CHECK: train.slice %arg0 {{.*}} -> tensor<1x16xf32>
// CHECK: train.exp
// CHECK: train.reshape {{.*}} : tensor<1x16xf32> -> tensor<1x4x4xf32>
func.func @heads(%x: tensor<8x16xf32>) -> tensor<1x4x4xf32> {
  %0 = train.exp %x : tensor<8x16xf32>
  %1 = train.reshape %0 : tensor<8x16xf32> -> tensor<8x4x4xf32>
  %2 = train.slice %1 starts = <7, 0, 0> steps = [1, 1, 1] : tensor<8x4x4xf32> -> tensor<1x4x4xf32>
  return %2 : tensor<1x4x4xf32>
}

// An operand used twice is selected from once.
// CHECK-LABEL: func.func @square
// CHECK: %[[X:.*]] = train.slice
// CHECK: train.mul %[[X]], %[[X]] : tensor<1xf32>
func.func @square(%x: tensor<8xf32>) -> tensor<1xf32> {
  %0 = train.mul %x, %x : tensor<8xf32>
  %1 = train.slice %0 starts = <3> steps = [1] : tensor<8xf32> -> tensor<1xf32>
  return %1 : tensor<1xf32>
}

// Repeated values are all alike: nothing is left to select.
// CHECK-LABEL: func.func @repeated
// CHECK-NEXT: train.broadcast %arg0 axes = [1] : tensor<4xf32> -> tensor<2x4xf32>
// CHECK-NEXT: return
func.func @repeated(%x: tensor<4xf32>) -> tensor<2x4xf32> {
  %0 = train.broadcast %x axes = [1] : tensor<4xf32> -> tensor<8x4xf32>
  %1 = train.slice %0 starts = <3, 0> steps = [1, 1] : tensor<8x4xf32> -> tensor<2x4xf32>
  return %1 : tensor<2x4xf32>
}

// A value that is used along two ways (GELU in primitive ops, a residual) is selected from once; the constant,
// which other ops use too, is made again in its smaller shape.
// CHECK-LABEL: func.func @two_ways
// CHECK: %[[X:.*]] = train.slice %arg0 {{.*}} -> tensor<1x4xf32>
// CHECK-NOT: train.slice
// CHECK: %[[E:.*]] = train.exp %[[X]] : tensor<1x4xf32>
// CHECK: %[[S:.*]] = train.sin %[[E]] : tensor<1x4xf32>
// CHECK: %[[C:.*]] = train.cos %[[E]] : tensor<1x4xf32>
// CHECK: %[[M:.*]] = train.mul %[[C]], %{{.*}} : tensor<1x4xf32>
// CHECK: train.mul %[[S]], %[[M]] : tensor<1x4xf32>
func.func @two_ways(%x: tensor<8x4xf32>) -> (tensor<1x4xf32>, tensor<8x4xf32>) {
  %half = train.full 0.5 : f32 : tensor<8x4xf32>
  %0 = train.exp %x : tensor<8x4xf32>
  %1 = train.sin %0 : tensor<8x4xf32>
  %2 = train.cos %0 : tensor<8x4xf32>
  %3 = train.mul %2, %half : tensor<8x4xf32>
  %4 = train.mul %1, %3 : tensor<8x4xf32>
  %5 = train.slice %4 starts = <5, 0> steps = [1, 1] : tensor<8x4xf32> -> tensor<1x4xf32>
  return %5, %half : tensor<1x4xf32>, tensor<8x4xf32>
}
