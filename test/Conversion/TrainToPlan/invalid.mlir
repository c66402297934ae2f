// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-test-opt %s --split-input-file --verify-diagnostics --test-train-to-plan

// expected-error@+1 {{result 0 updates an unknown argument}}
func.func @step(%w: tensor<4xf32> {train.role = "parameter", train.name = "w", train.trainable})
    -> (tensor<4xf32> {train.role = "update", train.updates = "parameter", train.name = "v"}) {
  return %w : tensor<4xf32>
}
