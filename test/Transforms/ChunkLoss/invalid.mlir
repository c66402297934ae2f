// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What has no derivative fails the pass, in a chunk and behind the losses.
// RUN: trainc-test-opt %s --split-input-file --verify-diagnostics --chunk-loss="min-classes=8 min-rows=2 chunks=2"

func.func @forward(%w: tensor<8x4xf32> {train.role = "parameter", train.name = "w"},
    %x: tensor<6x4xf32> {train.role = "parameter", train.name = "x", train.trainable},
    %labels: tensor<6xi64> {train.role = "input", train.name = "labels"}) -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  // expected-error@+1 {{testdialect.project has no derivative, but the loss depends on a trainable parameter through it}}
  %0 = testdialect.project %x, %w : (tensor<6x4xf32>, tensor<8x4xf32>) -> tensor<6x8xf32>
  %loss, %lse = train.cross_entropy %0, %labels {ignore_index = -100 : i64} : (tensor<6x8xf32>, tensor<6xi64>) -> (tensor<6xf32>, tensor<6xf32>)
  %1 = train.reduce sum %loss axes = [0] : tensor<6xf32> -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

func.func @forward(%w: tensor<8x4xf32> {train.role = "parameter", train.name = "w"},
    %x: tensor<6x4xf32> {train.role = "parameter", train.name = "x", train.trainable},
    %labels: tensor<6xi64> {train.role = "input", train.name = "labels"}) -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %0 = train.matmul %x, %w transposed : tensor<6x4xf32>, tensor<8x4xf32> -> tensor<6x8xf32>
  %loss, %lse = train.cross_entropy %0, %labels {ignore_index = -100 : i64} : (tensor<6x8xf32>, tensor<6xi64>) -> (tensor<6xf32>, tensor<6xf32>)
  // expected-error@+1 {{testdialect.call has no derivative, but the loss depends on a trainable parameter through it}}
  %1 = testdialect.call %loss : tensor<6xf32>
  %2 = train.reduce sum %1 axes = [0] : tensor<6xf32> -> tensor<f32>
  return %2 : tensor<f32>
}
