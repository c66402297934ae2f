// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Two sequences, each with its mask: both are packed; what one makes of the other is computed in the rectangle.
// RUN: trainc-opt %s --find-padding --eliminate-padding | FileCheck %s
// RUN: trainc-opt %s --find-padding --eliminate-padding --remarks-filter="find-padding|eliminate-padding" --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

train.symbol @batch min 1 input "input_ids" axis 0
train.symbol @seq min 1 input "input_ids" axis 1
train.symbol @target min 1 input "decoder_input_ids" axis 1

// CHECK: module @packed attributes {train.conditions = [{input = "attention_mask", kind = "binary"}, {{.*}}, {input = "decoder_attention_mask", kind = "binary"}]}
// CHECK: train.exp %{{.*}} : tensor<1x?x8xf32, #train.dims<1, count_attention_mask, 8>>
// CHECK: train.tanh %{{.*}} : tensor<1x?x8xf32, #train.dims<1, count_decoder_attention_mask, 8>>
// CHECK: train.matmul %{{.*}} : {{.*}} -> tensor<?x?x?xf32, #train.dims<batch, target, seq>>
// CHECK: train.softmax %{{.*}} : tensor<?x?x?xf32, #train.dims<batch, target, seq>>
// CHECK: train.matmul %{{.*}} : {{.*}} -> tensor<?x?x8xf32, #train.dims<batch, target, 8>>
// CHECK: train.neg %{{.*}} : tensor<1x?x8xf32, #train.dims<1, count_decoder_attention_mask, 8>>
// REMARK: Found{{.*}}padding is where attention_mask is 0; it reaches no token
// REMARK: Found{{.*}}padding is where decoder_attention_mask is 0; it reaches no token
// REMARK: Packed{{.*}}count_attention_mask tokens that attention_mask counts
// REMARK: Rectangle{{.*}}Reason="it looks across tokens, or has no form of tokens alone", Remark="train.matmul is computed with padding"
// REMARK: Packed{{.*}}count_decoder_attention_mask tokens that decoder_attention_mask counts
// REMARK-NOT: Rectangle{{.*}}train.softmax
func.func @forward(%table: tensor<9x8xf32> {train.role = "parameter", train.name = "table", train.trainable},
    %ids: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "input_ids"},
    %mask: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "attention_mask"},
    %decoder_ids: tensor<?x?xi64, #train.dims<batch, target>> {train.role = "input", train.name = "decoder_input_ids"},
    %decoder_mask: tensor<?x?xi64, #train.dims<batch, target>> {train.role = "input", train.name = "decoder_attention_mask"})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %0 = train.gather %table, %ids axis = 0 : tensor<9x8xf32>, tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?x8xf32, #train.dims<batch, seq, 8>>
  %1 = train.exp %0 : tensor<?x?x8xf32, #train.dims<batch, seq, 8>>
  %2 = train.gather %table, %decoder_ids axis = 0 : tensor<9x8xf32>, tensor<?x?xi64, #train.dims<batch, target>> -> tensor<?x?x8xf32, #train.dims<batch, target, 8>>
  %3 = train.tanh %2 : tensor<?x?x8xf32, #train.dims<batch, target, 8>>
  %4 = train.matmul %3, %1 transposed : tensor<?x?x8xf32, #train.dims<batch, target, 8>>, tensor<?x?x8xf32, #train.dims<batch, seq, 8>> -> tensor<?x?x?xf32, #train.dims<batch, target, seq>>
  %5 = train.cast %mask : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?xi1, #train.dims<batch, seq>>
  %6 = train.broadcast %5 axes = [0, 2] : tensor<?x?xi1, #train.dims<batch, seq>> -> tensor<?x?x?xi1, #train.dims<batch, target, seq>>
  %7 = train.full -3.40282347E+38 : f32 : tensor<?x?x?xf32, #train.dims<batch, target, seq>>
  %8 = train.select %6, %4, %7 : tensor<?x?x?xi1, #train.dims<batch, target, seq>>, tensor<?x?x?xf32, #train.dims<batch, target, seq>>
  %9 = train.softmax %8 axis = 2 : tensor<?x?x?xf32, #train.dims<batch, target, seq>>
  %10 = train.matmul %9, %1 : tensor<?x?x?xf32, #train.dims<batch, target, seq>>, tensor<?x?x8xf32, #train.dims<batch, seq, 8>> -> tensor<?x?x8xf32, #train.dims<batch, target, 8>>
  %11 = train.neg %10 : tensor<?x?x8xf32, #train.dims<batch, target, 8>>
  %12 = train.cast %decoder_mask : tensor<?x?xi64, #train.dims<batch, target>> -> tensor<?x?xf32, #train.dims<batch, target>>
  %13 = train.broadcast %12 axes = [0, 1] : tensor<?x?xf32, #train.dims<batch, target>> -> tensor<?x?x8xf32, #train.dims<batch, target, 8>>
  %14 = train.mul %11, %13 : tensor<?x?x8xf32, #train.dims<batch, target, 8>>
  %15 = train.reduce sum %14 axes = [0, 1, 2] : tensor<?x?x8xf32, #train.dims<batch, target, 8>> -> tensor<f32>
  return %15 : tensor<f32>
}
