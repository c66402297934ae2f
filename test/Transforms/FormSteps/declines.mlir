// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --form-steps | FileCheck %s

// A model that is not trained has no step, and the evaluation is as it was.
// CHECK-NOT: @step
// CHECK-NOT: @micro
// CHECK-LABEL: func.func @eval
// CHECK-NEXT: %[[Y:.*]] = train.exp %arg0
// CHECK-NEXT: return %[[Y]]
// CHECK-NOT: @step
// CHECK-NOT: @micro
func.func @forward(%x: tensor<2xf32> {train.role = "input", train.name = "x"}) -> (tensor<2xf32> {train.role = "output", train.name = "y"}) {
  %0 = train.exp %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func @eval(%x: tensor<2xf32> {train.role = "input", train.name = "x"}) -> (tensor<2xf32> {train.role = "output", train.name = "y"}) {
  %0 = train.exp %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}
