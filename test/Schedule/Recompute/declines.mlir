// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --recompute="config=gelu+:0:-1" | FileCheck %s
// RUN: trainc-opt %s --recompute="config=gelu+:1:0" | FileCheck %s
// RUN: trainc-opt %s --recompute="config=level:0" | FileCheck %s

// Type 0, a budget of 0 and level 0 ask for nothing; a function without gradients or updates has nothing that waits.
// CHECK-LABEL: func.func @step
// CHECK-NOT: train.barrier
// CHECK-COUNT-1: train.gelu %
// CHECK-NOT: train.gelu %
// CHECK-LABEL: func.func @eval
// CHECK-NOT: train.barrier
module {
  train.symbol @batch min 1 input "x" axis 0
  func.func @step(%w: tensor<4x8xf32> {train.name = "w", train.role = "parameter", train.trainable},
                  %x: tensor<?x4xf32, #train.dims<batch, 4>> {train.name = "x", train.role = "input"})
      -> (tensor<f32> {train.name = "loss", train.role = "loss"},
          tensor<4x8xf32> {train.name = "w", train.role = "gradient"}) {
    %0 = train.matmul %x, %w : tensor<?x4xf32, #train.dims<batch, 4>>, tensor<4x8xf32> -> tensor<?x8xf32, #train.dims<batch, 8>>
    %1 = train.gelu %0 : tensor<?x8xf32, #train.dims<batch, 8>>
    %2 = train.reduce sum %1 axes = [0, 1] : tensor<?x8xf32, #train.dims<batch, 8>> -> tensor<f32>
    %3 = train.mul %1, %1 : tensor<?x8xf32, #train.dims<batch, 8>>
    %4 = train.matmul %x transposed, %3 : tensor<?x4xf32, #train.dims<batch, 4>>, tensor<?x8xf32, #train.dims<batch, 8>> -> tensor<4x8xf32>
    return %2, %4 : tensor<f32>, tensor<4x8xf32>
  }
  func.func @eval(%w: tensor<4x8xf32> {train.name = "w", train.role = "parameter"},
                  %x: tensor<?x4xf32, #train.dims<batch, 4>> {train.name = "x", train.role = "input"})
      -> (tensor<f32> {train.name = "loss", train.role = "loss"}) {
    %0 = train.matmul %x, %w : tensor<?x4xf32, #train.dims<batch, 4>>, tensor<4x8xf32> -> tensor<?x8xf32, #train.dims<batch, 8>>
    %1 = train.gelu %0 : tensor<?x8xf32, #train.dims<batch, 8>>
    %2 = train.reduce sum %1 axes = [0, 1] : tensor<?x8xf32, #train.dims<batch, 8>> -> tensor<f32>
    return %2 : tensor<f32>
  }
}
