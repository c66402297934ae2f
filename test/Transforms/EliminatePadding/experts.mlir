// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What each token has several of lies with it on one axis, as where each goes to two experts.
// RUN: trainc-opt %s --split-input-file --find-padding --eliminate-padding | FileCheck %s
// RUN: trainc-opt %s --split-input-file --find-padding --remarks-filter=find-padding --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

train.symbol @batch min 1 input "input_ids" axis 0
train.symbol @seq min 1 input "input_ids" axis 1

// The experts' results are computed for twice the tokens; a sum by expert takes zeros of padding.
// CHECK: module @packed
// CHECK: train.exp %{{.*}} : tensor<?x4xf32, #train.dims<2*count_attention_mask, 4>>
// CHECK: train.full 2.000000e+00 : f32 : tensor<?x4xf32, #train.dims<2*count_attention_mask, 4>>
// CHECK: train.mul %{{.*}} : tensor<?x4xf32, #train.dims<2*count_attention_mask, 4>>
// CHECK: train.reduce sum %{{.*}} axes = [1] : tensor<?x2x4xf32, #train.dims<count_attention_mask, 2, 4>>
// CHECK: %[[WHOLE:.*]] = train.select_rows {{.*}} -> tensor<?x4xf32, #train.dims<batch*seq, 4>>
// CHECK: train.scatter_add
// REMARK: Found{{.*}}padding is where attention_mask is 0; it reaches no token
func.func @forward(%table: tensor<9x4xf32> {train.role = "parameter", train.name = "table", train.trainable},
    %ids: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "input_ids"},
    %mask: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "attention_mask"})
    -> (tensor<3x4xf32> {train.role = "loss", train.name = "loss"}) {
  %0 = train.gather %table, %ids axis = 0 : tensor<9x4xf32>, tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
  %1 = train.broadcast %0 axes = [0, 1, 3] : tensor<?x?x4xf32, #train.dims<batch, seq, 4>> -> tensor<?x?x2x4xf32, #train.dims<batch, seq, 2, 4>>
  %2 = train.reshape %1 : tensor<?x?x2x4xf32, #train.dims<batch, seq, 2, 4>> -> tensor<?x4xf32, #train.dims<2*batch*seq, 4>>
  %3 = train.exp %2 : tensor<?x4xf32, #train.dims<2*batch*seq, 4>>
  %two = train.full 2.0 : f32 : tensor<?x4xf32, #train.dims<2*batch*seq, 4>>
  %4 = train.mul %3, %two : tensor<?x4xf32, #train.dims<2*batch*seq, 4>>
  %5 = train.reshape %4 : tensor<?x4xf32, #train.dims<2*batch*seq, 4>> -> tensor<?x2x4xf32, #train.dims<batch*seq, 2, 4>>
  %6 = train.reduce sum %5 axes = [1] : tensor<?x2x4xf32, #train.dims<batch*seq, 2, 4>> -> tensor<?x4xf32, #train.dims<batch*seq, 4>>
  %7 = train.cast %mask : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?xf32, #train.dims<batch, seq>>
  %8 = train.reshape %7 : tensor<?x?xf32, #train.dims<batch, seq>> -> tensor<?xf32, #train.dims<batch*seq>>
  %9 = train.broadcast %8 axes = [0] : tensor<?xf32, #train.dims<batch*seq>> -> tensor<?x4xf32, #train.dims<batch*seq, 4>>
  %10 = train.mul %6, %9 : tensor<?x4xf32, #train.dims<batch*seq, 4>>
  %expert = train.iota 0 : tensor<?xi32, #train.dims<batch*seq>>
  %11 = train.scatter_add %expert, %10 axis = 0 : tensor<?xi32, #train.dims<batch*seq>>, tensor<?x4xf32, #train.dims<batch*seq, 4>> -> tensor<3x4xf32>
  return %11 : tensor<3x4xf32>
}

// -----

// The sum by expert takes what padding holds.
train.symbol @batch min 1 input "input_ids" axis 0
train.symbol @seq min 1 input "input_ids" axis 1

// CHECK-NOT: module @packed
// REMARK: Declined{{.*}}Reason="train.scatter_add adds what padding holds to tokens", Remark="padding is computed like tokens"
func.func @forward(%table: tensor<9x4xf32> {train.role = "parameter", train.name = "table", train.trainable},
    %ids: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "input_ids"},
    %mask: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "attention_mask"})
    -> (tensor<3x4xf32> {train.role = "loss", train.name = "loss"}) {
  %0 = train.gather %table, %ids axis = 0 : tensor<9x4xf32>, tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
  %1 = train.reshape %0 : tensor<?x?x4xf32, #train.dims<batch, seq, 4>> -> tensor<?x4xf32, #train.dims<batch*seq, 4>>
  %2 = train.reshape %mask : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?xi64, #train.dims<batch*seq>>
  %3 = train.scatter_add %2, %1 axis = 0 : tensor<?xi64, #train.dims<batch*seq>>, tensor<?x4xf32, #train.dims<batch*seq, 4>> -> tensor<3x4xf32>
  return %3 : tensor<3x4xf32>
}
