// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Losses and gradients are those of the whole, of even and uneven chunks, some of them empty (symbols are 2 here).
// RUN: trainc-test-opt %s --autodiff --test-evaluate --mlir-disable-threading -o /dev/null > %t.whole
// RUN: trainc-test-opt %s --chunk-loss="min-classes=8 min-rows=1 chunks=3" --canonicalize --cse --autodiff --test-evaluate --mlir-disable-threading -o /dev/null > %t.uneven
// RUN: trainc-test-opt %s --chunk-loss="min-classes=8 min-rows=4 chunks=3" --canonicalize --cse --autodiff --test-evaluate --mlir-disable-threading -o /dev/null > %t.empty
// RUN: diff %t.whole %t.uneven
// RUN: diff %t.whole %t.empty
// RUN: trainc-test-opt %s --chunk-loss="min-classes=8 min-rows=1 chunks=3" | FileCheck %s
// CHECK: train.with_gradient
module {
  train.symbol @batch min 1 input "x" axis 0
  func.func @forward(%w: tensor<8x4xf32> {train.role = "parameter", train.name = "w"},
      %a: tensor<2x4xf32> {train.role = "parameter", train.name = "a", train.trainable},
      %b: tensor<8x2xf32> {train.role = "parameter", train.name = "b", train.trainable},
      %e: tensor<4xf32> {train.role = "parameter", train.name = "e", train.trainable},
      %x: tensor<?x3x4xf32, #train.dims<batch, 3, 4>> {train.role = "input", train.name = "x"},
      %labels: tensor<?x3xi64, #train.dims<batch, 3>> {train.role = "input", train.name = "labels"}) -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
    %0 = train.broadcast %e axes = [2] : tensor<4xf32> -> tensor<?x3x4xf32, #train.dims<batch, 3, 4>>
    %1 = train.mul %x, %0 : tensor<?x3x4xf32, #train.dims<batch, 3, 4>>
    %2 = train.reshape %1 : tensor<?x3x4xf32, #train.dims<batch, 3, 4>> -> tensor<?x4xf32, #train.dims<3*batch, 4>>
    %3 = train.matmul %2, %w transposed : tensor<?x4xf32, #train.dims<3*batch, 4>>, tensor<8x4xf32> -> tensor<?x8xf32, #train.dims<3*batch, 8>>
    %4 = train.matmul %2, %a transposed : tensor<?x4xf32, #train.dims<3*batch, 4>>, tensor<2x4xf32> -> tensor<?x2xf32, #train.dims<3*batch, 2>>
    %5 = train.matmul %4, %b transposed : tensor<?x2xf32, #train.dims<3*batch, 2>>, tensor<8x2xf32> -> tensor<?x8xf32, #train.dims<3*batch, 8>>
    %6 = train.add %3, %5 : tensor<?x8xf32, #train.dims<3*batch, 8>>
    %7 = train.tanh %6 : tensor<?x8xf32, #train.dims<3*batch, 8>>
    %8 = train.reshape %labels : tensor<?x3xi64, #train.dims<batch, 3>> -> tensor<?xi64, #train.dims<3*batch>>
    %loss, %lse = train.cross_entropy %7, %8 {ignore_index = -100 : i64} : (tensor<?x8xf32, #train.dims<3*batch, 8>>, tensor<?xi64, #train.dims<3*batch>>) -> (tensor<?xf32, #train.dims<3*batch>>, tensor<?xf32, #train.dims<3*batch>>)
    %9 = train.reduce sum %loss axes = [0] : tensor<?xf32, #train.dims<3*batch>> -> tensor<f32>
    %10 = train.full 2.500000e-01 : f32 : tensor<f32>
    %11 = train.mul %9, %10 : tensor<f32>
    return %11 : tensor<f32>
  }
}
