// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: split-file %s %t
// RUN: trainc-test-opt %t/loss.mlir --form-eval --autodiff --attach-optimizer=kind=sgd --form-steps --test-evaluate --mlir-disable-threading -o /dev/null | FileCheck %s
// RUN: trainc-test-opt %t/gradient.mlir --autodiff --attach-optimizer=kind=sgd --form-steps --test-evaluate --mlir-disable-threading -o /dev/null | FileCheck %s --check-prefix=PART
// RUN: trainc-test-opt %t/gradient.mlir --autodiff --attach-optimizer="kind=sgd clip" --form-steps --test-evaluate --mlir-disable-threading -o /dev/null | FileCheck %s --check-prefix=CLIP

// The argument nonfinite is 0 and lr is 0.5 (the evaluator's filling). The loss of an infinite weight is not finite: the flag is set,
// and weights and accumulators stay what they were.
// CHECK-LABEL: @step
// CHECK-NEXT: []: inf
// CHECK-NEXT: [2]: 2 inf
// CHECK-NEXT: []: 1
// CHECK-LABEL: @micro
// CHECK-NEXT: []: inf
// CHECK-NEXT: [2]: 0.5 -1
// CHECK-NEXT: []: 1
// @update alone, flag not set: w - lr * (g + weight_decay * w).
// CHECK-LABEL: @update
// CHECK-NEXT: [2]: 1.25
// CHECK-LABEL: @eval
// CHECK-NEXT: []: inf

//--- loss.mlir
func.func @forward(%w: tensor<2xf32> {train.role = "parameter", train.name = "w", train.trainable,
                                      testdialect.value = dense<[2.0, 0x7F800000]> : tensor<2xf32>})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %0 = train.reduce sum %w axes = [0] : tensor<2xf32> -> tensor<f32>
  return %0 : tensor<f32>
}

// The derivative of a square root at 0 is infinite, the loss is not. The element stays what it is, others are updated: the
// evaluator has no runtime to tell. A weight that never was finite stays so.
// PART-LABEL: @step
// PART-NEXT: []: 2
// PART-NEXT: [3]: 0 2.9375 -inf
// PART-NEXT: []: 0
// Sums stay in sight.
// PART-LABEL: @micro
// PART-NEXT: []: 2
// PART-NEXT: [3]: inf -0.875 nan
// PART-NEXT: []: 0
// With clipping the norm is known before any update.
// CLIP-LABEL: @step
// CLIP-NEXT: []: 2
// CLIP-NEXT: []: nan
// CLIP-NEXT: [3]: 0 4 -inf
// CLIP-NEXT: []: 1

//--- gradient.mlir
func.func @forward(%w: tensor<3xf32> {train.role = "parameter", train.name = "w", train.trainable,
                                      testdialect.value = dense<[0.0, 4.0, 0xFF800000]> : tensor<3xf32>},
                   %m: tensor<3xi1> {train.role = "input", train.name = "m", testdialect.value = dense<[true, true, false]> : tensor<3xi1>})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %1 = train.sqrt %w : tensor<3xf32>
  %2 = train.full 0.0 : f32 : tensor<3xf32>
  %3 = train.select %m, %1, %2 : tensor<3xi1>, tensor<3xf32>
  %0 = train.reduce sum %3 axes = [0] : tensor<3xf32> -> tensor<f32>
  return %0 : tensor<f32>
}
