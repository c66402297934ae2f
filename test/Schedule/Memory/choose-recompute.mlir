// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// DEFINE: %{train} = --autodiff --attach-optimizer=kind=sgd --form-steps=micro=false --canonicalize --cse
// RUN: split-file %s %t
// RUN: trainc-opt %t/step.mlir %{train} --choose-recompute=budget=0.7 | FileCheck %t/step.mlir
// RUN: trainc-opt %t/step.mlir %{train} --choose-recompute=budget=1GB | FileCheck %t/step.mlir --check-prefix=FITS
// RUN: not trainc-opt %t/step.mlir %{train} --choose-recompute=budget=0.1 -o /dev/null 2>&1 | FileCheck %t/step.mlir --check-prefix=LEAST
// RUN: not trainc-opt %t/step.mlir %{train} --choose-recompute=budget=fit -o /dev/null 2>&1 | FileCheck %t/step.mlir --check-prefix=DEVICE
// RUN: not trainc-opt %t/step.mlir %{train} --choose-recompute=budget=1.5 -o /dev/null 2>&1 | FileCheck %t/step.mlir --check-prefix=SYNTAX
// RUN: not trainc-opt %t/step.mlir %{train} --choose-recompute=target=tpu -o /dev/null 2>&1 | FileCheck %t/step.mlir --check-prefix=TARGET
// RUN: not trainc-opt %t/open.mlir --choose-recompute=budget=0.7 -o /dev/null 2>&1 | FileCheck %t/step.mlir --check-prefix=SIZES
// RUN: not trainc-opt %t/eval.mlir --choose-recompute=budget=0.7 -o /dev/null 2>&1 | FileCheck %t/step.mlir --check-prefix=STEP

//--- step.mlir
// What is kept for long is computed again, behind a barrier.
// CHECK-LABEL: func.func @step
// CHECK: train.barrier
// FITS-LABEL: func.func @step
// FITS-NOT: train.barrier
// LEAST: error: --memory-budget 0.1: the least that a step can do with is {{.*}} of activations and temporaries
// DEVICE: error: --memory-budget fit: no device here whose memory could be filled; name its size: fit:40GB
// SYNTAX: error: --memory-budget 1.5: expected a size
// TARGET: error: choose-recompute: {{.*}}tpu
// SIZES: error: --memory-budget 0.7: sizes have no number: --dim batch=N
// STEP: error: --memory-budget 0.7: the model has no training step that could compute anything again
train.symbol @batch min 1 max 1024 input "x" axis 0
func.func @forward(%x: tensor<?x64xf32, #train.dims<batch, 64>> {train.role = "input", train.name = "x"},
                   %w0: tensor<64x64xf32> {train.role = "parameter", train.name = "w0", train.trainable},
                   %w1: tensor<64x64xf32> {train.role = "parameter", train.name = "w1", train.trainable},
                   %w2: tensor<64x64xf32> {train.role = "parameter", train.name = "w2", train.trainable},
                   %w3: tensor<64x64xf32> {train.role = "parameter", train.name = "w3", train.trainable})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %m0 = train.matmul %x, %w0 : tensor<?x64xf32, #train.dims<batch, 64>>, tensor<64x64xf32> -> tensor<?x64xf32, #train.dims<batch, 64>>
  %g0 = train.gelu %m0 : tensor<?x64xf32, #train.dims<batch, 64>>
  %m1 = train.matmul %g0, %w1 : tensor<?x64xf32, #train.dims<batch, 64>>, tensor<64x64xf32> -> tensor<?x64xf32, #train.dims<batch, 64>>
  %g1 = train.gelu %m1 : tensor<?x64xf32, #train.dims<batch, 64>>
  %m2 = train.matmul %g1, %w2 : tensor<?x64xf32, #train.dims<batch, 64>>, tensor<64x64xf32> -> tensor<?x64xf32, #train.dims<batch, 64>>
  %g2 = train.gelu %m2 : tensor<?x64xf32, #train.dims<batch, 64>>
  %m3 = train.matmul %g2, %w3 : tensor<?x64xf32, #train.dims<batch, 64>>, tensor<64x64xf32> -> tensor<?x64xf32, #train.dims<batch, 64>>
  %g3 = train.gelu %m3 : tensor<?x64xf32, #train.dims<batch, 64>>
  %loss = train.reduce sum %g3 axes = [0, 1] : tensor<?x64xf32, #train.dims<batch, 64>> -> tensor<f32>
  return %loss : tensor<f32>
}

//--- open.mlir
train.symbol @batch min 1 input "x" axis 0
func.func @step(%x: tensor<?xf32, #train.dims<batch>> {train.role = "input", train.name = "x"},
                %w: tensor<f32> {train.role = "parameter", train.name = "w", train.trainable})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"},
        tensor<f32> {train.role = "update", train.updates = "parameter", train.name = "w"}) {
  %0 = train.reduce sum %x axes = [0] : tensor<?xf32, #train.dims<batch>> -> tensor<f32>
  return %0, %w : tensor<f32>, tensor<f32>
}

//--- eval.mlir
func.func @eval(%x: tensor<2xf32> {train.role = "input", train.name = "x"}) -> (tensor<2xf32> {train.role = "output", train.name = "y"}) {
  return %x : tensor<2xf32>
}
