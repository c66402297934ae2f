// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --rematerialize-weights | FileCheck %s
// RUN: trainc-opt %s --rematerialize-weights --cse | FileCheck %s
// RUN: trainc-opt %s --rematerialize-weights --rematerialize-weights | FileCheck %s
// RUN: trainc-opt %s --rematerialize-weights=only-marked | FileCheck %s --check-prefix=UNMARKED

// UNMARKED-NOT: train.barrier

// Each reader has numbers of its own, made where it is; the cast that has no fewer bytes than its source is kept, as is
// what depends on a trained parameter.
// CHECK: %[[TABLE:[a-z0-9]+]] = train.constant
// CHECK: %[[HALF:[0-9]+]] = train.cast %[[FROZEN:[a-z0-9]+]]
// CHECK: %[[OWN:[0-9]+]] = train.cast %[[TRAINED:[a-z0-9]+]]
// CHECK: %[[HERE:[0-9]+]] = train.barrier %[[CODES:[a-z0-9]+]]
// CHECK: %[[W:[0-9]+]] = train.dequantize %[[HERE]], %[[TABLE]],
// CHECK: train.matmul %{{.*}}, %[[W]] transposed
// CHECK: train.matmul %{{.*}}, %[[HALF]]
// CHECK: train.matmul %{{.*}}, %[[OWN]]
// CHECK: train.matmul %{{.*}}, %[[OWN]]
// CHECK: train.matmul %{{.*}}, %[[HALF]]
// CHECK: %[[AGAIN:[0-9]+]] = train.barrier %[[CODES]]
// CHECK: %[[W2:[0-9]+]] = train.dequantize %[[AGAIN]], %[[TABLE]],
// CHECK: train.matmul %{{.*}}, %[[W2]] :
func.func @step(%codes: tensor<32xi8> {train.role = "parameter", train.name = "w"},
    %scales: tensor<4xf32> {train.role = "parameter", train.name = "w.absmax"},
    %frozen: tensor<8x8xf32> {train.role = "parameter", train.name = "f"},
    %trained: tensor<8x8xbf16> {train.role = "parameter", train.name = "t", train.trainable},
    %x: tensor<4x8xf32> {train.role = "input", train.name = "x"}) -> (tensor<4x8xf32> {train.role = "loss", train.name = "y"}) {
  %table = train.constant dense<1.0> : tensor<16xf32>
  %w = train.dequantize %codes, %table, %scales block 16 : (tensor<32xi8>, tensor<16xf32>, tensor<4xf32>) -> tensor<8x8xf32>
  %half = train.cast %frozen : tensor<8x8xf32> -> tensor<8x8xbf16>
  %own = train.cast %trained : tensor<8x8xbf16> -> tensor<8x8xf32>
  %0 = train.matmul %x, %w transposed : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  %1 = train.cast %0 : tensor<4x8xf32> -> tensor<4x8xbf16>
  %2 = train.matmul %1, %half : tensor<4x8xbf16>, tensor<8x8xbf16> -> tensor<4x8xbf16>
  %3 = train.cast %2 : tensor<4x8xbf16> -> tensor<4x8xf32>
  %4 = train.matmul %3, %own : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  %5 = train.matmul %4, %own transposed : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  %6 = train.cast %5 : tensor<4x8xf32> -> tensor<4x8xbf16>
  %7 = train.matmul %6, %half transposed : tensor<4x8xbf16>, tensor<8x8xbf16> -> tensor<4x8xbf16>
  %8 = train.cast %7 : tensor<4x8xbf16> -> tensor<4x8xf32>
  %9 = train.matmul %8, %w : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  return %9 : tensor<4x8xf32>
}
