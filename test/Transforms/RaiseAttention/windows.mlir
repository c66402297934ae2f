// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Windows of packed tokens: they count places of the rectangle, so tokens have to be as far apart as they were, which the
// runtime checks of a mask or of numbers of documents. These come before an id that pads.
// RUN: trainc-opt %s --split-input-file --pass-pipeline='builtin.module(find-padding,eliminate-padding,builtin.module(canonicalize,cse,func.func(raise-attention{segments=true}),canonicalize,cse))' | FileCheck %s
// RUN: trainc-opt %s --split-input-file --pass-pipeline='builtin.module(find-padding,eliminate-padding,builtin.module(canonicalize,cse,func.func(raise-attention{segments=true})))' --remarks-filter=raise-attention --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

train.symbol @batch min 1 input "input_ids" axis 0
train.symbol @seq min 1 input "input_ids" axis 1

// CHECK: module @packed attributes {train.conditions = [{kind = "contiguous", mask = "segment_ids", padding = 0 : i64}, {kind = "unbroken", mask = "segment_ids", padding = 0 : i64},
// CHECK: train.attention {{.*}} segments %{{.*}} longest <longest_run_segment_ids> {after = 3 : i64, before = 3 : i64
// REMARK: Raised{{.*}}all columns, 3 before and 3 after, packed documents
func.func @forward(%table: tensor<9x8xf32> {train.role = "parameter", train.name = "table", train.trainable},
    %w: tensor<8x8xf32> {train.role = "parameter", train.name = "w", train.trainable},
    %ids: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "input_ids", train.padding_idx = 0 : i64},
    %segment_ids: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "segment_ids"})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %x = train.gather %table, %ids axis = 0 : tensor<9x8xf32>, tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?x8xf32, #train.dims<batch, seq, 8>>
  %h = train.reshape %x : tensor<?x?x8xf32, #train.dims<batch, seq, 8>> -> tensor<?x?x1x8xf32, #train.dims<batch, seq, 1, 8>>
  %q = train.transpose %h permutation = [0, 2, 1, 3] : tensor<?x?x1x8xf32, #train.dims<batch, seq, 1, 8>> -> tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>>
  %scores = train.matmul %q, %q transposed : tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>>, tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>> -> tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>
  %row = train.broadcast %segment_ids axes = [0, 2] : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x1x?x?xi64, #train.dims<batch, 1, seq, seq>>
  %column = train.broadcast %segment_ids axes = [0, 3] : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x1x?x?xi64, #train.dims<batch, 1, seq, seq>>
  %visible = train.compare eq %row, %column : tensor<?x1x?x?xi64, #train.dims<batch, 1, seq, seq>> -> tensor<?x1x?x?xi1, #train.dims<batch, 1, seq, seq>>
  %i = train.iota 2 : tensor<?x1x?x?xi64, #train.dims<batch, 1, seq, seq>>
  %j = train.iota 3 : tensor<?x1x?x?xi64, #train.dims<batch, 1, seq, seq>>
  %apart = train.sub %i, %j : tensor<?x1x?x?xi64, #train.dims<batch, 1, seq, seq>>
  %none64 = train.full 0 : i64 : tensor<?x1x?x?xi64, #train.dims<batch, 1, seq, seq>>
  %back64 = train.sub %none64, %apart : tensor<?x1x?x?xi64, #train.dims<batch, 1, seq, seq>>
  %distance = train.max %apart, %back64 : tensor<?x1x?x?xi64, #train.dims<batch, 1, seq, seq>>
  %reach = train.full 4 : i64 : tensor<?x1x?x?xi64, #train.dims<batch, 1, seq, seq>>
  %near = train.compare lt %distance, %reach : tensor<?x1x?x?xi64, #train.dims<batch, 1, seq, seq>> -> tensor<?x1x?x?xi1, #train.dims<batch, 1, seq, seq>>
  %both = train.and %visible, %near : tensor<?x1x?x?xi1, #train.dims<batch, 1, seq, seq>>
  %least = train.full -3.40282347E+38 : f32 : tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>
  %masked = train.select %both, %scores, %least : tensor<?x1x?x?xi1, #train.dims<batch, 1, seq, seq>>, tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>
  %weights = train.softmax %masked axis = 3 : tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>
  %mixed = train.matmul %weights, %q : tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>, tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>> -> tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>>
  %back = train.transpose %mixed permutation = [0, 2, 1, 3] : tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>> -> tensor<?x?x1x8xf32, #train.dims<batch, seq, 1, 8>>
  %rows = train.reshape %back : tensor<?x?x1x8xf32, #train.dims<batch, seq, 1, 8>> -> tensor<?x8xf32, #train.dims<batch*seq, 8>>
  %y = train.matmul %rows, %w : tensor<?x8xf32, #train.dims<batch*seq, 8>>, tensor<8x8xf32> -> tensor<?x8xf32, #train.dims<batch*seq, 8>>
  %padding = train.full 0 : i64 : tensor<?x?xi64, #train.dims<batch, seq>>
  %counts = train.compare ne %segment_ids, %padding : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?xi1, #train.dims<batch, seq>>
  %factor = train.cast %counts : tensor<?x?xi1, #train.dims<batch, seq>> -> tensor<?x?xf32, #train.dims<batch, seq>>
  %factors = train.reshape %factor : tensor<?x?xf32, #train.dims<batch, seq>> -> tensor<?xf32, #train.dims<batch*seq>>
  %all = train.broadcast %factors axes = [0] : tensor<?xf32, #train.dims<batch*seq>> -> tensor<?x8xf32, #train.dims<batch*seq, 8>>
  %z = train.mul %y, %all : tensor<?x8xf32, #train.dims<batch*seq, 8>>
  %loss = train.reduce sum %z axes = [0, 1] : tensor<?x8xf32, #train.dims<batch*seq, 8>> -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// Of ids nothing is known but which pad.
train.symbol @batch min 1 input "input_ids" axis 0
train.symbol @seq min 1 input "input_ids" axis 1

// CHECK: module @packed
// CHECK-NOT: unbroken
// CHECK-NOT: train.attention
// REMARK: NotRaised{{.*}}its window counts positions, and padding may lie between tokens
func.func @forward(%table: tensor<9x8xf32> {train.role = "parameter", train.name = "table", train.trainable},
    %w: tensor<8x8xf32> {train.role = "parameter", train.name = "w", train.trainable},
    %ids: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "input_ids", train.pad_token = 0 : i64})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %x = train.gather %table, %ids axis = 0 : tensor<9x8xf32>, tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?x8xf32, #train.dims<batch, seq, 8>>
  %h = train.reshape %x : tensor<?x?x8xf32, #train.dims<batch, seq, 8>> -> tensor<?x?x1x8xf32, #train.dims<batch, seq, 1, 8>>
  %q = train.transpose %h permutation = [0, 2, 1, 3] : tensor<?x?x1x8xf32, #train.dims<batch, seq, 1, 8>> -> tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>>
  %scores = train.matmul %q, %q transposed : tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>>, tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>> -> tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>
  %none = train.full 0 : i64 : tensor<?x?xi64, #train.dims<batch, seq>>
  %token = train.compare ne %ids, %none : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?xi1, #train.dims<batch, seq>>
  %visible = train.broadcast %token axes = [0, 3] : tensor<?x?xi1, #train.dims<batch, seq>> -> tensor<?x1x?x?xi1, #train.dims<batch, 1, seq, seq>>
  %i = train.iota 2 : tensor<?x1x?x?xi64, #train.dims<batch, 1, seq, seq>>
  %j = train.iota 3 : tensor<?x1x?x?xi64, #train.dims<batch, 1, seq, seq>>
  %apart = train.sub %i, %j : tensor<?x1x?x?xi64, #train.dims<batch, 1, seq, seq>>
  %none64 = train.full 0 : i64 : tensor<?x1x?x?xi64, #train.dims<batch, 1, seq, seq>>
  %back64 = train.sub %none64, %apart : tensor<?x1x?x?xi64, #train.dims<batch, 1, seq, seq>>
  %distance = train.max %apart, %back64 : tensor<?x1x?x?xi64, #train.dims<batch, 1, seq, seq>>
  %reach = train.full 4 : i64 : tensor<?x1x?x?xi64, #train.dims<batch, 1, seq, seq>>
  %near = train.compare lt %distance, %reach : tensor<?x1x?x?xi64, #train.dims<batch, 1, seq, seq>> -> tensor<?x1x?x?xi1, #train.dims<batch, 1, seq, seq>>
  %both = train.and %visible, %near : tensor<?x1x?x?xi1, #train.dims<batch, 1, seq, seq>>
  %least = train.full -3.40282347E+38 : f32 : tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>
  %masked = train.select %both, %scores, %least : tensor<?x1x?x?xi1, #train.dims<batch, 1, seq, seq>>, tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>
  %weights = train.softmax %masked axis = 3 : tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>
  %mixed = train.matmul %weights, %q : tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>, tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>> -> tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>>
  %back = train.transpose %mixed permutation = [0, 2, 1, 3] : tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>> -> tensor<?x?x1x8xf32, #train.dims<batch, seq, 1, 8>>
  %rows = train.reshape %back : tensor<?x?x1x8xf32, #train.dims<batch, seq, 1, 8>> -> tensor<?x8xf32, #train.dims<batch*seq, 8>>
  %y = train.matmul %rows, %w : tensor<?x8xf32, #train.dims<batch*seq, 8>>, tensor<8x8xf32> -> tensor<?x8xf32, #train.dims<batch*seq, 8>>
  %padding = train.full 0 : i64 : tensor<?x?xi64, #train.dims<batch, seq>>
  %counts = train.compare ne %ids, %padding : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?xi1, #train.dims<batch, seq>>
  %factor = train.cast %counts : tensor<?x?xi1, #train.dims<batch, seq>> -> tensor<?x?xf32, #train.dims<batch, seq>>
  %factors = train.reshape %factor : tensor<?x?xf32, #train.dims<batch, seq>> -> tensor<?xf32, #train.dims<batch*seq>>
  %all = train.broadcast %factors axes = [0] : tensor<?xf32, #train.dims<batch*seq>> -> tensor<?x8xf32, #train.dims<batch*seq, 8>>
  %z = train.mul %y, %all : tensor<?x8xf32, #train.dims<batch*seq, 8>>
  %loss = train.reduce sum %z axes = [0, 1] : tensor<?x8xf32, #train.dims<batch*seq, 8>> -> tensor<f32>
  return %loss : tensor<f32>
}
