// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Masks that put a number in the place of a score, and documents that are numbered beside a mask of their own.
// RUN: trainc-opt %s --split-input-file --pass-pipeline='builtin.module(find-padding,eliminate-padding,builtin.module(func.func(raise-attention{segments=true}),canonicalize,cse))' | FileCheck %s
// RUN: trainc-opt %s --split-input-file --pass-pipeline='builtin.module(find-padding,eliminate-padding,builtin.module(func.func(raise-attention{segments=true})))' --remarks-filter="find-padding|raise-attention" --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// Documents: the numbers are the mask, the named one has to be 0 where they are and nowhere else. Far below the scores is
// enough, as each token sees itself.
train.symbol @batch min 1 input "input_ids" axis 0
train.symbol @seq min 1 input "input_ids" axis 1

// CHECK: module @packed attributes {train.conditions = [{kind = "contiguous", mask = "segment_ids", padding = 0 : i64}
// CHECK-SAME: {input = "attention_mask", kind = "fixed_where_padded", mask = "segment_ids", padding = 0 : i64, shift = 0 : i64, value = 0 : i64}
// CHECK-SAME: {input = "attention_mask", kind = "binary"}
// CHECK-SAME: {input = "segment_ids", kind = "fixed_where_padded", mask = "attention_mask", padding = 0 : i64, shift = 0 : i64, value = 0 : i64}
// CHECK: train.attention {{.*}} segments %{{.*}} longest <longest_run_segment_ids>
// REMARK: Found{{.*}}padding is where segment_ids is 0; it reaches no token
// REMARK: Raised{{.*}}all columns, packed documents
func.func @forward(%table: tensor<9x8xf32> {train.role = "parameter", train.name = "table", train.trainable},
    %w: tensor<8x8xf32> {train.role = "parameter", train.name = "w", train.trainable},
    %ids: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "input_ids"},
    %segment_ids: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "segment_ids"},
    %attention_mask: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "attention_mask"})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %x = train.gather %table, %ids axis = 0 : tensor<9x8xf32>, tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?x8xf32, #train.dims<batch, seq, 8>>
  %h = train.reshape %x : tensor<?x?x8xf32, #train.dims<batch, seq, 8>> -> tensor<?x?x1x8xf32, #train.dims<batch, seq, 1, 8>>
  %q = train.transpose %h permutation = [0, 2, 1, 3] : tensor<?x?x1x8xf32, #train.dims<batch, seq, 1, 8>> -> tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>>
  %scores = train.matmul %q, %q transposed : tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>>, tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>> -> tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>
  %number = train.reshape %segment_ids : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x1x?xi64, #train.dims<batch, 1, seq>>
  %row = train.broadcast %number axes = [0, 1, 2] : tensor<?x1x?xi64, #train.dims<batch, 1, seq>> -> tensor<?x1x?x?xi64, #train.dims<batch, 1, seq, seq>>
  %column = train.broadcast %number axes = [0, 1, 3] : tensor<?x1x?xi64, #train.dims<batch, 1, seq>> -> tensor<?x1x?x?xi64, #train.dims<batch, 1, seq, seq>>
  %same = train.compare eq %row, %column : tensor<?x1x?x?xi64, #train.dims<batch, 1, seq, seq>> -> tensor<?x1x?x?xi1, #train.dims<batch, 1, seq, seq>>
  %is = train.cast %attention_mask : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?xi1, #train.dims<batch, seq>>
  %real = train.broadcast %is axes = [0, 3] : tensor<?x?xi1, #train.dims<batch, seq>> -> tensor<?x1x?x?xi1, #train.dims<batch, 1, seq, seq>>
  %both = train.and %same, %real : tensor<?x1x?x?xi1, #train.dims<batch, 1, seq, seq>>
  %yes = train.full true : tensor<?x1x?x?xi1, #train.dims<batch, 1, seq, seq>>
  %no = train.full false : tensor<?x1x?x?xi1, #train.dims<batch, 1, seq, seq>>
  %visible = train.select %both, %yes, %no : tensor<?x1x?x?xi1, #train.dims<batch, 1, seq, seq>>, tensor<?x1x?x?xi1, #train.dims<batch, 1, seq, seq>>
  %least = train.full -1.0e+04 : f32 : tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>
  %masked = train.select %visible, %scores, %least : tensor<?x1x?x?xi1, #train.dims<batch, 1, seq, seq>>, tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>
  %weights = train.softmax %masked axis = 3 : tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>
  %mixed = train.matmul %weights, %q : tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>, tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>> -> tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>>
  %back = train.transpose %mixed permutation = [0, 2, 1, 3] : tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>> -> tensor<?x?x1x8xf32, #train.dims<batch, seq, 1, 8>>
  %rows = train.reshape %back : tensor<?x?x1x8xf32, #train.dims<batch, seq, 1, 8>> -> tensor<?x8xf32, #train.dims<batch*seq, 8>>
  %y = train.matmul %rows, %w : tensor<?x8xf32, #train.dims<batch*seq, 8>>, tensor<8x8xf32> -> tensor<?x8xf32, #train.dims<batch*seq, 8>>
  %padding = train.full 0 : i64 : tensor<?x?xi64, #train.dims<batch, seq>>
  %counts = train.compare ne %attention_mask, %padding : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?xi1, #train.dims<batch, seq>>
  %factor = train.cast %counts : tensor<?x?xi1, #train.dims<batch, seq>> -> tensor<?x?xf32, #train.dims<batch, seq>>
  %factors = train.reshape %factor : tensor<?x?xf32, #train.dims<batch, seq>> -> tensor<?xf32, #train.dims<batch*seq>>
  %all = train.broadcast %factors axes = [0] : tensor<?xf32, #train.dims<batch*seq>> -> tensor<?x8xf32, #train.dims<batch*seq, 8>>
  %z = train.mul %y, %all : tensor<?x8xf32, #train.dims<batch*seq, 8>>
  %loss = train.reduce sum %z axes = [0, 1] : tensor<?x8xf32, #train.dims<batch*seq, 8>> -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// A mask alone.
train.symbol @batch min 1 input "input_ids" axis 0
train.symbol @seq min 1 input "input_ids" axis 1

// CHECK: module @packed attributes {train.conditions = [{input = "attention_mask", kind = "binary"}, {index = -2 : i64, kind = "real_at", mask = "attention_mask", padding = 0 : i64}]}
// CHECK: train.attention {{.*}} segments %{{.*}} longest <seq>
// REMARK: Found{{.*}}padding is where attention_mask is 0; it reaches no token
// REMARK: Raised{{.*}}all columns, packed tokens
func.func @forward(%table: tensor<9x8xf32> {train.role = "parameter", train.name = "table", train.trainable},
    %w: tensor<8x8xf32> {train.role = "parameter", train.name = "w", train.trainable},
    %ids: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "input_ids"},
    %segment_ids: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "segment_ids"},
    %attention_mask: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "attention_mask"})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %x = train.gather %table, %ids axis = 0 : tensor<9x8xf32>, tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?x8xf32, #train.dims<batch, seq, 8>>
  %h = train.reshape %x : tensor<?x?x8xf32, #train.dims<batch, seq, 8>> -> tensor<?x?x1x8xf32, #train.dims<batch, seq, 1, 8>>
  %q = train.transpose %h permutation = [0, 2, 1, 3] : tensor<?x?x1x8xf32, #train.dims<batch, seq, 1, 8>> -> tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>>
  %scores = train.matmul %q, %q transposed : tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>>, tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>> -> tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>
  %number = train.reshape %segment_ids : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x1x?xi64, #train.dims<batch, 1, seq>>
  %row = train.broadcast %number axes = [0, 1, 2] : tensor<?x1x?xi64, #train.dims<batch, 1, seq>> -> tensor<?x1x?x?xi64, #train.dims<batch, 1, seq, seq>>
  %column = train.broadcast %number axes = [0, 1, 3] : tensor<?x1x?xi64, #train.dims<batch, 1, seq>> -> tensor<?x1x?x?xi64, #train.dims<batch, 1, seq, seq>>
  %is = train.cast %attention_mask : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?xi1, #train.dims<batch, seq>>
  %real = train.broadcast %is axes = [0, 3] : tensor<?x?xi1, #train.dims<batch, seq>> -> tensor<?x1x?x?xi1, #train.dims<batch, 1, seq, seq>>
  %both = train.and %real, %real : tensor<?x1x?x?xi1, #train.dims<batch, 1, seq, seq>>
  %yes = train.full true : tensor<?x1x?x?xi1, #train.dims<batch, 1, seq, seq>>
  %no = train.full false : tensor<?x1x?x?xi1, #train.dims<batch, 1, seq, seq>>
  %visible = train.select %both, %yes, %no : tensor<?x1x?x?xi1, #train.dims<batch, 1, seq, seq>>, tensor<?x1x?x?xi1, #train.dims<batch, 1, seq, seq>>
  %least = train.full -1.0e+09 : f32 : tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>
  %masked = train.select %visible, %scores, %least : tensor<?x1x?x?xi1, #train.dims<batch, 1, seq, seq>>, tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>
  %weights = train.softmax %masked axis = 3 : tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>
  %mixed = train.matmul %weights, %q : tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>, tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>> -> tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>>
  %back = train.transpose %mixed permutation = [0, 2, 1, 3] : tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>> -> tensor<?x?x1x8xf32, #train.dims<batch, seq, 1, 8>>
  %rows = train.reshape %back : tensor<?x?x1x8xf32, #train.dims<batch, seq, 1, 8>> -> tensor<?x8xf32, #train.dims<batch*seq, 8>>
  %y = train.matmul %rows, %w : tensor<?x8xf32, #train.dims<batch*seq, 8>>, tensor<8x8xf32> -> tensor<?x8xf32, #train.dims<batch*seq, 8>>
  %padding = train.full 0 : i64 : tensor<?x?xi64, #train.dims<batch, seq>>
  %counts = train.compare ne %attention_mask, %padding : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?xi1, #train.dims<batch, seq>>
  %factor = train.cast %counts : tensor<?x?xi1, #train.dims<batch, seq>> -> tensor<?x?xf32, #train.dims<batch, seq>>
  %factors = train.reshape %factor : tensor<?x?xf32, #train.dims<batch, seq>> -> tensor<?xf32, #train.dims<batch*seq>>
  %all = train.broadcast %factors axes = [0] : tensor<?xf32, #train.dims<batch*seq>> -> tensor<?x8xf32, #train.dims<batch*seq, 8>>
  %z = train.mul %y, %all : tensor<?x8xf32, #train.dims<batch*seq, 8>>
  %loss = train.reduce sum %z axes = [0, 1] : tensor<?x8xf32, #train.dims<batch*seq, 8>> -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// A score could be less: padding has a weight.
train.symbol @batch min 1 input "input_ids" axis 0
train.symbol @seq min 1 input "input_ids" axis 1

// CHECK-NOT: module @packed
// REMARK: Declined{{.*}}Reason="train.{{[a-z_]+}} adds what padding holds to tokens"
func.func @forward(%table: tensor<9x8xf32> {train.role = "parameter", train.name = "table", train.trainable},
    %w: tensor<8x8xf32> {train.role = "parameter", train.name = "w", train.trainable},
    %ids: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "input_ids"},
    %segment_ids: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "segment_ids"},
    %attention_mask: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "attention_mask"})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %x = train.gather %table, %ids axis = 0 : tensor<9x8xf32>, tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?x8xf32, #train.dims<batch, seq, 8>>
  %h = train.reshape %x : tensor<?x?x8xf32, #train.dims<batch, seq, 8>> -> tensor<?x?x1x8xf32, #train.dims<batch, seq, 1, 8>>
  %q = train.transpose %h permutation = [0, 2, 1, 3] : tensor<?x?x1x8xf32, #train.dims<batch, seq, 1, 8>> -> tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>>
  %scores = train.matmul %q, %q transposed : tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>>, tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>> -> tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>
  %number = train.reshape %segment_ids : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x1x?xi64, #train.dims<batch, 1, seq>>
  %row = train.broadcast %number axes = [0, 1, 2] : tensor<?x1x?xi64, #train.dims<batch, 1, seq>> -> tensor<?x1x?x?xi64, #train.dims<batch, 1, seq, seq>>
  %column = train.broadcast %number axes = [0, 1, 3] : tensor<?x1x?xi64, #train.dims<batch, 1, seq>> -> tensor<?x1x?x?xi64, #train.dims<batch, 1, seq, seq>>
  %is = train.cast %attention_mask : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?xi1, #train.dims<batch, seq>>
  %real = train.broadcast %is axes = [0, 3] : tensor<?x?xi1, #train.dims<batch, seq>> -> tensor<?x1x?x?xi1, #train.dims<batch, 1, seq, seq>>
  %both = train.and %real, %real : tensor<?x1x?x?xi1, #train.dims<batch, 1, seq, seq>>
  %yes = train.full true : tensor<?x1x?x?xi1, #train.dims<batch, 1, seq, seq>>
  %no = train.full false : tensor<?x1x?x?xi1, #train.dims<batch, 1, seq, seq>>
  %visible = train.select %both, %yes, %no : tensor<?x1x?x?xi1, #train.dims<batch, 1, seq, seq>>, tensor<?x1x?x?xi1, #train.dims<batch, 1, seq, seq>>
  %least = train.full -9.0e+01 : f32 : tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>
  %masked = train.select %visible, %scores, %least : tensor<?x1x?x?xi1, #train.dims<batch, 1, seq, seq>>, tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>
  %weights = train.softmax %masked axis = 3 : tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>
  %mixed = train.matmul %weights, %q : tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>, tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>> -> tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>>
  %back = train.transpose %mixed permutation = [0, 2, 1, 3] : tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>> -> tensor<?x?x1x8xf32, #train.dims<batch, seq, 1, 8>>
  %rows = train.reshape %back : tensor<?x?x1x8xf32, #train.dims<batch, seq, 1, 8>> -> tensor<?x8xf32, #train.dims<batch*seq, 8>>
  %y = train.matmul %rows, %w : tensor<?x8xf32, #train.dims<batch*seq, 8>>, tensor<8x8xf32> -> tensor<?x8xf32, #train.dims<batch*seq, 8>>
  %padding = train.full 0 : i64 : tensor<?x?xi64, #train.dims<batch, seq>>
  %counts = train.compare ne %attention_mask, %padding : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?xi1, #train.dims<batch, seq>>
  %factor = train.cast %counts : tensor<?x?xi1, #train.dims<batch, seq>> -> tensor<?x?xf32, #train.dims<batch, seq>>
  %factors = train.reshape %factor : tensor<?x?xf32, #train.dims<batch, seq>> -> tensor<?xf32, #train.dims<batch*seq>>
  %all = train.broadcast %factors axes = [0] : tensor<?xf32, #train.dims<batch*seq>> -> tensor<?x8xf32, #train.dims<batch*seq, 8>>
  %z = train.mul %y, %all : tensor<?x8xf32, #train.dims<batch*seq, 8>>
  %loss = train.reduce sum %z axes = [0, 1] : tensor<?x8xf32, #train.dims<batch*seq, 8>> -> tensor<f32>
  return %loss : tensor<f32>
}
