// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Scalars share kernels, but not where a call of all ranks would wait for a later one.
// RUN: trainc-opt %s --form-kernels | FileCheck %s

// CHECK: train.fusion
// CHECK: train.exp
// CHECK: train.all_reduce %{{.*}} {train.bucket = 0 : i64} : (tensor<f32>)
// CHECK-NEXT: train.all_reduce %{{.*}} {train.bucket = 1 : i64} : (tensor<f32>)
// CHECK: train.fusion
// CHECK: train.exp
// CHECK: train.all_reduce %{{.*}} {train.bucket = 2 : i64} : (tensor<f32>)
func.func @step(%x: tensor<f32> {train.role = "input", train.name = "x"}, %y: tensor<f32> {train.role = "input", train.name = "y"})
    -> (tensor<f32> {train.role = "output", train.name = "a"}, tensor<f32> {train.role = "output", train.name = "b"})
    attributes {train.in_step = "step"} {
  %0 = train.exp %x : tensor<f32>
  %1 = train.all_reduce %0 {train.bucket = 0 : i64} : (tensor<f32>) -> tensor<f32>
  %2 = train.all_reduce %y {train.bucket = 1 : i64} : (tensor<f32>) -> tensor<f32>
  %3 = train.exp %2 : tensor<f32>
  %4 = train.all_reduce %3 {train.bucket = 2 : i64} : (tensor<f32>) -> tensor<f32>
  return %1, %4 : tensor<f32>, tensor<f32>
}
