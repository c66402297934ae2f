// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attention of packed tokens whose heads share keys and values in groups: they are not repeated, wherever the rectangle
// put views and factors between.
// RUN: trainc-opt %s --split-input-file --pass-pipeline='builtin.module(find-padding,eliminate-padding,builtin.module(canonicalize,cse,func.func(raise-attention{segments=true}),canonicalize,cse))' | FileCheck %s
// RUN: trainc-opt %s --split-input-file --pass-pipeline='builtin.module(find-padding,eliminate-padding,builtin.module(canonicalize,cse,func.func(raise-attention{segments=true})))' --remarks-filter=raise-attention --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

train.symbol @batch min 1 input "input_ids" axis 0
train.symbol @seq min 1 input "input_ids" axis 1

// CHECK: module @packed
// CHECK: train.attention {{.*}} scale = 5.000000e-01 : f64
// CHECK-SAME: (tensor<1x2x?x8xf32, #train.dims<1, 2, count_attention_mask, 8>>, tensor<1x1x?x8xf32, #train.dims<1, 1, count_attention_mask, 8>>, tensor<1x1x?x8xf32, #train.dims<1, 1, count_attention_mask, 8>>,
// REMARK: Raised{{.*}}all columns, heads in groups, packed tokens
func.func @forward(%table: tensor<9x8xf32> {train.role = "parameter", train.name = "table", train.trainable},
    %queries: tensor<8x16xf32> {train.role = "parameter", train.name = "queries", train.trainable},
    %w: tensor<16x8xf32> {train.role = "parameter", train.name = "w", train.trainable},
    %ids: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "input_ids"},
    %mask: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "attention_mask"})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %x = train.gather %table, %ids axis = 0 : tensor<9x8xf32>, tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?x8xf32, #train.dims<batch, seq, 8>>
  %r = train.reshape %x : tensor<?x?x8xf32, #train.dims<batch, seq, 8>> -> tensor<?x8xf32, #train.dims<batch*seq, 8>>
  %q0 = train.matmul %r, %queries : tensor<?x8xf32, #train.dims<batch*seq, 8>>, tensor<8x16xf32> -> tensor<?x16xf32, #train.dims<batch*seq, 16>>
  %q1 = train.reshape %q0 : tensor<?x16xf32, #train.dims<batch*seq, 16>> -> tensor<?x?x2x8xf32, #train.dims<batch, seq, 2, 8>>
  %q = train.transpose %q1 permutation = [0, 2, 1, 3] : tensor<?x?x2x8xf32, #train.dims<batch, seq, 2, 8>> -> tensor<?x2x?x8xf32, #train.dims<batch, 2, seq, 8>>
  %h = train.reshape %x : tensor<?x?x8xf32, #train.dims<batch, seq, 8>> -> tensor<?x?x1x8xf32, #train.dims<batch, seq, 1, 8>>
  %one = train.transpose %h permutation = [0, 2, 1, 3] : tensor<?x?x1x8xf32, #train.dims<batch, seq, 1, 8>> -> tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>>
  %five = train.broadcast %one axes = [0, 1, 3, 4] : tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>> -> tensor<?x1x2x?x8xf32, #train.dims<batch, 1, 2, seq, 8>>
  %v = train.reshape %five : tensor<?x1x2x?x8xf32, #train.dims<batch, 1, 2, seq, 8>> -> tensor<?x2x?x8xf32, #train.dims<batch, 2, seq, 8>>
  // Keys as exporters write them: heads beside the samples, then turned and scaled.
  %k0 = train.reshape %five : tensor<?x1x2x?x8xf32, #train.dims<batch, 1, 2, seq, 8>> -> tensor<?x?x8xf32, #train.dims<2*batch, seq, 8>>
  %k1 = train.transpose %k0 permutation = [0, 2, 1] : tensor<?x?x8xf32, #train.dims<2*batch, seq, 8>> -> tensor<?x8x?xf32, #train.dims<2*batch, 8, seq>>
  %k2 = train.reshape %k1 : tensor<?x8x?xf32, #train.dims<2*batch, 8, seq>> -> tensor<?x2x8x?xf32, #train.dims<batch, 2, 8, seq>>
  %half = train.full 0.5 : f32 : tensor<?x2x8x?xf32, #train.dims<batch, 2, 8, seq>>
  %k = train.mul %k2, %half : tensor<?x2x8x?xf32, #train.dims<batch, 2, 8, seq>>
  %scores = train.matmul %q, %k : tensor<?x2x?x8xf32, #train.dims<batch, 2, seq, 8>>, tensor<?x2x8x?xf32, #train.dims<batch, 2, 8, seq>> -> tensor<?x2x?x?xf32, #train.dims<batch, 2, seq, seq>>
  %t0 = train.cast %mask : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?xi1, #train.dims<batch, seq>>
  %visible = train.broadcast %t0 axes = [0, 3] : tensor<?x?xi1, #train.dims<batch, seq>> -> tensor<?x2x?x?xi1, #train.dims<batch, 2, seq, seq>>
  %least = train.full -3.40282347E+38 : f32 : tensor<?x2x?x?xf32, #train.dims<batch, 2, seq, seq>>
  %masked = train.select %visible, %scores, %least : tensor<?x2x?x?xi1, #train.dims<batch, 2, seq, seq>>, tensor<?x2x?x?xf32, #train.dims<batch, 2, seq, seq>>
  %weights = train.softmax %masked axis = 3 : tensor<?x2x?x?xf32, #train.dims<batch, 2, seq, seq>>
  %mixed = train.matmul %weights, %v : tensor<?x2x?x?xf32, #train.dims<batch, 2, seq, seq>>, tensor<?x2x?x8xf32, #train.dims<batch, 2, seq, 8>> -> tensor<?x2x?x8xf32, #train.dims<batch, 2, seq, 8>>
  %back = train.transpose %mixed permutation = [0, 2, 1, 3] : tensor<?x2x?x8xf32, #train.dims<batch, 2, seq, 8>> -> tensor<?x?x2x8xf32, #train.dims<batch, seq, 2, 8>>
  %rows = train.reshape %back : tensor<?x?x2x8xf32, #train.dims<batch, seq, 2, 8>> -> tensor<?x16xf32, #train.dims<batch*seq, 16>>
  %y = train.matmul %rows, %w : tensor<?x16xf32, #train.dims<batch*seq, 16>>, tensor<16x8xf32> -> tensor<?x8xf32, #train.dims<batch*seq, 8>>
  %f0 = train.cast %mask : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?xf32, #train.dims<batch, seq>>
  %f1 = train.reshape %f0 : tensor<?x?xf32, #train.dims<batch, seq>> -> tensor<?xf32, #train.dims<batch*seq>>
  %f = train.broadcast %f1 axes = [0] : tensor<?xf32, #train.dims<batch*seq>> -> tensor<?x8xf32, #train.dims<batch*seq, 8>>
  %z = train.mul %y, %f : tensor<?x8xf32, #train.dims<batch*seq, 8>>
  %loss = train.reduce sum %z axes = [0, 1] : tensor<?x8xf32, #train.dims<batch*seq, 8>> -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// Each head has keys of its own: nothing is shared.
train.symbol @batch min 1 input "input_ids" axis 0
train.symbol @seq min 1 input "input_ids" axis 1

// CHECK: module @packed
// CHECK: train.attention
// CHECK-SAME: (tensor<1x2x?x8xf32, #train.dims<1, 2, count_attention_mask, 8>>, tensor<1x2x?x8xf32, #train.dims<1, 2, count_attention_mask, 8>>,
// REMARK: Raised{{.*}}all columns, packed tokens
func.func @forward(%table: tensor<9x8xf32> {train.role = "parameter", train.name = "table", train.trainable},
    %queries: tensor<8x16xf32> {train.role = "parameter", train.name = "queries", train.trainable},
    %w: tensor<16x8xf32> {train.role = "parameter", train.name = "w", train.trainable},
    %ids: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "input_ids"},
    %mask: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "attention_mask"})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %x = train.gather %table, %ids axis = 0 : tensor<9x8xf32>, tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?x8xf32, #train.dims<batch, seq, 8>>
  %r = train.reshape %x : tensor<?x?x8xf32, #train.dims<batch, seq, 8>> -> tensor<?x8xf32, #train.dims<batch*seq, 8>>
  %q0 = train.matmul %r, %queries : tensor<?x8xf32, #train.dims<batch*seq, 8>>, tensor<8x16xf32> -> tensor<?x16xf32, #train.dims<batch*seq, 16>>
  %q1 = train.reshape %q0 : tensor<?x16xf32, #train.dims<batch*seq, 16>> -> tensor<?x?x2x8xf32, #train.dims<batch, seq, 2, 8>>
  %q = train.transpose %q1 permutation = [0, 2, 1, 3] : tensor<?x?x2x8xf32, #train.dims<batch, seq, 2, 8>> -> tensor<?x2x?x8xf32, #train.dims<batch, 2, seq, 8>>
  %h = train.reshape %x : tensor<?x?x8xf32, #train.dims<batch, seq, 8>> -> tensor<?x?x1x8xf32, #train.dims<batch, seq, 1, 8>>
  %one = train.transpose %h permutation = [0, 2, 1, 3] : tensor<?x?x1x8xf32, #train.dims<batch, seq, 1, 8>> -> tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>>
  %five = train.broadcast %one axes = [0, 1, 3, 4] : tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>> -> tensor<?x1x2x?x8xf32, #train.dims<batch, 1, 2, seq, 8>>
  %v = train.reshape %five : tensor<?x1x2x?x8xf32, #train.dims<batch, 1, 2, seq, 8>> -> tensor<?x2x?x8xf32, #train.dims<batch, 2, seq, 8>>
  %five5 = train.reshape %q : tensor<?x2x?x8xf32, #train.dims<batch, 2, seq, 8>> -> tensor<?x1x2x?x8xf32, #train.dims<batch, 1, 2, seq, 8>>
  // Keys as exporters write them: heads beside the samples, then turned and scaled.
  %sum = train.add %five, %five5 : tensor<?x1x2x?x8xf32, #train.dims<batch, 1, 2, seq, 8>>
  %k0 = train.reshape %sum : tensor<?x1x2x?x8xf32, #train.dims<batch, 1, 2, seq, 8>> -> tensor<?x?x8xf32, #train.dims<2*batch, seq, 8>>
  %k1 = train.transpose %k0 permutation = [0, 2, 1] : tensor<?x?x8xf32, #train.dims<2*batch, seq, 8>> -> tensor<?x8x?xf32, #train.dims<2*batch, 8, seq>>
  %k2 = train.reshape %k1 : tensor<?x8x?xf32, #train.dims<2*batch, 8, seq>> -> tensor<?x2x8x?xf32, #train.dims<batch, 2, 8, seq>>
  %half = train.full 0.5 : f32 : tensor<?x2x8x?xf32, #train.dims<batch, 2, 8, seq>>
  %k = train.mul %k2, %half : tensor<?x2x8x?xf32, #train.dims<batch, 2, 8, seq>>
  %scores = train.matmul %q, %k : tensor<?x2x?x8xf32, #train.dims<batch, 2, seq, 8>>, tensor<?x2x8x?xf32, #train.dims<batch, 2, 8, seq>> -> tensor<?x2x?x?xf32, #train.dims<batch, 2, seq, seq>>
  %t0 = train.cast %mask : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?xi1, #train.dims<batch, seq>>
  %visible = train.broadcast %t0 axes = [0, 3] : tensor<?x?xi1, #train.dims<batch, seq>> -> tensor<?x2x?x?xi1, #train.dims<batch, 2, seq, seq>>
  %least = train.full -3.40282347E+38 : f32 : tensor<?x2x?x?xf32, #train.dims<batch, 2, seq, seq>>
  %masked = train.select %visible, %scores, %least : tensor<?x2x?x?xi1, #train.dims<batch, 2, seq, seq>>, tensor<?x2x?x?xf32, #train.dims<batch, 2, seq, seq>>
  %weights = train.softmax %masked axis = 3 : tensor<?x2x?x?xf32, #train.dims<batch, 2, seq, seq>>
  %mixed = train.matmul %weights, %v : tensor<?x2x?x?xf32, #train.dims<batch, 2, seq, seq>>, tensor<?x2x?x8xf32, #train.dims<batch, 2, seq, 8>> -> tensor<?x2x?x8xf32, #train.dims<batch, 2, seq, 8>>
  %back = train.transpose %mixed permutation = [0, 2, 1, 3] : tensor<?x2x?x8xf32, #train.dims<batch, 2, seq, 8>> -> tensor<?x?x2x8xf32, #train.dims<batch, seq, 2, 8>>
  %rows = train.reshape %back : tensor<?x?x2x8xf32, #train.dims<batch, seq, 2, 8>> -> tensor<?x16xf32, #train.dims<batch*seq, 16>>
  %y = train.matmul %rows, %w : tensor<?x16xf32, #train.dims<batch*seq, 16>>, tensor<16x8xf32> -> tensor<?x8xf32, #train.dims<batch*seq, 8>>
  %f0 = train.cast %mask : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?xf32, #train.dims<batch, seq>>
  %f1 = train.reshape %f0 : tensor<?x?xf32, #train.dims<batch, seq>> -> tensor<?xf32, #train.dims<batch*seq>>
  %f = train.broadcast %f1 axes = [0] : tensor<?xf32, #train.dims<batch*seq>> -> tensor<?x8xf32, #train.dims<batch*seq, 8>>
  %z = train.mul %y, %f : tensor<?x8xf32, #train.dims<batch*seq, 8>>
  %loss = train.reduce sum %z axes = [0, 1] : tensor<?x8xf32, #train.dims<batch*seq, 8>> -> tensor<f32>
  return %loss : tensor<f32>
}
