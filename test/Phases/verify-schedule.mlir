// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --split-input-file --verify-schedule --verify-diagnostics -o /dev/null

// A kernel, a library call, a view, a constant.
func.func @eval(%x: tensor<2x2xf32> {train.role = "input", train.name = "x"})
    -> (tensor<4xf32> {train.role = "output", train.name = "y"}) {
  %0 = train.constant dense<[[0.0, 1.0], [2.0, 3.0]]> : tensor<2x2xf32>
  %1 = train.fusion(%x) : (tensor<2x2xf32>) -> tensor<2x2xf32> {
  ^bb0(%arg0: tensor<2x2xf32>):
    %1 = train.exp %arg0 : tensor<2x2xf32>
    train.yield %1 : tensor<2x2xf32>
  }
  %2 = train.matmul %0, %1 : tensor<2x2xf32>, tensor<2x2xf32> -> tensor<2x2xf32>
  %3 = train.reshape %2 : tensor<2x2xf32> -> tensor<4xf32>
  return %3 : tensor<4xf32>
}

// -----

func.func @eval(%x: tensor<2xf32> {train.role = "input", train.name = "x"})
    -> (tensor<2xf32> {train.role = "output", train.name = "y"}) {
  // expected-error @below {{after the phase 'schedule' there is no place for the op 'train.exp': it leaves kernels (train.fusion), library calls, views and constants}}
  %0 = train.exp %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

func.func @eval(%x: tensor<2x4xf32> {train.role = "input", train.name = "x"})
    -> (tensor<2x4xf32> {train.role = "output", train.name = "y"}) {
  // expected-error @below {{after the phase 'schedule' there is no place for the op 'train.softmax'}}
  %0 = train.softmax %x axis = 1 : tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// -----

// expected-error @below {{after the phase 'schedule' there is no place for the op 'plan.function'}}
plan.function @eval {
}

// -----

func.func @eval() {
  return
}
func.func @absent() attributes {train.in_step = "micro"} {
  return
}
func.func @step() {
  return
}
func.func @update() {
  return
}
// expected-error @below {{after the phase 'schedule' ranks that run @micro and @absent at once make equal calls to each other}}
func.func @micro(%x: tensor<4xf32> {train.role = "gradient", train.name = "x"})
    -> (tensor<4xf32> {train.role = "update", train.updates = "gradient", train.name = "x"}) attributes {train.in_step = "micro"} {
  %0 = train.all_reduce %x : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Evaluations are compared with each other alone.
func.func @eval(%x: tensor<4xf32> {train.role = "input", train.name = "x"})
    -> (tensor<4xf32> {train.role = "output", train.name = "y"}) attributes {train.in_step = "eval"} {
  %0 = train.all_reduce %x : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @step() {
  return
}
func.func @update() {
  return
}
func.func @micro() attributes {train.in_step = "micro"} {
  return
}
// expected-error @below {{after the phase 'schedule' ranks that run @eval.packed and @eval at once make equal calls to each other}}
func.func @eval.packed() attributes {train.in_step = "eval", train.variant_of = "eval"} {
  return
}
