// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --rematerialize-weights --remarks-filter=rematerialize-weights --remark-format=emitRemark 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t

// A copy of a narrower type is made once; what is trained, or made of activations, is no frozen weight.
// CHECK-LABEL: func.func @step
// CHECK-NOT: train.barrier
// REMARK: NotCopied{{.*}}it takes no more memory than the parameters that it is made of{{.*}}train.cast is made once
// REMARK-NOT: NotCopied
func.func @step(%frozen: tensor<8x8xf32> {train.role = "parameter", train.name = "f"},
    %trained: tensor<8x8xbf16> {train.role = "parameter", train.name = "t", train.trainable},
    %x: tensor<4x8xbf16> {train.role = "input", train.name = "x"}) -> (tensor<4x8xf32> {train.role = "loss", train.name = "y"}) {
  %half = train.cast %frozen : tensor<8x8xf32> -> tensor<8x8xbf16>
  %own = train.cast %trained : tensor<8x8xbf16> -> tensor<8x8xf32>
  %0 = train.matmul %x, %half : tensor<4x8xbf16>, tensor<8x8xbf16> -> tensor<4x8xbf16>
  %1 = train.matmul %0, %half transposed : tensor<4x8xbf16>, tensor<8x8xbf16> -> tensor<4x8xbf16>
  %2 = train.cast %1 : tensor<4x8xbf16> -> tensor<4x8xf32>
  %3 = train.matmul %2, %own : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  %4 = train.matmul %3, %own transposed : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  return %4 : tensor<4x8xf32>
}
