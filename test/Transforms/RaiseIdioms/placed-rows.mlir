// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Gradients of a selection as exporters write them: rows among zeros.
// RUN: trainc-opt %s --raise-idioms --canonicalize | FileCheck %s
// RUN: trainc-test-opt %s --test-evaluate --mlir-disable-threading -o /dev/null > %t.before
// RUN: trainc-test-opt %s --raise-idioms --test-evaluate --mlir-disable-threading -o /dev/null | diff %t.before -

train.symbol @batch min 1 input "x" axis 0
train.symbol @seq min 1 input "x" axis 1

!rows = tensor<?x?x4xf32, #train.dims<batch, seq, 4>>

// x[:, -1], as PyTorch decomposes it.
// CHECK-LABEL: func.func @last
// CHECK: train.pad %{{.*}} low = <0, seq - 1, 0> : tensor<?x1x4xf32
// CHECK-NEXT: return
func.func @last(%x: !rows, %g: tensor<?x4xf32, #train.dims<batch, 4>>) -> !rows {
  %0 = train.iota 0 : tensor<?xi64, #train.dims<seq>>
  %1 = train.reshape %0 : tensor<?xi64, #train.dims<seq>> -> tensor<1x?x1xi64, #train.dims<1, seq, 1>>
  %2 = train.dim <seq - 1> : tensor<i64>
  %3 = train.broadcast %2 axes = [] : tensor<i64> -> tensor<1x?x1xi64, #train.dims<1, seq, 1>>
  %4 = train.compare eq %1, %3 : tensor<1x?x1xi64, #train.dims<1, seq, 1>> -> tensor<1x?x1xi1, #train.dims<1, seq, 1>>
  %5 = train.reshape %4 : tensor<1x?x1xi1, #train.dims<1, seq, 1>> -> tensor<?xi1, #train.dims<seq>>
  %6 = train.broadcast %5 axes = [1] : tensor<?xi1, #train.dims<seq>> -> tensor<?x?x4xi1, #train.dims<batch, seq, 4>>
  %7 = train.broadcast %g axes = [0, 2] : tensor<?x4xf32, #train.dims<batch, 4>> -> !rows
  %8 = train.full 0.0 : f32 : !rows
  %9 = train.select %6, %7, %8 : tensor<?x?x4xi1, #train.dims<batch, seq, 4>>, !rows
  return %9 : !rows
}

// Others than zeros, other rows than one, a place that may be outside.
// CHECK-LABEL: func.func @others
// CHECK-NOT: train.pad
// CHECK: return
func.func @others(%y: !rows, %g: tensor<4xf32>, %h: tensor<3xf32>) -> (tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<?xf32, #train.dims<seq>>) {
  %i = train.iota 0 : tensor<3x4xi64>
  %one = train.full 1 : i64 : tensor<3x4xi64>
  %is = train.compare eq %i, %one : tensor<3x4xi64> -> tensor<3x4xi1>
  %not = train.compare ne %i, %one : tensor<3x4xi64> -> tensor<3x4xi1>
  %rows = train.broadcast %g axes = [1] : tensor<4xf32> -> tensor<3x4xf32>
  %columns = train.broadcast %h axes = [0] : tensor<3xf32> -> tensor<3x4xf32>
  %zero = train.full 0.0 : f32 : tensor<3x4xf32>
  %two = train.full 2.0 : f32 : tensor<3x4xf32>
  %0 = train.select %is, %rows, %two : tensor<3x4xi1>, tensor<3x4xf32>
  %1 = train.select %not, %rows, %zero : tensor<3x4xi1>, tensor<3x4xf32>
  %2 = train.select %is, %columns, %zero : tensor<3x4xi1>, tensor<3x4xf32>
  %at = train.full 1 : i64 : tensor<i64>
  %x = train.full 3.0 : f32 : tensor<f32>
  %3 = train.scatter_add %at, %x axis = 0 : tensor<i64>, tensor<f32> -> tensor<?xf32, #train.dims<seq>>
  return %0, %1, %2, %3 : tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<?xf32, #train.dims<seq>>
}

// The gradient of Gather, as ONNX Runtime builds it.
// CHECK-LABEL: func.func @gather_grad
// CHECK: train.pad %{{.*}} low = <0, 0, 0>
// CHECK-NEXT: return
func.func @gather_grad(%x: !rows, %g: tensor<?x4xf32, #train.dims<batch, 4>>) -> !rows {
  %0 = train.full 0 : i64 : tensor<i64>
  %1 = train.scatter_add %0, %g axis = 1 : tensor<i64>, tensor<?x4xf32, #train.dims<batch, 4>> -> !rows
  return %1 : !rows
}

// Whole rows: a range is padded, a list is summed row by row.
// CHECK-LABEL: func.func @whole_rows
// CHECK: train.pad %arg0 {{.*}} low = <3, 0> : tensor<2x4xf32> -> tensor<8x4xf32>
// CHECK: train.scatter_add %{{.*}}, %arg0 axis = 0 : tensor<2xi64>, tensor<2x4xf32> -> tensor<8x4xf32>
func.func @whole_rows(%g: tensor<2x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %range = train.constant dense<[3, 4]> : tensor<2xi64>
  %0 = train.broadcast %range axes = [0] : tensor<2xi64> -> tensor<2x4xi64>
  %1 = train.scatter_elements_add %0, %g axis = 0 : tensor<2x4xi64>, tensor<2x4xf32> -> tensor<8x4xf32>
  %list = train.constant dense<[6, 1]> : tensor<2xi64>
  %2 = train.broadcast %list axes = [0] : tensor<2xi64> -> tensor<2x4xi64>
  %3 = train.scatter_elements_add %2, %g axis = 0 : tensor<2x4xi64>, tensor<2x4xf32> -> tensor<8x4xf32>
  return %1, %3 : tensor<8x4xf32>, tensor<8x4xf32>
}

// GatherND with one number a row.
// CHECK-LABEL: func.func @tuples_of_one
// CHECK: train.gather %arg0, %{{.*}} axis = 0 : tensor<8x4xf32>, tensor<2xi64> -> tensor<2x4xf32>
func.func @tuples_of_one(%x: tensor<8x4xf32>) -> tensor<2x4xf32> {
  %i = train.constant dense<[[5], [0]]> : tensor<2x1xi64>
  %0 = train.gather_nd %x, %i batch_dims = 0 : tensor<8x4xf32>, tensor<2x1xi64> -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}
