// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --split-input-file --form-eval --remarks-filter=form-eval --remark-format=emitRemark 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t

// A root of a mean is no mean.
// CHECK-LABEL: func.func @eval(
// CHECK-SAME: -> (tensor<f32> {train.name = "loss", train.role = "loss"})
// REMARK: Reason="train.sqrt makes it no quotient of two sums over rows"
// REMARK-SAME: evaluations weight the losses of batches by rows, which is not the loss of all rows at once
func.func @forward(%x: tensor<?xf32, #train.dims<batch>> {train.role = "input", train.name = "x"})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %0 = train.reduce sum %x axes = [0] : tensor<?xf32, #train.dims<batch>> -> tensor<f32>
  %1 = train.dim <batch> : tensor<f32>
  %2 = train.div %0, %1 : tensor<f32>
  %3 = train.sqrt %2 : tensor<f32>
  return %3 : tensor<f32>
}

// -----

// CHECK-LABEL: func.func @eval(
// REMARK: Reason="it is a sum over rows"{{.*}}Suggestion="export the loss as a mean (reduction='mean'), if it may be one"
func.func @forward(%x: tensor<?xf32, #train.dims<batch>> {train.role = "input", train.name = "x"})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %0 = train.reduce sum %x axes = [0] : tensor<?xf32, #train.dims<batch>> -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// CHECK-LABEL: func.func @eval(
// REMARK: Reason="it has a value for each row"{{.*}}Suggestion="export the mean of these values"
func.func @forward(%x: tensor<?xf32, #train.dims<batch>> {train.role = "input", train.name = "x"})
    -> (tensor<?xf32, #train.dims<batch>> {train.role = "loss", train.name = "loss"}) {
  return %x : tensor<?xf32, #train.dims<batch>>
}
