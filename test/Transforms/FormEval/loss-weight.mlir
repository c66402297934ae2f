// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --split-input-file --form-eval | FileCheck %s
// RUN: trainc-opt %s --split-input-file --form-eval --remarks-filter=form-eval --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// What a loss is divided by becomes an output.
// CHECK-LABEL: func.func @forward(
// CHECK-SAME: -> (tensor<f32> {train.name = "loss", train.role = "loss"})
// CHECK-LABEL: func.func @eval(
// CHECK-SAME: -> (tensor<f32> {train.loss_weight = "loss.weight", train.name = "loss", train.role = "loss"}, tensor<f32> {train.name = "loss.weight", train.role = "output"})
// CHECK: %[[TOTAL:.*]] = train.reduce sum %arg0
// CHECK: %[[NUMBER:.*]] = train.reduce sum %arg1
// CHECK: %[[LOSS:.*]] = train.div %[[TOTAL]]
// CHECK: return %[[LOSS]], %[[NUMBER]]
// Micro-batches are weighted by it before there is a loss.
// CHECK-LABEL: func.func @loss_weight(
// CHECK-SAME: %[[MASK:.*]]: tensor<?xf32, #train.dims<batch>> {train.name = "mask", train.role = "input"})
// CHECK-SAME: -> (tensor<f32> {train.name = "loss.weight", train.role = "output"})
// CHECK-NEXT: %[[ALONE:.*]] = train.reduce sum %[[MASK]]
// CHECK-NEXT: return %[[ALONE]]
// REMARK: evaluations weight the losses of batches by what train.reduce gives
func.func @forward(%x: tensor<?xf32, #train.dims<batch>> {train.role = "input", train.name = "x"},
                   %mask: tensor<?xf32, #train.dims<batch>> {train.role = "input", train.name = "mask"})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %0 = train.reduce sum %x axes = [0] : tensor<?xf32, #train.dims<batch>> -> tensor<f32>
  %1 = train.reduce sum %mask axes = [0] : tensor<?xf32, #train.dims<batch>> -> tensor<f32>
  %one = train.full 1.0 : f32 : tensor<f32>
  %2 = train.max %1, %one : tensor<f32>
  %3 = train.div %0, %2 : tensor<f32>
  return %3 : tensor<f32>
}

// -----

// Multiples of the number of rows need none.
// CHECK-LABEL: func.func @eval(
// CHECK-SAME: -> (tensor<f32> {train.loss_weight = "", train.name = "loss", train.role = "loss"})
// CHECK-NOT: @loss_weight
func.func @forward(%x: tensor<?x?xf32, #train.dims<batch, seq>> {train.role = "input", train.name = "x"})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %0 = train.reduce sum %x axes = [0, 1] : tensor<?x?xf32, #train.dims<batch, seq>> -> tensor<f32>
  %1 = train.dim <2*batch*seq> : tensor<f32>
  %2 = train.div %0, %1 : tensor<f32>
  return %2 : tensor<f32>
}

// -----

// Other sizes do.
// CHECK-LABEL: func.func @eval(
// CHECK: %[[LOSS:.*]] = train.div
// CHECK: %[[WEIGHT:.*]] = train.dim <batch - 1> : tensor<f32>
// CHECK: return %[[LOSS]], %[[WEIGHT]]
// REMARK: evaluations weight the losses of batches by batch - 1
func.func @forward(%x: tensor<?xf32, #train.dims<batch>> {train.role = "input", train.name = "x"})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %0 = train.reduce sum %x axes = [0] : tensor<?xf32, #train.dims<batch>> -> tensor<f32>
  %1 = train.dim <batch - 1> : tensor<f32>
  %2 = train.div %0, %1 : tensor<f32>
  return %2 : tensor<f32>
}

// -----

// A graph that holds its gradients is evaluated without them.
// CHECK-LABEL: func.func @forward(
// CHECK-SAME: train.role = "gradient"
// CHECK-LABEL: func.func @eval(
// CHECK-NOT: train.role = "gradient"
// CHECK-NOT: train.mul
// CHECK: return %{{[a-z0-9]+}} : tensor<f32>
func.func @forward(%w: tensor<f32> {train.role = "parameter", train.name = "w", train.trainable})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}, tensor<f32> {train.role = "gradient", train.name = "w"}) {
  %0 = train.exp %w : tensor<f32>
  %1 = train.mul %0, %w : tensor<f32>
  return %0, %1 : tensor<f32>, tensor<f32>
}
