// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: not trainc-opt %s --insert-lora="rank=2" 2>&1 | FileCheck %s
// CHECK: error: insert-lora: without targets= the branches are beside all projections but those of heads and of embeddings, and the model has none; targets= may name: 'head'
func.func @forward(%head: tensor<5x8xf32> {train.role = "parameter", train.name = "head.weight", train.trainable},
    %x: tensor<4x8xf32> {train.role = "input", train.name = "x"}) -> (tensor<4x5xf32> {train.role = "output", train.name = "y"}) {
  %0 = train.matmul %x, %head transposed : tensor<4x8xf32>, tensor<5x8xf32> -> tensor<4x5xf32>
  return %0 : tensor<4x5xf32>
}
