// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --pass-pipeline='builtin.module(decompose,func.func(form-kernels))' | FileCheck %s

// Scalars share kernels, also unrelated ones, so a kernel that others have read may get an op that comes after
// these: what follows from the loss must not join the kernel of the casts before it.
// CHECK-LABEL: func.func @step
// CHECK: %[[CASTS:.*]]:{{[0-9]+}} = train.fusion(
// CHECK-NOT: train.is_nan
// CHECK: %[[LOSS:.*]] = train.fusion(%{{.*}}) : (tensor<3x4x5xf64>{{.*}}) -> tensor<f64>
// CHECK: train.fusion({{.*}}%[[LOSS]]
// CHECK: train.is_nan
// CHECK: return %[[LOSS]]
func.func @step(%x: tensor<3x4x5xf64> {train.name = "x", train.role = "parameter", train.trainable},
                %w: tensor<3x4x5xf64> {train.name = "w", train.role = "parameter"},
                %bad: tensor<i32> {train.name = "nonfinite", train.role = "state"},
                %scale: tensor<f32> {train.name = "grad_scale", train.role = "hyper"},
                %lr: tensor<f32> {train.name = "lr", train.role = "hyper"},
                %decay: tensor<f32> {train.name = "weight_decay", train.role = "hyper"},
                %at: tensor<i64> {train.name = "step", train.role = "hyper"})
    -> (tensor<f64> {train.name = "loss", train.role = "loss"},
        tensor<3x4x5xf64> {train.name = "x", train.role = "update", train.updates = "parameter"},
        tensor<i32> {train.name = "nonfinite", train.role = "update", train.updates = "state"}) {
  %0 = train.softmax %x axis = 0 : tensor<3x4x5xf64>
  %1 = train.mul %0, %w : tensor<3x4x5xf64>
  %2 = train.reduce sum %1 axes = [0, 1, 2] : tensor<3x4x5xf64> -> tensor<f64>
  %3 = train.cast %scale : tensor<f32> -> tensor<f64>
  %4 = train.broadcast %3 axes = [] : tensor<f64> -> tensor<3x4x5xf64>
  %5 = train.mul %4, %w : tensor<3x4x5xf64>
  %6 = train.mul %5, %0 : tensor<3x4x5xf64>
  %7 = train.reduce sum %6 axes = [0] : tensor<3x4x5xf64> -> tensor<4x5xf64>
  %8 = train.broadcast %7 axes = [1, 2] : tensor<4x5xf64> -> tensor<3x4x5xf64>
  %9 = train.sub %5, %8 : tensor<3x4x5xf64>
  %10 = train.mul %0, %9 : tensor<3x4x5xf64>
  %11 = train.is_nan %2 : tensor<f64> -> tensor<i1>
  %12 = train.is_inf %2 : tensor<f64> -> tensor<i1>
  %13 = train.or %11, %12 : tensor<i1>
  %14 = train.full 1 : i32 : tensor<i32>
  %15 = train.select %13, %14, %bad : tensor<i1>, tensor<i32>
  %16 = train.sgd %x, %10, %lr, %decay, %at {momentum = 0.0 : f64} : (tensor<3x4x5xf64>, tensor<3x4x5xf64>, tensor<f32>, tensor<f32>, tensor<i64>) -> tensor<3x4x5xf64>
  %17 = train.full 0 : i32 : tensor<i32>
  %18 = train.compare ne %15, %17 : tensor<i32> -> tensor<i1>
  %19 = train.broadcast %18 axes = [] : tensor<i1> -> tensor<3x4x5xi1>
  %20 = train.select %19, %x, %16 : tensor<3x4x5xi1>, tensor<3x4x5xf64>
  return %2, %20, %15 : tensor<f64>, tensor<3x4x5xf64>, tensor<i32>
}

// Each update reads what the other one replaces: only one of them can wait for the other.
// CHECK-LABEL: func.func @each_waits_for_the_other(
// CHECK: %[[Q:.*]] = train.fusion({{.*}}) : (tensor<8xf32>, tensor<4xf32>) -> tensor<8xf32>
// CHECK: %[[P:.*]] = train.fusion({{.*}}) : (tensor<4xf32>, tensor<8xf32>) -> tensor<4xf32>
// CHECK: return %[[P]], %[[Q]]
func.func @each_waits_for_the_other(
    %p: tensor<4xf32> {train.role = "parameter", train.name = "p"},
    %q: tensor<8xf32> {train.role = "parameter", train.name = "q"})
    -> (tensor<4xf32> {train.role = "update", train.updates = "parameter", train.name = "p"},
        tensor<8xf32> {train.role = "update", train.updates = "parameter", train.name = "q"}) {
  %0 = train.slice %q starts = <0> steps = [1] : tensor<8xf32> -> tensor<4xf32>
  %1 = train.add %p, %0 : tensor<4xf32>
  %2 = train.concat %p, %p axis = 0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  %3 = train.mul %q, %2 : tensor<8xf32>
  return %1, %3 : tensor<4xf32>, tensor<8xf32>
}
