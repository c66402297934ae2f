// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Graphs that hold their gradients: that of a selection is 0 but for the selected rows.
// RUN: trainc-opt %s --hoist-slices --canonicalize --cse | FileCheck %s
// RUN: trainc-opt %s --hoist-slices --remarks-filter='hoist-slices' --remark-format=emitRemark 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: trainc-opt %s --hoist-slices="min-zero-ratio=1000" --canonicalize --cse | FileCheck %s --check-prefix=RATIO
// RUN: trainc-opt %s --hoist-slices --canonicalize --cse > %t.once
// RUN: trainc-opt %s --hoist-slices --canonicalize --cse --hoist-slices --canonicalize --cse | diff %t.once -
// RUN: trainc-test-opt %s --test-evaluate --mlir-disable-threading -o /dev/null > %t.before
// RUN: trainc-test-opt %s --hoist-slices --test-evaluate --mlir-disable-threading -o /dev/null | diff %t.before -

train.symbol @batch min 1 input "x" axis 0
train.symbol @seq min 1 input "x" axis 1

!rows = tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
!flat = tensor<?x4xf32, #train.dims<batch*seq, 4>>
!one = tensor<?x1x4xf32, #train.dims<batch, 1, 4>>

// A linear layer before the selection, forward and backward, the rows merged as exporters do: all of it is computed
// for the selected rows, and so is the gradient of its weight.
// CHECK-LABEL: func.func @linear
// CHECK-NOT: batch*seq
// CHECK-DAG: train.matmul {{.*}} transposed : tensor<?x4xf32, #train.dims<batch, 4>>, tensor<4x4xf32>
// CHECK-DAG: train.matmul {{.*}} : tensor<4x?xf32, #train.dims<4, batch>>, tensor<?x4xf32, #train.dims<batch, 4>> -> tensor<4x4xf32>
// CHECK: return
// REMARK-DAG: [Passed] Restricted {{.*}} Function=linear {{.*}}"train.matmul of node 'dw' leaves out rows where a gradient is 0"
// RATIO-LABEL: func.func @linear
// RATIO: train.matmul {{.*}} -> tensor<?x4xf32, #train.dims<batch*seq, 4>>
func.func @linear(%x: !rows, %w: tensor<4x4xf32>, %g: !one) -> (!one, tensor<4x4xf32>, tensor<4xf32>) {
  %e = train.exp %x : !rows
  %0 = train.reshape %e : !rows -> !flat
  %1 = train.matmul %0, %w transposed : !flat, tensor<4x4xf32> -> !flat
  %2 = train.reshape %1 : !flat -> !rows
  %3 = train.tanh %2 : !rows
  %4 = train.slice %3 starts = <0, 0, 0> steps = [1, 1, 1] : !rows -> !one
  %5 = train.pad %g value = 0.0 : f32 low = <0, 0, 0> : !one -> !rows
  %6 = train.mul %3, %3 : !rows
  %c = train.full 1.0 : f32 : !rows
  %7 = train.sub %c, %6 : !rows
  %8 = train.mul %5, %7 : !rows
  %9 = train.reshape %8 : !rows -> !flat
  %10 = train.transpose %9 permutation = [1, 0] : !flat -> tensor<4x?xf32, #train.dims<4, batch*seq>>
  %11 = train.matmul %10, %0 : tensor<4x?xf32, #train.dims<4, batch*seq>>, !flat -> tensor<4x4xf32> loc("dw")
  %12 = train.reduce sum %8 axes = [0, 1] : !rows -> tensor<4xf32>
  return %4, %11, %12 : !one, tensor<4x4xf32>, tensor<4xf32>
}

// Attention: rows of the weights' gradient; columns are summed over the selected rows, so that the gradient of keys
// has all of them.
// CHECK-LABEL: func.func @attention
// CHECK: train.softmax %{{.*}} axis = 2 : tensor<?x1x?xf32
// CHECK: train.matmul {{.*}} : tensor<?x?x1xf32, #train.dims<batch, seq, 1>>, tensor<?x1x4xf32, #train.dims<batch, 1, 4>> -> tensor<?x?x4xf32
// CHECK: return
func.func @attention(%s: tensor<?x?x?xf32, #train.dims<batch, seq, seq>>, %v: !rows, %g: !one) -> (!one, !rows) {
  %0 = train.softmax %s axis = 2 : tensor<?x?x?xf32, #train.dims<batch, seq, seq>>
  %1 = train.matmul %0, %v : tensor<?x?x?xf32, #train.dims<batch, seq, seq>>, !rows -> !rows
  %2 = train.slice %1 starts = <0, 0, 0> steps = [1, 1, 1] : !rows -> !one
  %3 = train.pad %g value = 0.0 : f32 low = <0, 0, 0> : !one -> !rows
  %4 = train.transpose %0 permutation = [0, 2, 1]
      : tensor<?x?x?xf32, #train.dims<batch, seq, seq>> -> tensor<?x?x?xf32, #train.dims<batch, seq, seq>>
  %5 = train.matmul %4, %3 : tensor<?x?x?xf32, #train.dims<batch, seq, seq>>, !rows -> !rows
  return %2, %5 : !one, !rows
}

// At a computed index; the gradient of an embedding adds the one row.
// CHECK-LABEL: func.func @computed_index
// CHECK: train.scatter_add %{{.*}} axis = 0 : tensor<1xi64>, tensor<1x4xf32> -> tensor<8x4xf32>
func.func @computed_index(%ids: tensor<6xi64>, %i: tensor<i64>, %g: tensor<4xf32>) -> tensor<8x4xf32> {
  %0 = train.scatter_add %i, %g axis = 0 : tensor<i64>, tensor<4xf32> -> tensor<6x4xf32>
  %1 = train.neg %0 : tensor<6x4xf32>
  %zero = train.full 0 : i64 : tensor<6xi64>
  %none = train.mul %ids, %zero : tensor<6xi64>
  %2 = train.scatter_add %none, %1 axis = 0 : tensor<6xi64>, tensor<6x4xf32> -> tensor<8x4xf32>
  return %2 : tensor<8x4xf32>
}

// Known indices, each once.
// CHECK-LABEL: func.func @list
// CHECK: train.matmul {{.*}} tensor<2x4xf32>, tensor<4x3xf32> -> tensor<2x3xf32>
func.func @list(%g: tensor<2x4xf32>, %w: tensor<4x3xf32>) -> tensor<8x3xf32> {
  %i = train.constant dense<[5, 2]> : tensor<2xi64>
  %0 = train.scatter_add %i, %g axis = 0 : tensor<2xi64>, tensor<2x4xf32> -> tensor<8x4xf32>
  %1 = train.matmul %0, %w : tensor<8x4xf32>, tensor<4x3xf32> -> tensor<8x3xf32>
  return %1 : tensor<8x3xf32>
}

// What an exporter makes of an assignment to known rows: which elements got one. Booleans are added nowhere.
// CHECK-LABEL: func.func @marks
// CHECK: train.compare gt %{{.*}}, %{{.*}} : tensor<8x4xf32> -> tensor<8x4xi1>
func.func @marks(%x: tensor<8x4xf32>, %g: tensor<1x4xf32>) -> tensor<8x4xf32> {
  %i = train.full 5 : i64 : tensor<1xi64>
  %one = train.full 1.0 : f32 : tensor<1x4xf32>
  %zero = train.full 0.0 : f32 : tensor<8x4xf32>
  %0 = train.scatter_add %i, %g axis = 0 : tensor<1xi64>, tensor<1x4xf32> -> tensor<8x4xf32>
  %1 = train.scatter_add %i, %one axis = 0 : tensor<1xi64>, tensor<1x4xf32> -> tensor<8x4xf32>
  %2 = train.compare gt %1, %zero : tensor<8x4xf32> -> tensor<8x4xi1>
  %3 = train.select %2, %0, %x : tensor<8x4xi1>, tensor<8x4xf32>
  return %3 : tensor<8x4xf32>
}

// Two indices could be the same row, whose square is no sum of squares.
// CHECK-LABEL: func.func @may_be_one
// CHECK: train.mul %{{.*}} : tensor<8x4xf32>
func.func @may_be_one(%i: tensor<2xi64>, %g: tensor<2x4xf32>) -> tensor<8x4xf32> {
  %zero = train.full 0 : i64 : tensor<2xi64>
  %same = train.mul %i, %zero : tensor<2xi64>
  %0 = train.scatter_add %same, %g axis = 0 : tensor<2xi64>, tensor<2x4xf32> -> tensor<8x4xf32>
  %1 = train.mul %0, %0 : tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}

// The gradient of another branch is added: all rows from there on.
// CHECK-LABEL: func.func @other_branch
// CHECK: %[[N:.*]] = train.neg %arg1 : tensor<?x1x4xf32
// CHECK: %[[P:.*]] = train.pad %[[N]]
// CHECK: train.add %arg0, %[[P]]
// REMARK-DAG: [Missed] NotRestricted {{.*}} Function=other_branch {{.*}}"train.add of node 'sum' is not 0 where its operand is", Remark="train.add of node 'sum' takes all rows, zeros included"
func.func @other_branch(%x: !rows, %g: !one) -> !rows {
  %0 = train.pad %g value = 0.0 : f32 low = <0, 0, 0> : !one -> !rows
  %1 = train.neg %0 : !rows
  %2 = train.add %x, %1 : !rows loc("sum")
  return %2 : !rows
}

// CHECK-LABEL: func.func @other_rows
// CHECK: train.add %{{.*}} : tensor<8xf32>
// REMARK-DAG: [Missed] NotRestricted {{.*}} Function=other_rows {{.*}}"its operands are not 0 in the same rows", Remark="train.add takes all rows
func.func @other_rows(%g: tensor<2xf32>) -> tensor<8xf32> {
  %0 = train.pad %g value = 0.0 : f32 low = <0> : tensor<2xf32> -> tensor<8xf32>
  %1 = train.pad %g value = 0.0 : f32 low = <3> : tensor<2xf32> -> tensor<8xf32>
  %2 = train.mul %0, %0 : tensor<8xf32>
  %3 = train.mul %1, %1 : tensor<8xf32>
  %4 = train.add %2, %3 : tensor<8xf32>
  return %4 : tensor<8xf32>
}

// exp(0) is 1; the largest of zeros and others may be 0; a pad by ones adds ones.
// CHECK-LABEL: func.func @not_kept
// CHECK: train.exp %{{.*}} : tensor<8xf32>
// CHECK: train.reduce max %{{.*}} : tensor<8xf32>
// REMARK-DAG: [Missed] NotRestricted {{.*}} Function=not_kept {{.*}}"train.exp is not 0 where its operand is"
// REMARK-DAG: [Missed] NotRestricted {{.*}} Function=not_kept {{.*}}"train.reduce is not 0 where its operand is"
func.func @not_kept(%g: tensor<2xf32>) -> (tensor<8xf32>, tensor<f32>) {
  %0 = train.pad %g value = 0.0 : f32 low = <0> : tensor<2xf32> -> tensor<8xf32>
  %1 = train.neg %0 : tensor<8xf32>
  %2 = train.exp %1 : tensor<8xf32>
  %3 = train.reduce max %1 axes = [0] : tensor<8xf32> -> tensor<f32>
  return %2, %3 : tensor<8xf32>, tensor<f32>
}

// Rows among zeros, and columns among zeros behind them: the formula is computed for the element that is neither.
// CHECK-LABEL: func.func @rows_and_columns
// CHECK: train.sin %arg0 : tensor<1x1xf32>
func.func @rows_and_columns(%g: tensor<1x1xf32>) -> tensor<4x4xf32> {
  %0 = train.pad %g value = 0.0 : f32 low = <1, 0> : tensor<1x1xf32> -> tensor<4x1xf32>
  %1 = train.pad %0 value = 0.0 : f32 low = <0, 2> : tensor<4x1xf32> -> tensor<4x4xf32>
  %2 = train.sin %1 : tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}

// Most rows are selected: nothing is worth leaving out.
// CHECK-LABEL: func.func @most
// CHECK: train.neg %{{.*}} : tensor<8xf32>
func.func @most(%g: tensor<6xf32>) -> tensor<8xf32> {
  %0 = train.pad %g value = 0.0 : f32 low = <1> : tensor<6xf32> -> tensor<8xf32>
  %1 = train.neg %0 : tensor<8xf32>
  return %1 : tensor<8xf32>
}
