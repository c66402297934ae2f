// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products that the kernel's tiles do not fit.
// RUN: trainc-test-opt %s --split-input-file --test-codegen="target=cuda" --verify-diagnostics

func.func @f32(%x: tensor<8x64xf32>, %w: tensor<32x64xi8>) {
  %0 = train.fusion(%x, %w) : (tensor<8x64xf32>, tensor<32x64xi8>) -> tensor<8x32xf32> {
  ^bb0(%a: tensor<8x64xf32>, %b: tensor<32x64xi8>):
    %1 = train.cast %b : tensor<32x64xi8> -> tensor<32x64xf32>
    // expected-error @below {{has no kernel for numbers of type 'f32'}}
    %2 = train.matmul %a, %1 transposed streamed 8 : tensor<8x64xf32>, tensor<32x64xf32> -> tensor<8x32xf32>
    train.yield %2 : tensor<8x32xf32>
  }
  return
}

// -----

func.func @inner(%x: tensor<8x32xf16>, %w: tensor<32x32xi8>) {
  %0 = train.fusion(%x, %w) : (tensor<8x32xf16>, tensor<32x32xi8>) -> tensor<8x32xf16> {
  ^bb0(%a: tensor<8x32xf16>, %b: tensor<32x32xi8>):
    %1 = train.cast %b : tensor<32x32xi8> -> tensor<32x32xf16>
    // expected-error @below {{has no kernel for these sizes: 64 has to divide what is summed over, and 32 the columns}}
    %2 = train.matmul %a, %1 streamed 8 : tensor<8x32xf16>, tensor<32x32xf16> -> tensor<8x32xf16>
    train.yield %2 : tensor<8x32xf16>
  }
  return
}

// -----

func.func @rows(%x: tensor<65x64xf16>, %w: tensor<64x32xi8>) {
  %0 = train.fusion(%x, %w) : (tensor<65x64xf16>, tensor<64x32xi8>) -> tensor<65x32xf16> {
  ^bb0(%a: tensor<65x64xf16>, %b: tensor<64x32xi8>):
    %1 = train.cast %b : tensor<64x32xi8> -> tensor<64x32xf16>
    // expected-error @below {{has no kernel for more than 64 rows}}
    %2 = train.matmul %a, %1 streamed 65 : tensor<65x64xf16>, tensor<64x32xf16> -> tensor<65x32xf16>
    train.yield %2 : tensor<65x32xf16>
  }
  return
}

// -----

// expected-note@+1 {{the buffer is argument 0 of @small_floats}}
func.func @small_floats(%x: tensor<4xf8E4M3FN>) {
  // expected-error@below {{has a buffer of element type 'f8E4M3FN', which GPU kernels do not read or write}}
  %0 = train.fusion(%x) : (tensor<4xf8E4M3FN>) -> tensor<4xf8E4M3FN> {
  ^bb0(%a: tensor<4xf8E4M3FN>):
    %1 = train.exp %a : tensor<4xf8E4M3FN>
    train.yield %1 : tensor<4xf8E4M3FN>
  }
  return
}
