// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --autodiff --split-input-file --verify-diagnostics

// expected-error@+1 {{expected the function @forward: legalize the model first}}
module {
}

// -----

// expected-error@+1 {{expected a result with train.role "loss"}}
func.func @forward(%w: tensor<f32> {train.role = "parameter", train.name = "w", train.trainable}) -> tensor<f32> {
  return %w : tensor<f32>
}

// -----

// expected-note@+2 {{the loss is argument 0 'w' of @forward, of type 'tensor<2xf32>'}}
// expected-error@+1 {{expected the loss to be a float scalar, got 'tensor<2xf32>'}}
func.func @forward(%w: tensor<2xf32> {train.role = "parameter", train.name = "w", train.trainable})
    -> (tensor<2xf32> {train.role = "loss"}) {
  return %w : tensor<2xf32>
}

// -----

// expected-error@+1 {{@gradients exists already}}
module {
  func.func @forward() {
    return
  }
  // expected-note@+1 {{it is here}}
  func.func @gradients() {
    return
  }
}

// -----

// An op without a derivative on the way: the error names op and node.
// expected-note@+1 {{the parameter is argument 0 'w' of @gradients, of type 'tensor<2xf32>'}}
func.func @forward(%w: tensor<2xf32> {train.role = "parameter", train.name = "w", train.trainable})
    -> (tensor<f32> {train.role = "loss"}) {
  // expected-error@unknown {{math.absf of node 'flatten_3' has no derivative, but the loss depends on a trainable parameter through it}}
  %0 = math.absf %w : tensor<2xf32> loc("flatten_3")
  %1 = train.reduce sum %0 axes = [0] : tensor<2xf32> -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

// expected-warning@+1 {{the loss depends on no trainable parameter: nothing will be trained}}
func.func @forward(%w: tensor<f32> {train.role = "parameter", train.name = "w"}) -> (tensor<f32> {train.role = "loss"}) {
  return %w : tensor<f32>
}

// -----

// expected-error@+1 {{expected one block}}
func.func @forward(%w: tensor<f32> {train.role = "parameter", train.name = "w", train.trainable}) -> (tensor<f32> {train.role = "loss"}) {
  cf.br ^end
^end:
  return %w : tensor<f32>
}
