// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --recompute="config=gelu+:1:-1" | FileCheck %s
// RUN: trainc-opt %s --recompute="config=BiasGelu+:1:-1" | FileCheck %s --check-prefix=CHAIN
// RUN: trainc-opt %s --recompute="config=gelu+:0:-1" | FileCheck %s --check-prefix=NONE
// RUN: trainc-opt %s --recompute="config=gelu+:1:0" | FileCheck %s --check-prefix=NONE
// RUN: trainc-opt %s --recompute="config=level:0" | FileCheck %s --check-prefix=NONE
// RUN: trainc-opt %s --recompute="config=level:2" | FileCheck %s --check-prefix=LESS
// RUN: trainc-opt %s --recompute="config=gelu+:1:-1" --cse --canonicalize --form-kernels | FileCheck %s --check-prefix=KERNELS

// What the backward pass reads is a copy in front of its first reader, of a kept value; the forward pass keeps its own.
// CHECK-LABEL: func.func @step
// CHECK: %[[SUM:.*]] = train.add
// CHECK: %[[GELU:.*]] = train.gelu %[[SUM]]
// CHECK: train.reduce sum %[[GELU]]
// CHECK-NOT: train.gelu
// CHECK: %[[KEPT:.*]] = train.barrier %[[SUM]] : tensor<?x8xf32, #train.dims<batch, 8>>
// CHECK: %[[COPY:.*]] = train.gelu %[[KEPT]]
// CHECK: train.mul %[[COPY]]
// CHECK-NOT: train.gelu %
// CHECK: train.matmul %arg1 transposed

// A pattern may reach through a kept value.
// CHAIN-LABEL: func.func @step
// CHAIN: %[[PRODUCT:.*]] = train.matmul
// CHAIN: train.reduce sum
// CHAIN: %[[KEPT:.*]] = train.barrier %[[PRODUCT]]
// CHAIN: %[[SUM:.*]] = train.add %[[KEPT]]
// CHAIN: train.gelu %[[SUM]]

// NONE-NOT: train.barrier

// Neither CSE nor the forming of kernels undoes it: the copy is in a kernel behind the loss's.
// KERNELS-LABEL: func.func @step
// KERNELS: train.gelu
// KERNELS: train.barrier
// KERNELS: train.fusion
// KERNELS: train.gelu

// Functions without gradients or updates are left alone.
// CHECK-LABEL: func.func @eval
// CHECK-NOT: train.barrier

// Of a widened value the narrow one is kept.
// CHECK-LABEL: func.func @widened
// CHECK: %[[NARROW:.*]] = train.cast %{{.*}} : {{.*}}f32{{.*}} -> {{.*}}bf16
// CHECK: train.reduce sum
// CHECK: %[[KEPT:.*]] = train.barrier %[[NARROW]] : tensor<?x8xbf16
// CHECK: %[[WIDE:.*]] = train.cast %[[KEPT]]
// CHECK: train.gelu %[[WIDE]]

// Where a narrow value is kept in place of a wide one less is held; not where the narrow one is what is held in any case: behind a
// barrier it would live on beside the gradient that is written in its place.
// LESS-LABEL: func.func @widened
// LESS-NOT: train.barrier
// LESS-LABEL: func.func @activation
// LESS: %[[CAST:.*]] = train.cast %{{.*}} : {{.*}}f32{{.*}} -> {{.*}}bf16
// LESS: train.reduce sum
// LESS: train.barrier %[[CAST]] : tensor<?x8xbf16

module {
  train.symbol @batch min 1 input "x" axis 0
  func.func @step(%w: tensor<4x8xf32> {train.name = "w", train.role = "parameter", train.trainable},
                  %x: tensor<?x4xf32, #train.dims<batch, 4>> {train.name = "x", train.role = "input"},
                  %b: tensor<8xf32> {train.name = "b", train.role = "parameter"})
      -> (tensor<f32> {train.name = "loss", train.role = "loss"},
          tensor<4x8xf32> {train.name = "w", train.role = "gradient"}) {
    %0 = train.matmul %x, %w : tensor<?x4xf32, #train.dims<batch, 4>>, tensor<4x8xf32> -> tensor<?x8xf32, #train.dims<batch, 8>>
    %1 = train.broadcast %b axes = [1] : tensor<8xf32> -> tensor<?x8xf32, #train.dims<batch, 8>>
    %2 = train.add %0, %1 : tensor<?x8xf32, #train.dims<batch, 8>>
    %3 = train.gelu %2 : tensor<?x8xf32, #train.dims<batch, 8>>
    %4 = train.reduce sum %3 axes = [0, 1] : tensor<?x8xf32, #train.dims<batch, 8>> -> tensor<f32>
    %5 = train.mul %3, %3 : tensor<?x8xf32, #train.dims<batch, 8>>
    %6 = train.gelu_grad %2 : tensor<?x8xf32, #train.dims<batch, 8>>
    %7 = train.mul %5, %6 : tensor<?x8xf32, #train.dims<batch, 8>>
    %8 = train.matmul %x transposed, %7 : tensor<?x4xf32, #train.dims<batch, 4>>, tensor<?x8xf32, #train.dims<batch, 8>> -> tensor<4x8xf32>
    return %4, %8 : tensor<f32>, tensor<4x8xf32>
  }
  func.func @eval(%w: tensor<4x8xf32> {train.name = "w", train.role = "parameter"},
                  %x: tensor<?x4xf32, #train.dims<batch, 4>> {train.name = "x", train.role = "input"})
      -> (tensor<f32> {train.name = "loss", train.role = "loss"}) {
    %0 = train.matmul %x, %w : tensor<?x4xf32, #train.dims<batch, 4>>, tensor<4x8xf32> -> tensor<?x8xf32, #train.dims<batch, 8>>
    %1 = train.reduce sum %0 axes = [0, 1] : tensor<?x8xf32, #train.dims<batch, 8>> -> tensor<f32>
    return %1 : tensor<f32>
  }
  func.func @widened(%w: tensor<4x8xf32> {train.name = "w", train.role = "parameter", train.trainable},
                     %x: tensor<?x4xf32, #train.dims<batch, 4>> {train.name = "x", train.role = "input"})
      -> (tensor<f32> {train.name = "loss", train.role = "loss"},
          tensor<4x8xf32> {train.name = "w", train.role = "gradient"}) {
    %0 = train.matmul %x, %w : tensor<?x4xf32, #train.dims<batch, 4>>, tensor<4x8xf32> -> tensor<?x8xf32, #train.dims<batch, 8>>
    %1 = train.cast %0 : tensor<?x8xf32, #train.dims<batch, 8>> -> tensor<?x8xbf16, #train.dims<batch, 8>>
    %2 = train.cast %1 : tensor<?x8xbf16, #train.dims<batch, 8>> -> tensor<?x8xf32, #train.dims<batch, 8>>
    %3 = train.gelu %2 : tensor<?x8xf32, #train.dims<batch, 8>>
    %4 = train.reduce sum %3 axes = [0, 1] : tensor<?x8xf32, #train.dims<batch, 8>> -> tensor<f32>
    %5 = train.mul %3, %2 : tensor<?x8xf32, #train.dims<batch, 8>>
    %6 = train.matmul %x transposed, %5 : tensor<?x4xf32, #train.dims<batch, 4>>, tensor<?x8xf32, #train.dims<batch, 8>> -> tensor<4x8xf32>
    return %4, %6 : tensor<f32>, tensor<4x8xf32>
  }
  func.func @activation(%w: tensor<4x8xf32> {train.name = "w", train.role = "parameter", train.trainable},
                        %x: tensor<?x4xf32, #train.dims<batch, 4>> {train.name = "x", train.role = "input"})
      -> (tensor<f32> {train.name = "loss", train.role = "loss"},
          tensor<4x8xf32> {train.name = "w", train.role = "gradient"}) {
    %0 = train.matmul %x, %w : tensor<?x4xf32, #train.dims<batch, 4>>, tensor<4x8xf32> -> tensor<?x8xf32, #train.dims<batch, 8>>
    %1 = train.cast %0 : tensor<?x8xf32, #train.dims<batch, 8>> -> tensor<?x8xbf16, #train.dims<batch, 8>>
    %2 = train.cast %1 : tensor<?x8xbf16, #train.dims<batch, 8>> -> tensor<?x8xf32, #train.dims<batch, 8>>
    %3 = train.gelu %2 : tensor<?x8xf32, #train.dims<batch, 8>>
    %4 = train.reduce sum %3 axes = [0, 1] : tensor<?x8xf32, #train.dims<batch, 8>> -> tensor<f32>
    %5 = train.mul %3, %3 : tensor<?x8xf32, #train.dims<batch, 8>>
    %6 = train.matmul %x transposed, %5 : tensor<?x4xf32, #train.dims<batch, 4>>, tensor<?x8xf32, #train.dims<batch, 8>> -> tensor<4x8xf32>
    return %4, %6 : tensor<f32>, tensor<4x8xf32>
  }
}
