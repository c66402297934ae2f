// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --keep-rounded-weights | FileCheck %s

// A frozen weight, one whose cast is part of a kernel, and one that is widened.
// CHECK-NOT: derived
// CHECK-NOT: @derive
func.func @step(%frozen: tensor<8x8xf32> {train.role = "parameter", train.name = "f"},
    %scale: tensor<4x8xf32> {train.role = "parameter", train.name = "s", train.trainable},
    %narrow: tensor<8x8xbf16> {train.role = "parameter", train.name = "n", train.trainable},
    %x: tensor<4x8xbf16> {train.role = "input", train.name = "x"})
    -> (tensor<4x8xf32> {train.role = "output", train.name = "y"},
        tensor<4x8xf32> {train.role = "update", train.updates = "parameter", train.name = "s"},
        tensor<8x8xbf16> {train.role = "update", train.updates = "parameter", train.name = "n"}) {
  %f = train.cast %frozen : tensor<8x8xf32> -> tensor<8x8xbf16>
  %s = train.cast %scale : tensor<4x8xf32> -> tensor<4x8xbf16>
  %n = train.cast %narrow : tensor<8x8xbf16> -> tensor<8x8xf32>
  %0 = train.matmul %x, %f : tensor<4x8xbf16>, tensor<8x8xbf16> -> tensor<4x8xbf16>
  %1 = train.mul %0, %s : tensor<4x8xbf16>
  %2 = train.cast %1 : tensor<4x8xbf16> -> tensor<4x8xf32>
  %3 = train.matmul %2, %n : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  %ns = train.add %scale, %scale : tensor<4x8xf32>
  %nn = train.add %narrow, %narrow : tensor<8x8xbf16>
  return %3, %ns, %nn : tensor<4x8xf32>, tensor<4x8xf32>, tensor<8x8xbf16>
}
