// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-test-opt %s --form-eval --autodiff --attach-optimizer=kind=sgd --form-steps --test-evaluate --mlir-disable-threading -o /dev/null | FileCheck %s

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
func.func @forward(%w: tensor<2xf32> {train.role = "parameter", train.name = "w", train.trainable,
                                      testdialect.value = dense<[2.0, 0x7F800000]> : tensor<2xf32>})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %0 = train.reduce sum %w axes = [0] : tensor<2xf32> -> tensor<f32>
  return %0 : tensor<f32>
}
