// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A value that several selections read: each computes its part, if that is less together.
// RUN: trainc-opt %s --hoist-slices --canonicalize --cse | FileCheck %s
// RUN: trainc-opt %s --hoist-slices --remarks-filter='hoist-slices' --remark-format=emitRemark 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: trainc-opt %s --hoist-slices="min-ratio=3" --canonicalize --cse | FileCheck %s --check-prefix=RATIO
// RUN: trainc-opt %s --hoist-slices --canonicalize > %t.once
// RUN: trainc-opt %s --hoist-slices --canonicalize --hoist-slices --canonicalize | diff %t.once -
// RUN: trainc-test-opt %s --test-evaluate --mlir-disable-threading -o /dev/null > %t.before
// RUN: trainc-test-opt %s --hoist-slices --test-evaluate --mlir-disable-threading -o /dev/null | diff %t.before -

train.symbol @batch min 1 input "x" axis 0
train.symbol @seq min 1 input "x" axis 1

!rows = tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
!one = tensor<?x1x4xf32, #train.dims<batch, 1, 4>>
!two = tensor<?x2x4xf32, #train.dims<batch, 2, 4>>

// Two heads: one reads the first token, the other the first two; the residual branch is used twice.
// CHECK-LABEL: func.func @two_heads
// CHECK-DAG: train.exp %{{.*}} : tensor<?x1x4xf32
// CHECK-DAG: train.exp %{{.*}} : tensor<?x2x4xf32
// CHECK-NOT: train.exp %{{.*}} : tensor<?x?x4xf32
// REMARK-DAG: [Passed] Shared {{.*}} Function=two_heads {{.*}}"train.exp of node 'exp_1' is computed for 2 selections, together 1 % of it"
func.func @two_heads(%x: !rows) -> (!one, !two) {
  %0 = train.exp %x : !rows loc("exp_1")
  %1 = train.add %x, %0 : !rows
  %2 = train.slice %1 starts = <0, 0, 0> steps = [1, 1, 1] : !rows -> !one
  %3 = train.slice %1 starts = <0, 0, 0> steps = [1, 1, 1] : !rows -> !two
  return %2, %3 : !one, !two
}

// Results of one op, selected alike: nothing of it is computed for other rows, and nothing twice.
// CHECK-LABEL: func.func @all_results
// CHECK: train.layer_norm {{.*}} -> (tensor<?x1x4xf32
// CHECK-NOT: train.layer_norm
// CHECK: return
func.func @all_results(%x: !rows, %s: tensor<4xf32>, %b: tensor<4xf32>)
    -> (!one, tensor<?x1xf32, #train.dims<batch, 1>>) {
  %0 = train.exp %x : !rows
  %1, %m, %r = train.layer_norm %0, %s, %b {axis = 2 : i64, epsilon = 1.0e-5 : f64}
      : (!rows, tensor<4xf32>, tensor<4xf32>)
      -> (!rows, tensor<?x?xf32, #train.dims<batch, seq>>, tensor<?x?xf32, #train.dims<batch, seq>>)
  %2 = train.slice %1 starts = <0, 0, 0> steps = [1, 1, 1] : !rows -> !one
  %3 = train.slice %r starts = <0, 0> steps = [1, 1]
      : tensor<?x?xf32, #train.dims<batch, seq>> -> tensor<?x1xf32, #train.dims<batch, 1>>
  return %2, %3 : !one, tensor<?x1xf32, #train.dims<batch, 1>>
}

// Behind a view and before it.
// CHECK-LABEL: func.func @behind_a_view
// CHECK-NOT: train.exp %{{.*}} : tensor<16x
// CHECK: return
func.func @behind_a_view(%x: tensor<16x4xf32>) -> (tensor<1x4xf32>, tensor<1x2x2xf32>) {
  %0 = train.exp %x : tensor<16x4xf32>
  %1 = train.slice %0 starts = <0, 0> steps = [1, 1] : tensor<16x4xf32> -> tensor<1x4xf32>
  %2 = train.reshape %0 : tensor<16x4xf32> -> tensor<16x2x2xf32>
  %3 = train.slice %2 starts = <1, 0, 0> steps = [1, 1, 1] : tensor<16x2x2xf32> -> tensor<1x2x2xf32>
  return %1, %3 : tensor<1x4xf32>, tensor<1x2x2xf32>
}

// Three eighths and five eighths: computed apart they are no less than together.
// CHECK-LABEL: func.func @too_much
// CHECK: train.exp %arg0 : tensor<8xf32>
// REMARK-DAG: [Missed] NotHoisted {{.*}} Function=too_much {{.*}}"what is selected of train.exp in 2 places is together no less than all of it"
func.func @too_much(%x: tensor<8xf32>) -> (tensor<3xf32>, tensor<5xf32>) {
  %0 = train.exp %x : tensor<8xf32>
  %1 = train.slice %0 starts = <0> steps = [1] : tensor<8xf32> -> tensor<3xf32>
  %2 = train.slice %0 starts = <2> steps = [1] : tensor<8xf32> -> tensor<5xf32>
  return %1, %2 : tensor<3xf32>, tensor<5xf32>
}

// Half of it: with a ratio of 3 too much.
// CHECK-LABEL: func.func @half
// CHECK-NOT: train.exp %arg0
// CHECK: return
// RATIO-LABEL: func.func @half
// RATIO: train.exp %arg0 : tensor<8xf32>
func.func @half(%x: tensor<8xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %0 = train.exp %x : tensor<8xf32>
  %1 = train.slice %0 starts = <0> steps = [1] : tensor<8xf32> -> tensor<2xf32>
  %2 = train.slice %0 starts = <2> steps = [1] : tensor<8xf32> -> tensor<2xf32>
  return %1, %2 : tensor<2xf32>, tensor<2xf32>
}

// Somebody needs all of it: to compute the rows again would save nothing.
// CHECK-LABEL: func.func @residual
// CHECK: train.exp %arg0 : tensor<8x4xf32>
// CHECK-NOT: train.exp %{{.*}} : tensor<1x4xf32>
// CHECK: return
// REMARK-DAG: [Missed] NotHoisted {{.*}} Function=residual {{.*}}"all of train.exp is used elsewhere, by train.softmax of node 'weights'", Remark="train.slice of node 'take' stays"
func.func @residual(%x: tensor<8x4xf32>) -> tensor<1x4xf32> {
  %0 = train.exp %x : tensor<8x4xf32>
  %1 = train.softmax %0 axis = 0 : tensor<8x4xf32> loc("weights")
  %2 = train.add %0, %1 : tensor<8x4xf32>
  %3 = train.slice %2 starts = <0, 0> steps = [1, 1] : tensor<8x4xf32> -> tensor<1x4xf32> loc("take")
  return %3 : tensor<1x4xf32>
}
