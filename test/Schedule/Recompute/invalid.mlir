// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: not trainc-opt %s --recompute="config=gelu:1:-1" 2>&1 | FileCheck %s --check-prefix=PLUS
// RUN: not trainc-opt %s --recompute="config=gelu+:1:-1,add+mul+:3:-1" 2>&1 | FileCheck %s --check-prefix=KIND
// RUN: not trainc-opt %s --recompute="config=gelu+:1:x" 2>&1 | FileCheck %s --check-prefix=NUMBER
// RUN: not trainc-opt %s --recompute="config=gelu+:1" 2>&1 | FileCheck %s --check-prefix=FIELDS
// RUN: not trainc-opt %s --recompute="config=gelu+:1:-1," 2>&1 | FileCheck %s --check-prefix=COMMA
// RUN: not trainc-opt %s --recompute="config=level:3" 2>&1 | FileCheck %s --check-prefix=LEVEL
// RUN: not trainc-opt %s --recompute="config=Reshape+:1:-1" 2>&1 | FileCheck %s --check-prefix=MOVES
// RUN: not trainc-opt %s --recompute="config=gulu+:1:-1" 2>&1 | FileCheck %s --check-prefix=NEAREST
// RUN: not trainc-opt %s --recompute="config=Erf+:1:-1" 2>&1 | FileCheck %s --check-prefix=RAISED
// RUN: not trainc-opt %s --recompute="config=gelu+:2:-1" 2>&1 | FileCheck %s --check-prefix=CAST
// RUN: not trainc-opt %s --recompute="config=gelu++:1:-1" 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: trainc-opt %s --recompute="config=level:1" 2>&1 | FileCheck %s --check-prefix=LAYERS

// PLUS: error: recompute: position 1: every op of a pattern is followed by '+', as in add+gelu+, got 'gelu'
// KIND: error: recompute: position 21: expected the type 0 (nothing), 1 (recompute) or 2 (recompute with compromise), got '3'
// NUMBER: error: recompute: position 9: expected a count of at least 0, or -1 for all, got 'x'
// FIELDS: error: recompute: position 1: expected PATTERN:TYPE:COUNT, such as gelu+:1:-1, or level:N, got 'gelu+:1'
// NAME: error: recompute: position 6: expected the name of an op, got ''
// COMMA: error: recompute: position 11: nothing follows the comma
// LEVEL: error: recompute: position 7: expected level 0, 1 or 2, got '3'
// MOVES: error: recompute: position 1: 'Reshape+' only moves elements, which is never kept
// NEAREST: error: recompute: no opportunity is 'gulu+': the model has no gulu (is gelu meant?); nearest: add+gelu+
// RAISED: error: recompute: no opportunity is 'Erf+': the model has no erf of its own, which is part of gelu here; nearest: add+gelu+
// CAST: error: recompute: no opportunity is 'gelu+' with a widening cast, which type 2 needs; nearest: add+gelu+
// LAYERS: warning: recompute: found no layers

func.func @step(%w: tensor<8xf32> {train.name = "w", train.role = "parameter", train.trainable},
                %x: tensor<8xf32> {train.name = "x", train.role = "input"})
    -> (tensor<f32> {train.name = "loss", train.role = "loss"},
        tensor<8xf32> {train.name = "w", train.role = "gradient"}) {
  %0 = train.add %x, %w : tensor<8xf32>
  %1 = train.gelu %0 : tensor<8xf32>
  %2 = train.reduce sum %1 axes = [0] : tensor<8xf32> -> tensor<f32>
  %3 = train.mul %1, %x : tensor<8xf32>
  return %2, %3 : tensor<f32>, tensor<8xf32>
}
