// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tokens in rows of a batch: what is computed for each alone is packed, a masked mean over positions gets its rectangle.
// RUN: trainc-opt %s --split-input-file --find-padding --eliminate-padding | FileCheck %s
// RUN: trainc-opt %s --split-input-file --find-padding --eliminate-padding --merge-variants | FileCheck %s --check-prefix=MERGED
// RUN: trainc-opt %s --split-input-file --find-padding --eliminate-padding --remarks-filter=eliminate-padding --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=PACKED
// PACKED: Packed{{.*}}3 ops compute the count_attention_mask tokens that attention_mask counts
// RUN: trainc-opt %s --split-input-file --find-padding --remarks-filter=find-padding --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

train.symbol @batch min 1 input "input_ids" axis 0
train.symbol @seq min 1 input "input_ids" axis 1

// CHECK: train.symbol @count_attention_mask min 8 divisor 8 input "attention_mask" differs 0
// CHECK: module @packed attributes {train.conditions = [{input = "attention_mask", kind = "binary"}]}
// CHECK: train.gather %arg0, %{{.*}} axis = 0 : tensor<9x4xf32>, tensor<1x?xi64, #train.dims<1, count_attention_mask>>
// CHECK: train.exp %{{.*}} : tensor<1x?x4xf32, #train.dims<1, count_attention_mask, 4>>
// CHECK: train.mul %{{.*}} : tensor<1x?x4xf32, #train.dims<1, count_attention_mask, 4>>
// CHECK: train.select_rows {{.*}} -> tensor<?x4xf32, #train.dims<batch*seq, 4>>
// CHECK: train.reduce sum %{{.*}} axes = [1] : tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
// MERGED: func.func @forward.packed({{.*}}train.conditions = [{{.*}}train.flops = {{.*}}train.variant_of = "forward"
// MERGED-NOT: module @packed
// REMARK: Found{{.*}}padding is where attention_mask is 0; it reaches no token
func.func @forward(%table: tensor<9x4xf32> {train.role = "parameter", train.name = "table", train.trainable},
    %ids: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "input_ids"},
    %mask: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "attention_mask"})
    -> (tensor<?x4xf32, #train.dims<batch, 4>> {train.role = "loss", train.name = "loss"}) {
  %0 = train.gather %table, %ids axis = 0 : tensor<9x4xf32>, tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
  %1 = train.exp %0 : tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
  %2 = train.cast %mask : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?xf32, #train.dims<batch, seq>>
  %3 = train.broadcast %2 axes = [0, 1] : tensor<?x?xf32, #train.dims<batch, seq>> -> tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
  %4 = train.mul %1, %3 : tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
  %5 = train.reduce sum %4 axes = [1] : tensor<?x?x4xf32, #train.dims<batch, seq, 4>> -> tensor<?x4xf32, #train.dims<batch, 4>>
  return %5 : tensor<?x4xf32, #train.dims<batch, 4>>
}

// -----

// A largest value with padding at -inf: zeros there would not do, so that op is not packed.
train.symbol @batch min 1 input "input_ids" axis 0
train.symbol @seq min 1 input "input_ids" axis 1

// CHECK: module @packed
// CHECK: %[[X:.*]] = train.select_rows {{.*}} -> tensor<?x4xf32, #train.dims<batch*seq, 4>>
// CHECK: train.select %{{.*}} : tensor<?x?x4xi1, #train.dims<batch, seq, 4>>
// CHECK-NEXT: train.reduce max
func.func @forward(%table: tensor<9x4xf32> {train.role = "parameter", train.name = "table", train.trainable},
    %ids: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "input_ids"},
    %mask: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "attention_mask"})
    -> (tensor<?x4xf32, #train.dims<batch, 4>> {train.role = "loss", train.name = "loss"}) {
  %0 = train.gather %table, %ids axis = 0 : tensor<9x4xf32>, tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
  %1 = train.cast %mask : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?xi1, #train.dims<batch, seq>>
  %2 = train.broadcast %1 axes = [0, 1] : tensor<?x?xi1, #train.dims<batch, seq>> -> tensor<?x?x4xi1, #train.dims<batch, seq, 4>>
  %3 = train.full 0xFF800000 : f32 : tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
  %4 = train.select %2, %0, %3 : tensor<?x?x4xi1, #train.dims<batch, seq, 4>>, tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
  %5 = train.reduce max %4 axes = [1] : tensor<?x?x4xf32, #train.dims<batch, seq, 4>> -> tensor<?x4xf32, #train.dims<batch, 4>>
  return %5 : tensor<?x4xf32, #train.dims<batch, 4>>
}

// -----

// Heads beside the samples on one axis: followed, though not packed.
train.symbol @batch min 1 input "input_ids" axis 0
train.symbol @seq min 1 input "input_ids" axis 1

// CHECK: module @packed
// CHECK: train.exp %{{.*}} : tensor<?x?x2xf32, #train.dims<2*batch, seq, 2>>
// REMARK: Found{{.*}}padding is where attention_mask is 0; it reaches no token
func.func @forward(%table: tensor<9x4xf32> {train.role = "parameter", train.name = "table", train.trainable},
    %ids: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "input_ids"},
    %mask: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "attention_mask"})
    -> (tensor<?x4xf32, #train.dims<batch, 4>> {train.role = "loss", train.name = "loss"}) {
  %0 = train.gather %table, %ids axis = 0 : tensor<9x4xf32>, tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
  %1 = train.reshape %0 : tensor<?x?x4xf32, #train.dims<batch, seq, 4>> -> tensor<?x?x2x2xf32, #train.dims<batch, seq, 2, 2>>
  %2 = train.transpose %1 permutation = [0, 2, 1, 3] : tensor<?x?x2x2xf32, #train.dims<batch, seq, 2, 2>> -> tensor<?x2x?x2xf32, #train.dims<batch, 2, seq, 2>>
  %3 = train.reshape %2 : tensor<?x2x?x2xf32, #train.dims<batch, 2, seq, 2>> -> tensor<?x?x2xf32, #train.dims<2*batch, seq, 2>>
  %4 = train.exp %3 : tensor<?x?x2xf32, #train.dims<2*batch, seq, 2>>
  %5 = train.reshape %4 : tensor<?x?x2xf32, #train.dims<2*batch, seq, 2>> -> tensor<?x2x?x2xf32, #train.dims<batch, 2, seq, 2>>
  %6 = train.transpose %5 permutation = [0, 2, 1, 3] : tensor<?x2x?x2xf32, #train.dims<batch, 2, seq, 2>> -> tensor<?x?x2x2xf32, #train.dims<batch, seq, 2, 2>>
  %7 = train.reshape %6 : tensor<?x?x2x2xf32, #train.dims<batch, seq, 2, 2>> -> tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
  %8 = train.cast %mask : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?xf32, #train.dims<batch, seq>>
  %9 = train.broadcast %8 axes = [0, 1] : tensor<?x?xf32, #train.dims<batch, seq>> -> tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
  %10 = train.mul %7, %9 : tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
  %11 = train.reduce sum %10 axes = [1] : tensor<?x?x4xf32, #train.dims<batch, seq, 4>> -> tensor<?x4xf32, #train.dims<batch, 4>>
  return %11 : tensor<?x4xf32, #train.dims<batch, 4>>
}

// -----

// The mean of tokens is masked, their maximum is not.
train.symbol @batch min 1 input "input_ids" axis 0
train.symbol @seq min 1 input "input_ids" axis 1

// CHECK-NOT: module @packed
// REMARK: Declined{{.*}}Reason="train.reduce may find nothing in a row but padding and what is masked", Remark="padding is computed like tokens"
func.func @forward(%table: tensor<9x4xf32> {train.role = "parameter", train.name = "table", train.trainable},
    %ids: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "input_ids"},
    %mask: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "attention_mask"})
    -> (tensor<?x4xf32, #train.dims<batch, 4>> {train.role = "loss", train.name = "loss"}) {
  %0 = train.gather %table, %ids axis = 0 : tensor<9x4xf32>, tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
  %1 = train.cast %mask : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?xf32, #train.dims<batch, seq>>
  %2 = train.broadcast %1 axes = [0, 1] : tensor<?x?xf32, #train.dims<batch, seq>> -> tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
  %3 = train.mul %0, %2 : tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
  %4 = train.reduce sum %3 axes = [1] : tensor<?x?x4xf32, #train.dims<batch, seq, 4>> -> tensor<?x4xf32, #train.dims<batch, 4>>
  %5 = train.reduce max %0 axes = [1] : tensor<?x?x4xf32, #train.dims<batch, seq, 4>> -> tensor<?x4xf32, #train.dims<batch, 4>>
  %6 = train.add %4, %5 : tensor<?x4xf32, #train.dims<batch, 4>>
  return %6 : tensor<?x4xf32, #train.dims<batch, 4>>
}
