// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Axes that are joined, cut up or padded, and selections along several axes.
// RUN: trainc-opt %s --hoist-slices --canonicalize | FileCheck %s
// RUN: trainc-opt %s --hoist-slices --canonicalize > %t.once
// RUN: trainc-opt %s --hoist-slices --canonicalize --hoist-slices --canonicalize | diff %t.once -
// What is hoisted computes the same values.
// RUN: trainc-test-opt %s --test-evaluate --mlir-disable-threading -o /dev/null > %t.before
// RUN: trainc-test-opt %s --hoist-slices --test-evaluate --mlir-disable-threading -o /dev/null | diff %t.before -

train.symbol @batch min 1 input "x" axis 0
train.symbol @seq min 1 input "x" axis 1

!image = tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
!head = tensor<?x1x4xf32, #train.dims<batch, 1, 4>>
!joined = tensor<?x?x4xf32, #train.dims<batch, seq + 1, 4>>

// The first of all tokens is the one that was put in front: the others are not computed.
// CHECK-LABEL: func.func @front
// CHECK-NOT: train.concat
// CHECK: train.exp %arg0 : tensor<?x1x4xf32
// CHECK-NEXT: return
func.func @front(%cls: !head, %x: !image) -> !head {
  %0 = train.concat %cls, %x axis = 1 : (!head, !image) -> !joined
  %1 = train.exp %0 : !joined
  %2 = train.slice %1 starts = <0, 0, 0> steps = [1, 1, 1] : !joined -> !head
  return %2 : !head
}

// All but the first: the rest, as a whole.
// CHECK-LABEL: func.func @behind
// CHECK-NEXT: train.exp %arg1 : tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
// CHECK-NEXT: return
func.func @behind(%cls: !head, %x: !image) -> !image {
  %0 = train.concat %cls, %x axis = 1 : (!head, !image) -> !joined
  %1 = train.exp %0 : !joined
  %2 = train.slice %1 starts = <0, 1, 0> steps = [1, 1, 1] : !joined -> !image
  return %2 : !image
}

// A range that two parts of three touch.
// CHECK-LABEL: func.func @across
// CHECK: %[[A:.*]] = train.slice %arg0 starts = <2> {{.*}} -> tensor<2xf32>
// CHECK: %[[B:.*]] = train.slice %arg1 starts = <0> {{.*}} -> tensor<1xf32>
// CHECK: train.concat %[[A]], %[[B]] axis = 0 : (tensor<2xf32>, tensor<1xf32>) -> tensor<3xf32>
// CHECK: train.exp
func.func @across(%a: tensor<4xf32>, %b: tensor<4xf32>, %c: tensor<4xf32>) -> tensor<3xf32> {
  %0 = train.concat %a, %b, %c axis = 0 : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<12xf32>
  %1 = train.exp %0 : tensor<12xf32>
  %2 = train.slice %1 starts = <2> steps = [1] : tensor<12xf32> -> tensor<3xf32>
  return %2 : tensor<3xf32>
}

// Along another axis each part is selected from.
// CHECK-LABEL: func.func @beside
// CHECK-DAG: train.slice %arg0 starts = <1, 0> {{.*}} -> tensor<1x4xf32>
// CHECK-DAG: train.slice %arg1 starts = <1, 0> {{.*}} -> tensor<1x2xf32>
// CHECK: train.concat %{{.*}} axis = 1 : (tensor<1x4xf32>, tensor<1x2xf32>) -> tensor<1x6xf32>
func.func @beside(%a: tensor<3x4xf32>, %b: tensor<3x2xf32>) -> tensor<1x6xf32> {
  %0 = train.concat %a, %b axis = 1 : (tensor<3x4xf32>, tensor<3x2xf32>) -> tensor<3x6xf32>
  %1 = train.slice %0 starts = <1, 0> steps = [1, 1] : tensor<3x6xf32> -> tensor<1x6xf32>
  return %1 : tensor<1x6xf32>
}

// Of one part of a split nothing else is computed, whoever reads the other.
// CHECK-LABEL: func.func @cut
// CHECK: %[[S:.*]] = train.slice %{{.*}} starts = <5> steps = [1] : tensor<8xf32> -> tensor<1xf32>
// CHECK: train.exp %[[S]]
func.func @cut(%x: tensor<8xf32>) -> (tensor<1xf32>, tensor<4xf32>) {
  %e = train.sin %x : tensor<8xf32>
  %0, %1 = train.split %e axis = 0 : (tensor<8xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %2 = train.exp %1 : tensor<4xf32>
  %3 = train.slice %2 starts = <1> steps = [1] : tensor<4xf32> -> tensor<1xf32>
  return %3, %0 : tensor<1xf32>, tensor<4xf32>
}

// Along another axis the split is of less.
// CHECK-LABEL: func.func @split_rows
// CHECK: train.slice %arg0 {{.*}} -> tensor<1x4xf32>
// CHECK: train.split %{{.*}} axis = 1 : (tensor<1x4xf32>) -> (tensor<1x2xf32>, tensor<1x2xf32>)
func.func @split_rows(%x: tensor<3x4xf32>) -> tensor<1x2xf32> {
  %0, %1 = train.split %x axis = 1 : (tensor<3x4xf32>) -> (tensor<3x2xf32>, tensor<3x2xf32>)
  %2 = train.mul %0, %1 : tensor<3x2xf32>
  %3 = train.slice %2 starts = <1, 0> steps = [1, 1] : tensor<3x2xf32> -> tensor<1x2xf32>
  return %3 : tensor<1x2xf32>
}

// What was padded is taken back.
// CHECK-LABEL: func.func @unpadded
// CHECK-NEXT: train.exp %arg0 : tensor<4xf32>
// CHECK-NEXT: return
func.func @unpadded(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = train.pad %x value = 0.0 : f32 low = <2> : tensor<4xf32> -> tensor<8xf32>
  %1 = train.exp %0 : tensor<8xf32>
  %2 = train.slice %1 starts = <2> steps = [1] : tensor<8xf32> -> tensor<4xf32>
  return %2 : tensor<4xf32>
}

// Rows and columns at once; both move.
// CHECK-LABEL: func.func @two_axes
// CHECK-DAG: train.slice %arg0 starts = <2, 0> {{.*}} -> tensor<1x8xf32>
// CHECK-DAG: train.slice %arg1 starts = <0, 3> {{.*}} -> tensor<8x2xf32>
// CHECK: train.matmul {{.*}} -> tensor<1x2xf32>
func.func @two_axes(%a: tensor<4x8xf32>, %b: tensor<8x8xf32>) -> tensor<1x2xf32> {
  %0 = train.matmul %a, %b : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  %1 = train.slice %0 starts = <2, 3> steps = [1, 1] : tensor<4x8xf32> -> tensor<1x2xf32>
  return %1 : tensor<1x2xf32>
}

// Only the rows may pass the softmax; the columns stay behind it.
// CHECK-LABEL: func.func @one_of_two_axes
// CHECK: %[[R:.*]] = train.slice %arg0 starts = <2, 0> {{.*}} -> tensor<1x8xf32>
// CHECK: %[[S:.*]] = train.softmax %[[R]] axis = 1 : tensor<1x8xf32>
// CHECK: train.slice %[[S]] starts = <0, 3> {{.*}} -> tensor<1x2xf32>
func.func @one_of_two_axes(%a: tensor<4x8xf32>) -> tensor<1x2xf32> {
  %0 = train.softmax %a axis = 1 : tensor<4x8xf32>
  %1 = train.slice %0 starts = <2, 3> steps = [1, 1] : tensor<4x8xf32> -> tensor<1x2xf32>
  return %1 : tensor<1x2xf32>
}

// A selection passes another that has to stay.
// CHECK-LABEL: func.func @past_another
// CHECK: train.slice %arg0 starts = <2, 0> {{.*}} -> tensor<1x8xf32>
// CHECK: train.softmax %{{.*}} axis = 1 : tensor<1x8xf32>
// CHECK: train.slice %{{.*}} starts = <0, 3> {{.*}} -> tensor<1x2xf32>
// CHECK: train.exp %{{.*}} : tensor<1x2xf32>
func.func @past_another(%a: tensor<4x8xf32>) -> tensor<1x2xf32> {
  %0 = train.softmax %a axis = 1 : tensor<4x8xf32>
  %1 = train.slice %0 starts = <0, 3> steps = [1, 1] : tensor<4x8xf32> -> tensor<4x2xf32>
  %2 = train.exp %1 : tensor<4x2xf32>
  %3 = train.slice %2 starts = <2, 0> steps = [1, 1] : tensor<4x2xf32> -> tensor<1x2xf32>
  return %3 : tensor<1x2xf32>
}
