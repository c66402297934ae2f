// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --split-input-file --verify-graph --verify-diagnostics -o /dev/null

func.func @eval() { return }
func.func @step(%w: tensor<f32> {train.role = "parameter", train.name = "w"})
    -> (tensor<f32> {train.role = "update", train.updates = "parameter", train.name = "w"}) {
  %0 = train.exp %w : tensor<f32>
  return %0 : tensor<f32>
}
func.func @step.packed() attributes {train.variant_of = "step"} { return }
func.func @micro() { return }
func.func @update() { return }

// -----

// expected-error @below {{after the phase 'graph' there is a function @eval, and here is none}}
module {
  func.func @step() { return }
}

// -----

// expected-error @below {{after the phase 'graph' @micro and @update come with each other and with @step}}
module {
  func.func @eval() { return }
  func.func @step() { return }
  func.func @micro() { return }
}

// -----

func.func @eval() { return }
// expected-error @below {{after the phase 'graph' a function is @step, @absent_step, @micro, @absent, @update, @derive, @loss_weight, @eval or a variant of one, not @forward}}
func.func @forward() { return }

// -----

func.func @eval() { return }
// expected-error @below {{after the phase 'graph' @step.packed is a variant of @step, which is not there}}
func.func @step.packed() attributes {train.variant_of = "step"} { return }

// -----

// expected-error @below {{after the phase 'graph' what is updated is an argument, but @eval has no state 'w'}}
func.func @eval(%w: tensor<f32> {train.role = "parameter", train.name = "w"})
    -> (tensor<f32> {train.role = "update", train.updates = "state", train.name = "w"}) {
  return %w : tensor<f32>
}

// -----

// expected-error @below {{after the phase 'graph' result 0 of @eval is one of loss, output, update, not 'verdict'}}
func.func @eval(%w: tensor<f32> {train.role = "parameter", train.name = "w"}) -> (tensor<f32> {train.role = "verdict", train.name = "w"}) {
  return %w : tensor<f32>
}

// -----

func.func @eval(%x: tensor<2xf32> {train.role = "input", train.name = "x"})
    -> (tensor<2xf32> {train.role = "output", train.name = "y"}) {
  // expected-error @below {{after the phase 'graph' there is no place for the op 'train.fusion': it leaves train.symbol and functions of ops of the train dialect}}
  %0 = train.fusion(%x) : (tensor<2xf32>) -> tensor<2xf32> {
  ^bb0(%arg0: tensor<2xf32>):
    %1 = train.exp %arg0 : tensor<2xf32>
    train.yield %1 : tensor<2xf32>
  }
  return %0 : tensor<2xf32>
}
