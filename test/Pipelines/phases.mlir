// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --graph | FileCheck %s --check-prefix=GRAPH
// RUN: trainc-opt %s --graph --schedule | FileCheck %s --check-prefix=SCHEDULE
// A second run of the schedule finds nothing to do.
// RUN: trainc-opt %s --graph --schedule -o %t.once
// RUN: trainc-opt %t.once --form-kernels | diff %t.once -

// GRAPH-NOT: func.func @forward
// GRAPH-DAG: func.func @step
// GRAPH-DAG: func.func @micro
// GRAPH-DAG: func.func @update
// GRAPH-DAG: func.func @eval

// The gradient's matmul, then the update in one kernel.
// SCHEDULE-LABEL: func.func @step
// SCHEDULE: train.matmul
// SCHEDULE: train.fusion
// SCHEDULE-NOT: train.adam
module {
  train.symbol @batch min 1 input "x" axis 0
  func.func @forward(%w: tensor<3x4xf32> {train.role = "parameter", train.name = "w", train.trainable},
                     %x: tensor<?x3xf32, #train.dims<batch, 3>> {train.role = "input", train.name = "x"})
      -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
    %0 = train.matmul %x, %w : tensor<?x3xf32, #train.dims<batch, 3>>, tensor<3x4xf32> -> tensor<?x4xf32, #train.dims<batch, 4>>
    %1 = train.mul %0, %0 : tensor<?x4xf32, #train.dims<batch, 4>>
    %2 = train.reduce sum %1 axes = [0, 1] : tensor<?x4xf32, #train.dims<batch, 4>> -> tensor<f32>
    return %2 : tensor<f32>
  }
}
