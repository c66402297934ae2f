// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --keep-rounded-weights | FileCheck %s

// A frozen weight, one whose cast is part of a kernel, one that is widened, some rows of one, and a large one with rows behind it.
// CHECK-NOT: derived
// CHECK-NOT: @derive
func.func @step(%frozen: tensor<8x8xf32> {train.role = "parameter", train.name = "f"},
    %scale: tensor<4x8xf32> {train.role = "parameter", train.name = "s", train.trainable},
    %narrow: tensor<8x8xbf16> {train.role = "parameter", train.name = "n", train.trainable},
    %cut: tensor<9x8xf32> {train.role = "parameter", train.name = "c", train.trainable},
    %table: tensor<70000x8xf32> {train.role = "parameter", train.name = "t", train.trainable},
    %x: tensor<4x8xbf16> {train.role = "input", train.name = "x"})
    -> (tensor<4x8xf32> {train.role = "output", train.name = "y"},
        tensor<4x70008xbf16> {train.role = "output", train.name = "logits"},
        tensor<4x8xf32> {train.role = "update", train.updates = "parameter", train.name = "s"},
        tensor<8x8xbf16> {train.role = "update", train.updates = "parameter", train.name = "n"},
        tensor<9x8xf32> {train.role = "update", train.updates = "parameter", train.name = "c"},
        tensor<70000x8xf32> {train.role = "update", train.updates = "parameter", train.name = "t"}) {
  %f = train.cast %frozen : tensor<8x8xf32> -> tensor<8x8xbf16>
  %s = train.cast %scale : tensor<4x8xf32> -> tensor<4x8xbf16>
  %n = train.cast %narrow : tensor<8x8xbf16> -> tensor<8x8xf32>
  %0 = train.matmul %x, %f : tensor<4x8xbf16>, tensor<8x8xbf16> -> tensor<4x8xbf16>
  %1 = train.mul %0, %s : tensor<4x8xbf16>
  %2 = train.cast %1 : tensor<4x8xbf16> -> tensor<4x8xf32>
  %3 = train.matmul %2, %n : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  %c = train.cast %cut : tensor<9x8xf32> -> tensor<9x8xbf16>
  %c0 = train.pad %c value = 0.0 : bf16 low = <0, 0> : tensor<9x8xbf16> -> tensor<8x8xbf16>
  %4 = train.matmul %1, %c0 : tensor<4x8xbf16>, tensor<8x8xbf16> -> tensor<4x8xbf16>
  %5 = train.cast %4 : tensor<4x8xbf16> -> tensor<4x8xf32>
  %6 = train.add %3, %5 : tensor<4x8xf32>
  %ns = train.add %scale, %scale : tensor<4x8xf32>
  %nn = train.add %narrow, %narrow : tensor<8x8xbf16>
  %t = train.cast %table : tensor<70000x8xf32> -> tensor<70000x8xbf16>
  %t0 = train.pad %t value = 0.0 : bf16 low = <0, 0> : tensor<70000x8xbf16> -> tensor<70008x8xbf16>
  %7 = train.matmul %x, %t0 transposed : tensor<4x8xbf16>, tensor<70008x8xbf16> -> tensor<4x70008xbf16>
  %nt = train.add %table, %table : tensor<70000x8xf32>
  %nc = train.add %cut, %cut : tensor<9x8xf32>
  return %6, %7, %ns, %nn, %nc, %nt : tensor<4x8xf32>, tensor<4x70008xbf16>, tensor<4x8xf32>, tensor<8x8xbf16>, tensor<9x8xf32>, tensor<70000x8xf32>
}
