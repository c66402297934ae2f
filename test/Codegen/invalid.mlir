// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What no template takes.
// RUN: trainc-test-opt %s --split-input-file --test-codegen --verify-diagnostics

func.func @two_axes(%x: tensor<4x8xf32>) {
  %0:2 = train.fusion(%x) : (tensor<4x8xf32>) -> (tensor<4xf32>, tensor<8xf32>) {
  ^bb0(%a: tensor<4x8xf32>):
    // expected-note@+1 {{the first reduction is here}}
    %1 = train.reduce sum %a axes = [1] : tensor<4x8xf32> -> tensor<4xf32>
    // expected-error @below {{reduces other axes than the first reduction of its kernel}}
    %2 = train.reduce sum %a axes = [0] : tensor<4x8xf32> -> tensor<8xf32>
    train.yield %1, %2 : tensor<4xf32>, tensor<8xf32>
  }
  return
}

// -----

func.func @two_spaces(%x: tensor<4xf32>, %y: tensor<8xf32>) {
  %0:2 = train.fusion(%x, %y) : (tensor<4xf32>, tensor<8xf32>) -> (tensor<4xf32>, tensor<8xf32>) {
  ^bb0(%a: tensor<4xf32>, %b: tensor<8xf32>):
    %1 = train.exp %a : tensor<4xf32>
    // expected-note@+1 {{the result is the result of train.exp, of type 'tensor<8xf32>'}}
    %2 = train.exp %b : tensor<8xf32>
    // expected-error @below {{result 1 of shape [8] belongs neither to the kernel's space [4] nor to its kept axes}}
    train.yield %1, %2 : tensor<4xf32>, tensor<8xf32>
  }
  return
}

// -----

func.func @elsewhere(%x: tensor<8x8xf32>) {
  %0 = train.fusion(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32> {
  ^bb0(%a: tensor<8x8xf32>):
    // expected-error @below {{is read at another position than its own in the kernel}}
    %1 = train.reduce sum %a axes = [1] : tensor<8x8xf32> -> tensor<8xf32>
    %2 = train.broadcast %1 axes = [1] : tensor<8xf32> -> tensor<8x8xf32>
    train.yield %2 : tensor<8x8xf32>
  }
  return
}

// -----

// Rows that do not meet are stored where they belong, which may be an element that was stored before.
func.func @unique_scatter(%i: tensor<4xi64>, %u: tensor<4x8xf32>) {
  %0 = train.fusion(%i, %u) : (tensor<4xi64>, tensor<4x8xf32>) -> tensor<6x8xf32> {
  ^bb0(%a: tensor<4xi64>, %b: tensor<4x8xf32>):
    // expected-error @below {{must be the only result of its kernel}}
    %1 = train.scatter_add %a, %b axis = 0 unique : tensor<4xi64>, tensor<4x8xf32> -> tensor<6x8xf32>
    %2 = train.exp %1 : tensor<6x8xf32>
    // expected-note@+1 {{the kernel's results are of 'tensor<6x8xf32>'}}
    train.yield %2 : tensor<6x8xf32>
  }
  return
}

// -----

func.func @transposed_scatter(%i: tensor<4xi64>, %u: tensor<4x8xf32>) {
  %0 = train.fusion(%i, %u) : (tensor<4xi64>, tensor<4x8xf32>) -> tensor<8x8xf32> {
  ^bb0(%a: tensor<4xi64>, %b: tensor<4x8xf32>):
    // expected-error @below {{cannot be part of a kernel}}
    %1 = train.scatter_add %a, %b axis = 0 : tensor<4xi64>, tensor<4x8xf32> -> tensor<8x8xf32>
    %2 = train.transpose %1 permutation = [1, 0] : tensor<8x8xf32> -> tensor<8x8xf32>
    train.yield %2 : tensor<8x8xf32>
  }
  return
}

// -----

func.func @streamed(%x: tensor<8x64xf32>, %w: tensor<32x64xi8>) {
  %0 = train.fusion(%x, %w) : (tensor<8x64xf32>, tensor<32x64xi8>) -> tensor<8x32xf32> { // expected-error {{is a streamed matmul, which only GPUs have}}
  ^bb0(%a: tensor<8x64xf32>, %b: tensor<32x64xi8>):
    %1 = train.cast %b : tensor<32x64xi8> -> tensor<32x64xf32>
    %2 = train.matmul %a, %1 transposed streamed 8 : tensor<8x64xf32>, tensor<32x64xf32> -> tensor<8x32xf32>
    train.yield %2 : tensor<8x32xf32>
  }
  return
}

// -----

func.func @two_scatters(%i: tensor<4xi64>, %u: tensor<4x8xf32>) {
  %0:2 = train.fusion(%i, %u) : (tensor<4xi64>, tensor<4x8xf32>) -> (tensor<6x8xf32>, tensor<6x8xf32>) {
  ^bb0(%a: tensor<4xi64>, %b: tensor<4x8xf32>):
    // expected-note@+1 {{the other one is here}}
    %1 = train.scatter_add %a, %b axis = 0 : tensor<4xi64>, tensor<4x8xf32> -> tensor<6x8xf32>
    // expected-error@+1 {{shares a kernel with another scatter, scan or matmul}}
    %2 = train.scatter_add %a, %b axis = 0 : tensor<4xi64>, tensor<4x8xf32> -> tensor<6x8xf32>
    train.yield %1, %2 : tensor<6x8xf32>, tensor<6x8xf32>
  }
  return
}

// -----

func.func @sum_beside_scatter(%i: tensor<4xi64>, %u: tensor<4x8xf32>) {
  %0:2 = train.fusion(%i, %u) : (tensor<4xi64>, tensor<4x8xf32>) -> (tensor<6x8xf32>, tensor<4xf32>) {
  ^bb0(%a: tensor<4xi64>, %b: tensor<4x8xf32>):
    // expected-note@+1 {{which is here: train.scatter_add}}
    %1 = train.scatter_add %a, %b axis = 0 : tensor<4xi64>, tensor<4x8xf32> -> tensor<6x8xf32>
    // expected-error@+1 {{shares a kernel with a scatter, scan or matmul}}
    %2 = train.reduce sum %b axes = [1] : tensor<4x8xf32> -> tensor<4xf32>
    train.yield %1, %2 : tensor<6x8xf32>, tensor<4xf32>
  }
  return
}

// -----

func.func @no_axis(%x: tensor<4x8xf32>) {
  %0 = train.fusion(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%a: tensor<4x8xf32>):
    // expected-error@+1 {{reduces no axis}}
    %1 = train.reduce sum %a axes = [] : tensor<4x8xf32> -> tensor<4x8xf32>
    train.yield %1 : tensor<4x8xf32>
  }
  return
}

// -----

// expected-note@+1 {{the buffer is argument 0 of @small_floats}}
func.func @small_floats(%x: tensor<4xf8E4M3FN>) {
  // expected-error@below {{has a buffer of element type 'f8E4M3FN', which CPU kernels do not read or write}}
  %0 = train.fusion(%x) : (tensor<4xf8E4M3FN>) -> tensor<4xf8E4M3FN> {
  ^bb0(%a: tensor<4xf8E4M3FN>):
    %1 = train.exp %a : tensor<4xf8E4M3FN>
    train.yield %1 : tensor<4xf8E4M3FN>
  }
  return
}

// -----

func.func @table(%x: tensor<4xf32>) {
  %0 = train.fusion(%x) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    // expected-error@+1 {{cannot be computed inside a kernel}}
    %1 = train.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
    %2 = train.add %a, %1 : tensor<4xf32>
    train.yield %2 : tensor<4xf32>
  }
  return
}
