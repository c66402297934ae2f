// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Heads that read the last token of a sample: their gather is a selection of rows, which takes no padding under
// conditions that the runtime checks.
// RUN: trainc-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(raise-idioms),find-padding)' | FileCheck %s
// RUN: trainc-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(raise-idioms),find-padding)' --remarks-filter=find-padding --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// argmax(position * (id != 0))
train.symbol @batch min 1 input "input_ids" axis 0
train.symbol @seq min 1 input "input_ids" axis 1

// CHECK: {input = "input_ids", kind = "fixed_where_padded", mask = "attention_mask", padding = 0 : i64, shift = 0 : i64, value = 0 : i64}
// CHECK-SAME: {index = -2 : i64, kind = "real_at", mask = "input_ids", padding = 0 : i64}
// CHECK: train.select_rows {{.*}} -> tensor<?x4xf32, #train.dims<batch, 4>>
// CHECK-NOT: train.gather_nd
// REMARK: Found
func.func @forward(%table: tensor<9x4xf32> {train.role = "parameter", train.name = "table", train.trainable},
    %ids: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "input_ids"},
    %mask: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "attention_mask"})
    -> (tensor<?x4xf32, #train.dims<batch, 4>> {train.role = "loss", train.name = "loss"}) {
  %0 = train.gather %table, %ids axis = 0 : tensor<9x4xf32>, tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
  %masked = train.cast %mask : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?xf32, #train.dims<batch, seq>>
  %1 = train.broadcast %masked axes = [0, 1] : tensor<?x?xf32, #train.dims<batch, seq>> -> tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
  %2 = train.mul %0, %1 : tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
  %3 = train.reduce sum %2 axes = [1] : tensor<?x?x4xf32, #train.dims<batch, seq, 4>> -> tensor<?x4xf32, #train.dims<batch, 4>>
  %zero = train.full 0 : i64 : tensor<?x?xi64, #train.dims<batch, seq>>
  %4 = train.compare ne %ids, %zero : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?xi1, #train.dims<batch, seq>>
  %5 = train.cast %4 : tensor<?x?xi1, #train.dims<batch, seq>> -> tensor<?x?xi32, #train.dims<batch, seq>>
  %6 = train.iota 1 : tensor<?x?xi32, #train.dims<batch, seq>>
  %7 = train.mul %6, %5 : tensor<?x?xi32, #train.dims<batch, seq>>
  %8 = train.reduce max %7 axes = [1] : tensor<?x?xi32, #train.dims<batch, seq>> -> tensor<?xi32, #train.dims<batch>>
  %9 = train.broadcast %8 axes = [0] : tensor<?xi32, #train.dims<batch>> -> tensor<?x?xi32, #train.dims<batch, seq>>
  %10 = train.compare eq %7, %9 : tensor<?x?xi32, #train.dims<batch, seq>> -> tensor<?x?xi1, #train.dims<batch, seq>>
  %11 = train.iota 1 : tensor<?x?xi64, #train.dims<batch, seq>>
  %12 = train.dim <seq - 1> : tensor<i64>
  %13 = train.broadcast %12 axes = [] : tensor<i64> -> tensor<?x?xi64, #train.dims<batch, seq>>
  %14 = train.select %10, %11, %13 : tensor<?x?xi1, #train.dims<batch, seq>>, tensor<?x?xi64, #train.dims<batch, seq>>
  %15 = train.reduce min %14 axes = [1] : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?xi64, #train.dims<batch>>
  %16 = train.iota 0 : tensor<?x1xi64, #train.dims<batch, 1>>
  %17 = train.reshape %15 : tensor<?xi64, #train.dims<batch>> -> tensor<?x1xi64, #train.dims<batch, 1>>
  %18 = train.concat %16, %17 axis = 1 : (tensor<?x1xi64, #train.dims<batch, 1>>, tensor<?x1xi64, #train.dims<batch, 1>>) -> tensor<?x2xi64, #train.dims<batch, 2>>
  %19 = train.gather_nd %0, %18 batch_dims = 0 : tensor<?x?x4xf32, #train.dims<batch, seq, 4>>, tensor<?x2xi64, #train.dims<batch, 2>> -> tensor<?x4xf32, #train.dims<batch, 4>>
  %20 = train.add %3, %19 : tensor<?x4xf32, #train.dims<batch, 4>>
  return %20 : tensor<?x4xf32, #train.dims<batch, 4>>
}

// -----

// sum(mask) - 1: tokens have to be at the front.
train.symbol @batch min 1 input "input_ids" axis 0
train.symbol @seq min 1 input "input_ids" axis 1

// CHECK: {input = "attention_mask", kind = "fixed_where_padded", mask = "attention_mask", padding = 0 : i64, shift = 1 : i64, value = 0 : i64}
// CHECK-SAME: {index = -2 : i64, kind = "real_at", mask = "attention_mask", padding = 0 : i64}
// REMARK: Found
func.func @forward(%table: tensor<9x4xf32> {train.role = "parameter", train.name = "table", train.trainable},
    %ids: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "input_ids"},
    %mask: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "attention_mask"})
    -> (tensor<?x4xf32, #train.dims<batch, 4>> {train.role = "loss", train.name = "loss"}) {
  %0 = train.gather %table, %ids axis = 0 : tensor<9x4xf32>, tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
  %masked = train.cast %mask : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?xf32, #train.dims<batch, seq>>
  %1 = train.broadcast %masked axes = [0, 1] : tensor<?x?xf32, #train.dims<batch, seq>> -> tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
  %2 = train.mul %0, %1 : tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
  %3 = train.reduce sum %2 axes = [1] : tensor<?x?x4xf32, #train.dims<batch, seq, 4>> -> tensor<?x4xf32, #train.dims<batch, 4>>
  %4 = train.reduce sum %mask axes = [1] : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?xi64, #train.dims<batch>>
  %5 = train.full 1 : i64 : tensor<?xi64, #train.dims<batch>>
  %6 = train.sub %4, %5 : tensor<?xi64, #train.dims<batch>>
  %7 = train.reshape %6 : tensor<?xi64, #train.dims<batch>> -> tensor<?x1xi64, #train.dims<batch, 1>>
  %8 = train.gather_nd %0, %7 batch_dims = 1 : tensor<?x?x4xf32, #train.dims<batch, seq, 4>>, tensor<?x1xi64, #train.dims<batch, 1>> -> tensor<?x4xf32, #train.dims<batch, 4>>
  %9 = train.add %3, %8 : tensor<?x4xf32, #train.dims<batch, 4>>
  return %9 : tensor<?x4xf32, #train.dims<batch, 4>>
}

// -----

// The token before the last may be padding.
train.symbol @batch min 1 input "input_ids" axis 0
train.symbol @seq min 1 input "input_ids" axis 1

// CHECK-NOT: train.padding
// REMARK: Declined{{.*}}Reason="train.select_rows reads tokens by index"
func.func @forward(%table: tensor<9x4xf32> {train.role = "parameter", train.name = "table", train.trainable},
    %ids: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "input_ids"},
    %mask: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "attention_mask"})
    -> (tensor<?x4xf32, #train.dims<batch, 4>> {train.role = "loss", train.name = "loss"}) {
  %0 = train.gather %table, %ids axis = 0 : tensor<9x4xf32>, tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
  %masked = train.cast %mask : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?xf32, #train.dims<batch, seq>>
  %1 = train.broadcast %masked axes = [0, 1] : tensor<?x?xf32, #train.dims<batch, seq>> -> tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
  %2 = train.mul %0, %1 : tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
  %3 = train.reduce sum %2 axes = [1] : tensor<?x?x4xf32, #train.dims<batch, seq, 4>> -> tensor<?x4xf32, #train.dims<batch, 4>>
  %4 = train.reduce sum %mask axes = [1] : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?xi64, #train.dims<batch>>
  %5 = train.full 2 : i64 : tensor<?xi64, #train.dims<batch>>
  %6 = train.sub %4, %5 : tensor<?xi64, #train.dims<batch>>
  %7 = train.reshape %6 : tensor<?xi64, #train.dims<batch>> -> tensor<?x1xi64, #train.dims<batch, 1>>
  %8 = train.gather_nd %0, %7 batch_dims = 1 : tensor<?x?x4xf32, #train.dims<batch, seq, 4>>, tensor<?x1xi64, #train.dims<batch, 1>> -> tensor<?x4xf32, #train.dims<batch, 4>>
  %9 = train.add %3, %8 : tensor<?x4xf32, #train.dims<batch, 4>>
  return %9 : tensor<?x4xf32, #train.dims<batch, 4>>
}
