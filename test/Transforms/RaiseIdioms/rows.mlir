// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A gather of one position of each sample is a selection of rows.
// RUN: trainc-opt %s --split-input-file --raise-idioms | FileCheck %s

train.symbol @batch min 1 input "x" axis 0
train.symbol @seq min 1 input "x" axis 1

// Any position: out of range ends the run, below 0 counts from the end.
// CHECK-LABEL: func.func @tuples(
// CHECK: %[[LAST:.*]] = train.dim <batch*seq>
// CHECK: %[[OUT:.*]] = train.broadcast %[[LAST]]
// CHECK: train.select %{{.*}}, %{{.*}}, %[[OUT]]
// CHECK: train.select_rows {{.*}} -> tensor<?x4xf32, #train.dims<batch, 4>>
// CHECK-NOT: train.gather_nd
func.func @tuples(%x: tensor<?x?x4xf32, #train.dims<batch, seq, 4>>, %at: tensor<?xi64, #train.dims<batch>>) -> tensor<?x4xf32, #train.dims<batch, 4>> {
  %0 = train.iota 0 : tensor<?x1xi64, #train.dims<batch, 1>>
  %1 = train.reshape %at : tensor<?xi64, #train.dims<batch>> -> tensor<?x1xi64, #train.dims<batch, 1>>
  %2 = train.concat %0, %1 axis = 1 : (tensor<?x1xi64, #train.dims<batch, 1>>, tensor<?x1xi64, #train.dims<batch, 1>>) -> tensor<?x2xi64, #train.dims<batch, 2>>
  %3 = train.gather_nd %x, %2 batch_dims = 0 : tensor<?x?x4xf32, #train.dims<batch, seq, 4>>, tensor<?x2xi64, #train.dims<batch, 2>> -> tensor<?x4xf32, #train.dims<batch, 4>>
  return %3 : tensor<?x4xf32, #train.dims<batch, 4>>
}

// -----

train.symbol @batch min 1 input "x" axis 0
train.symbol @seq min 1 input "x" axis 1

// Rows counted through: a position beyond the sample would be one of the next, so it has to be known to be none.
// CHECK-LABEL: func.func @unknown(
// CHECK: train.gather
// CHECK-NOT: train.select_rows
func.func @unknown(%x: tensor<?x4xf32, #train.dims<batch*seq, 4>>, %at: tensor<?xi64, #train.dims<batch>>) -> tensor<?x4xf32, #train.dims<batch, 4>> {
  %0 = train.iota 0 : tensor<?xi64, #train.dims<batch>>
  %1 = train.dim <seq> : tensor<i64>
  %2 = train.broadcast %1 axes = [] : tensor<i64> -> tensor<?xi64, #train.dims<batch>>
  %3 = train.mul %0, %2 : tensor<?xi64, #train.dims<batch>>
  %4 = train.add %at, %3 : tensor<?xi64, #train.dims<batch>>
  %5 = train.gather %x, %4 axis = 0 : tensor<?x4xf32, #train.dims<batch*seq, 4>>, tensor<?xi64, #train.dims<batch>> -> tensor<?x4xf32, #train.dims<batch, 4>>
  return %5 : tensor<?x4xf32, #train.dims<batch, 4>>
}

// -----

train.symbol @batch min 1 input "x" axis 0
train.symbol @seq min 1 input "x" axis 1

// As argmax gives it: the first position at which something holds, or the last.
// CHECK-LABEL: func.func @first(
// CHECK: train.select_rows {{.*}} -> tensor<?x4xf32, #train.dims<batch, 4>>
// CHECK-NOT: train.gather
func.func @first(%x: tensor<?x4xf32, #train.dims<batch*seq, 4>>, %holds: tensor<?x?xi1, #train.dims<batch, seq>>) -> tensor<?x4xf32, #train.dims<batch, 4>> {
  %0 = train.iota 1 : tensor<?x?xi64, #train.dims<batch, seq>>
  %1 = train.dim <seq - 1> : tensor<i64>
  %2 = train.broadcast %1 axes = [] : tensor<i64> -> tensor<?x?xi64, #train.dims<batch, seq>>
  %3 = train.select %holds, %0, %2 : tensor<?x?xi1, #train.dims<batch, seq>>, tensor<?x?xi64, #train.dims<batch, seq>>
  %4 = train.reduce min %3 axes = [1] : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?xi64, #train.dims<batch>>
  %5 = train.iota 0 : tensor<?xi64, #train.dims<batch>>
  %6 = train.dim <seq> : tensor<i64>
  %7 = train.broadcast %6 axes = [] : tensor<i64> -> tensor<?xi64, #train.dims<batch>>
  %8 = train.mul %5, %7 : tensor<?xi64, #train.dims<batch>>
  %9 = train.add %4, %8 : tensor<?xi64, #train.dims<batch>>
  %10 = train.gather %x, %9 axis = 0 : tensor<?x4xf32, #train.dims<batch*seq, 4>>, tensor<?xi64, #train.dims<batch>> -> tensor<?x4xf32, #train.dims<batch, 4>>
  return %10 : tensor<?x4xf32, #train.dims<batch, 4>>
}

// -----

train.symbol @batch min 1 input "x" axis 0
train.symbol @seq min 1 input "x" axis 1

// Three positions of each sample: rows of one index, each number checked against its own axis.
// CHECK-LABEL: func.func @several(
// CHECK: %[[COUNT:.*]] = train.dim <batch*seq>
// CHECK: %[[OUT:.*]] = train.broadcast %[[COUNT]]
// CHECK: %[[PLACE:.*]] = train.select %{{.*}}, %{{.*}}, %[[OUT]]
// CHECK-DAG: %[[AT:.*]] = train.reshape %[[PLACE]]
// CHECK-DAG: %[[ROWS:.*]] = train.reshape %{{.*}} -> tensor<?x4xf32, #train.dims<batch*seq, 4>>
// CHECK: train.gather %[[ROWS]], %[[AT]] axis = 0 : {{.*}} -> tensor<?x4xf32, #train.dims<3*batch, 4>>
// CHECK-NOT: train.gather_nd
func.func @several(%p: tensor<?x?x4xf32, #train.dims<batch, seq, 4>>, %at: tensor<?x3x1xi64, #train.dims<batch, 3, 1>>) -> tensor<?x3x4xf32, #train.dims<batch, 3, 4>> {
  %x = train.neg %p : tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
  %0 = train.iota 0 : tensor<?x3x1xi64, #train.dims<batch, 3, 1>>
  %2 = train.concat %0, %at axis = 2 : (tensor<?x3x1xi64, #train.dims<batch, 3, 1>>, tensor<?x3x1xi64, #train.dims<batch, 3, 1>>) -> tensor<?x3x2xi64, #train.dims<batch, 3, 2>>
  %3 = train.gather_nd %x, %2 batch_dims = 0 : tensor<?x?x4xf32, #train.dims<batch, seq, 4>>, tensor<?x3x2xi64, #train.dims<batch, 3, 2>> -> tensor<?x3x4xf32, #train.dims<batch, 3, 4>>
  return %3 : tensor<?x3x4xf32, #train.dims<batch, 3, 4>>
}

// -----

train.symbol @batch min 1 input "x" axis 0
train.symbol @seq min 1 input "x" axis 1

// CHECK-LABEL: func.func @shared(
// CHECK: train.gather %{{.*}} axis = 0 : {{.*}} -> tensor<?x4xf32, #train.dims<3*batch, 4>>
// CHECK-NOT: train.gather_nd
func.func @shared(%p: tensor<?x?x4xf32, #train.dims<batch, seq, 4>>, %at: tensor<?x3x1xi64, #train.dims<batch, 3, 1>>) -> tensor<?x3x4xf32, #train.dims<batch, 3, 4>> {
  %x = train.neg %p : tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
  %3 = train.gather_nd %x, %at batch_dims = 1 : tensor<?x?x4xf32, #train.dims<batch, seq, 4>>, tensor<?x3x1xi64, #train.dims<batch, 3, 1>> -> tensor<?x3x4xf32, #train.dims<batch, 3, 4>>
  return %3 : tensor<?x3x4xf32, #train.dims<batch, 3, 4>>
}

// -----

train.symbol @batch min 1 input "x" axis 0

// Indices of rank 2 along one axis.
// CHECK-LABEL: func.func @matrix(
// CHECK: train.gather %{{.*}} axis = 1 : {{.*}} -> tensor<?x6x4xf32, #train.dims<batch, 6, 4>>
// CHECK: train.reshape {{.*}} -> tensor<?x2x3x4xf32, #train.dims<batch, 2, 3, 4>>
func.func @matrix(%p: tensor<?x9x4xf32, #train.dims<batch, 9, 4>>, %at: tensor<2x3xi64>) -> tensor<?x2x3x4xf32, #train.dims<batch, 2, 3, 4>> {
  %x = train.neg %p : tensor<?x9x4xf32, #train.dims<batch, 9, 4>>
  %3 = train.gather %x, %at axis = 1 : tensor<?x9x4xf32, #train.dims<batch, 9, 4>>, tensor<2x3xi64> -> tensor<?x2x3x4xf32, #train.dims<batch, 2, 3, 4>>
  return %3 : tensor<?x2x3x4xf32, #train.dims<batch, 2, 3, 4>>
}

// -----

// An embedding stays: its table is a parameter. So does the choice of single elements.
// CHECK-LABEL: func.func @stays(
// CHECK: train.gather %arg0, %arg1 axis = 0
// CHECK: train.gather_nd
func.func @stays(%table: tensor<9x4xf32>, %at: tensor<2x3xi64>, %pairs: tensor<5x3xi64>) -> (tensor<2x3x4xf32>, tensor<5xf32>) {
  %0 = train.gather %table, %at axis = 0 : tensor<9x4xf32>, tensor<2x3xi64> -> tensor<2x3x4xf32>
  %1 = train.gather_nd %0, %pairs batch_dims = 0 : tensor<2x3x4xf32>, tensor<5x3xi64> -> tensor<5xf32>
  return %0, %1 : tensor<2x3x4xf32>, tensor<5xf32>
}
