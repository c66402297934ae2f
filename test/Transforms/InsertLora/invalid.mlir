// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: not trainc-opt %s --insert-lora="targets=gate" 2>&1 | FileCheck %s --check-prefix=NAMES
// RUN: not trainc-opt %s --insert-lora="rank=5" 2>&1 | FileCheck %s --check-prefix=RANK
// RUN: not trainc-opt %s --insert-lora="rank=0" 2>&1 | FileCheck %s --check-prefix=ZERO
// RUN: not trainc-opt %s --insert-lora="dropout=1" 2>&1 | FileCheck %s --check-prefix=DROPOUT
// RUN: not trainc-opt %s --insert-lora="rank=2 targets=(" 2>&1 | FileCheck %s --check-prefix=REGEX
// RUN: not trainc-opt %s --insert-lora="rank=2 bias=some" 2>&1 | FileCheck %s --check-prefix=BIAS
// RUN: not trainc-opt %s --insert-lora="rank=2" --insert-lora="rank=2" 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not trainc-opt %s --insert-lora="rank=2 rank-pattern=q" 2>&1 | FileCheck %s --check-prefix=PATTERN
// RUN: not trainc-opt %s --insert-lora="rank=2 rank-pattern=inf=q" 2>&1 | FileCheck %s --check-prefix=INFINITE
// RUN: not trainc-opt %s --insert-lora="rank=2 alpha=nan" 2>&1 | FileCheck %s --check-prefix=SCALE
// RUN: sed -e 's/4x8xf32>/4x?xf32, #train.dims<4, n>>/g' -e 's/6x8xf32>/6x?xf32, #train.dims<6, n>>/g' %s > %t.mlir
// RUN: not trainc-opt %t.mlir --insert-lora="rank=2 targets=q" 2>&1 | FileCheck %s --check-prefix=SIZE
// RUN: trainc-opt %s --insert-lora="rank=2 rank-pattern=1=gate alpha-pattern=1=0.q alpha-pattern=3=up save=norm" -o /dev/null 2>&1 | FileCheck %s --check-prefix=IDLE

// NAMES: error: insert-lora: no module's name matches 'gate'; there are 'layers.N.q'
// RANK: error: insert-lora: rank 5 is above the size of 'layers.0.q', 4 x 8
// ZERO: error: insert-lora: the rank must be at least 1, not 0
// DROPOUT: error: insert-lora: dropout must be in [0, 1)
// REGEX: error: insert-lora: '('
// BIAS: error: insert-lora: bias must be none, all or lora_only, not 'some'
// TWICE: error: insert-lora: the branches are there already
// PATTERN: error: insert-lora: expected NUMBER=EXPRESSION, got 'q'
// INFINITE: error: insert-lora: a rank must be a whole number above 0, not INF
// SCALE: error: insert-lora: 'layers.0.q' would have a branch of scale nan
// SIZE: error: insert-lora: 'layers.0.q' has no known size
// IDLE: warning: insert-lora: r[gate] matches no module that has a branch
// IDLE-NOT: alpha[0.q]
// IDLE: warning: insert-lora: alpha[up] matches no module that has a branch
// IDLE: warning: insert-lora: save='norm' matches no parameter that could be trained
func.func @forward(%q: tensor<4x8xf32> {train.role = "parameter", train.name = "layers.0.q.weight", train.trainable},
    %p: tensor<4x4xf32> {train.role = "parameter", train.name = "layers.1.q.weight", train.trainable},
    %x: tensor<6x8xf32> {train.role = "input", train.name = "x"}) -> (tensor<6x4xf32> {train.role = "output", train.name = "y"}) {
  %0 = train.matmul %x, %q transposed : tensor<6x8xf32>, tensor<4x8xf32> -> tensor<6x4xf32>
  %1 = train.matmul %0, %p transposed : tensor<6x4xf32>, tensor<4x4xf32> -> tensor<6x4xf32>
  return %1 : tensor<6x4xf32>
}
