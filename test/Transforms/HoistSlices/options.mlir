// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --hoist-slices | FileCheck %s --check-prefix=DEFAULT
// RUN: trainc-opt %s --hoist-slices="min-ratio=4" | FileCheck %s --check-prefix=RATIO

// DEFAULT-LABEL: func.func @half
// DEFAULT: train.slice
// DEFAULT: train.exp
// RATIO-LABEL: func.func @half
// RATIO: train.exp
// RATIO: train.slice
func.func @half(%x: tensor<8xf32>) -> tensor<4xf32> {
  %0 = train.exp %x : tensor<8xf32>
  %1 = train.slice %0 starts = <0> steps = [1] : tensor<8xf32> -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
