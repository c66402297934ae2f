// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-test-opt %s --autodiff --test-evaluate --mlir-disable-threading -o /dev/null | FileCheck %s
// RUN: trainc-test-opt %s --autodiff --decompose --test-evaluate --mlir-disable-threading -o /dev/null | FileCheck %s

// Row 0 is masked by -inf: a guarded softmax gives zeros and zero gradients, although a NaN cotangent comes from behind
// (0 times x[0][0]). Row 1 is masked by the type's minimum: uniform, and its gradient is that of a uniform row. (grad_scale is 0.5.)
// CHECK-LABEL: @gradients
// CHECK-NEXT: []: 1.75
// CHECK-NEXT: [3, 2]: 0 0 0 0 -0.0625 0.0625
func.func @forward(%w: tensor<3x2xf32> {train.role = "parameter", train.name = "w", train.trainable,
                       testdialect.value = dense<[[0xFF800000, 0xFF800000], [-3.4028235e38, -3.4028235e38], [1.0, 1.0]]> : tensor<3x2xf32>},
                   %x: tensor<3x2xf32> {train.role = "input", train.name = "x",
                       testdialect.value = dense<[[0x7F800000, 1.0], [1.0, 1.0], [0.5, 1.0]]> : tensor<3x2xf32>})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %0 = train.softmax %w axis = 1 guarded : tensor<3x2xf32>
  %zero = train.full 0.0 : f32 : tensor<3x2xf32>
  %live = train.compare gt %0, %zero : tensor<3x2xf32> -> tensor<3x2xi1>
  %1 = train.mul %0, %x : tensor<3x2xf32>
  %2 = train.select %live, %1, %zero : tensor<3x2xi1>, tensor<3x2xf32>
  %3 = train.reduce sum %2 axes = [0, 1] : tensor<3x2xf32> -> tensor<f32>
  return %3 : tensor<f32>
}
