// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The forward ends with the last command that the loss depends on, the backward with the last one
// that reads an input or what the forward has made, but for flags.
// RUN: trainc-test-opt %s --test-lifetimes="size=16 loss=loss" 2>&1 | FileCheck %s

// The update of %w1 runs within the backward; that of the running mean within the forward.
// CHECK: :[[@LINE+1]]:1: remark: forward to 3, backward to 6 of 8 commands
plan.function @step {
  %x = plan.buffer input "x" : tensor<?xf32, #train.dims<n>>
  %w1 = plan.buffer parameter "w1" : tensor<8xf32>
  %w2 = plan.buffer parameter "w2" : tensor<8xf32>
  %mean = plan.buffer state "mean" : tensor<8xf32>
  %m = plan.buffer state "w2/exp_avg" : tensor<8xf32>
  %loss = plan.buffer output "loss" : tensor<f32>
  %other = plan.buffer output "other" : tensor<f32>
  %h = plan.buffer arena : tensor<?xf32, #train.dims<n>>
  %dh = plan.buffer arena : tensor<?xf32, #train.dims<n>>
  %dw1 = plan.buffer arena : tensor<8xf32>
  %dw2 = plan.buffer arena : tensor<8xf32>
  %flag = plan.buffer arena : tensor<i1>
  %direction = plan.buffer arena : tensor<8xf32>
  plan.launch "forward1"(%x, %w1, %h) inputs 2 dims <> work <1> grain 1 scratch <0>
  plan.launch "mean"(%h, %mean) inputs 1 dims <> work <1> grain 1 scratch <0>
  plan.launch "forward2"(%h, %w2, %loss, %flag) inputs 2 dims <> work <1> grain 1 scratch <0>
  plan.launch "backward1"(%h, %w1, %dh, %dw1) inputs 2 dims <> work <1> grain 1 scratch <0>
  plan.launch "update1"(%dw1, %w1) inputs 1 dims <> work <1> grain 1 scratch <0>
  plan.launch "backward2"(%x, %dh, %dw2, %other) inputs 2 dims <> work <1> grain 1 scratch <0>
  plan.launch "moments2"(%dw2, %m, %direction) inputs 1 dims <> work <1> grain 1 scratch <0>
  plan.launch "update2"(%direction, %flag, %w2) inputs 2 dims <> work <1> grain 1 scratch <0>
}

// CHECK: :[[@LINE+1]]:1: remark: forward to 1, backward to 2 of 2 commands
plan.function @micro {
  %x = plan.buffer input "x" : tensor<?xf32, #train.dims<n>>
  %w = plan.buffer parameter "w" : tensor<8xf32>
  %dw = plan.buffer gradient "w" : tensor<8xf32>
  %loss = plan.buffer output "loss" : tensor<f32>
  plan.launch "forward"(%x, %w, %loss) inputs 2 dims <> work <1> grain 1 scratch <0>
  plan.launch "backward"(%x, %dw) inputs 1 dims <> work <1> grain 1 scratch <0>
}

// CHECK: :[[@LINE+1]]:1: remark: forward to 0, backward to 0 of 1 commands
plan.function @update {
  %w = plan.buffer parameter "w" : tensor<8xf32>
  %dw = plan.buffer gradient "w" : tensor<8xf32>
  plan.launch "update"(%dw, %w) inputs 1 dims <> work <1> grain 1 scratch <0>
}

// CHECK: :[[@LINE+1]]:1: remark: forward to 2, backward to 2 of 2 commands
plan.function @eval {
  %x = plan.buffer input "x" : tensor<?xf32, #train.dims<n>>
  %w = plan.buffer parameter "w" : tensor<8xf32>
  %loss = plan.buffer output "loss" : tensor<f32>
  %logits = plan.buffer output "logits" : tensor<8xf32>
  plan.launch "loss"(%x, %w, %loss) inputs 2 dims <> work <1> grain 1 scratch <0>
  plan.launch "logits"(%x, %w, %logits) inputs 2 dims <> work <1> grain 1 scratch <0>
}
