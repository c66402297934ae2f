// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Options of passes that cannot be, and modules that a pass is no longer, or not yet, for.
// RUN: rm -rf %t && split-file %s %t
// RUN: not trainc-opt %t/model.mlir --insert-lora=dropout=1.0 2>&1 | FileCheck %s --check-prefix=DROPOUT
// DROPOUT: error: insert-lora: dropout must be in [0, 1), not 1.0
// RUN: not trainc-opt %t/model.mlir --insert-lora=rank=2 2>&1 | FileCheck %s --check-prefix=TARGETS
// TARGETS: error: insert-lora: the model has no matmul of activations with a parameter
// RUN: not trainc-opt %t/empty.mlir --insert-lora 2>&1 | FileCheck %s --check-prefix=LORA
// LORA: error: insert-lora: expected the function @forward
// RUN: not trainc-opt %t/model.mlir --quantize-frozen=scale-type=f64 2>&1 | FileCheck %s --check-prefix=SCALES
// SCALES: error: quantize-frozen: scales must be f32, bf16 or f16, not 'f64'
// RUN: not trainc-opt %t/model.mlir --quantize-frozen='format=int8 double' 2>&1 | FileCheck %s --check-prefix=INT8
// INT8: error: quantize-frozen: int8 has f32 scales of rows: neither double nor another type of them
// RUN: not trainc-opt %t/model.mlir --quantize-frozen='double scale-type=f16' 2>&1 | FileCheck %s --check-prefix=DOUBLE
// DOUBLE: error: quantize-frozen: with double scales are 8 bits: they have no other type
// RUN: not trainc-opt %t/empty.mlir --quantize-frozen 2>&1 | FileCheck %s --check-prefix=QUANTIZE
// QUANTIZE: error: quantize-frozen: expected the function @forward
// RUN: not trainc-opt %t/model.mlir --mixed-precision=type=f8 2>&1 | FileCheck %s --check-prefix=MIXED
// MIXED: error: mixed-precision: expected the type bf16 or f16, got 'f8'
// RUN: not trainc-opt %t/model.mlir --raise-attention=type=f32 2>&1 | FileCheck %s --check-prefix=ATTENTION
// ATTENTION: error: raise-attention: expected the type bf16 or f16, got 'f32'
// RUN: not trainc-opt %t/model.mlir --form-eval --form-eval 2>&1 | FileCheck %s --check-prefix=EVAL
// EVAL: error: @eval exists already: it is formed once
// EVAL: note: it is here
// RUN: not trainc-opt %t/model.mlir --autodiff --attach-optimizer --attach-optimizer 2>&1 | FileCheck %s --check-prefix=UPDATE
// UPDATE: error: @update exists already
// UPDATE: note: it is here
// RUN: not trainc-opt %t/model.mlir --autodiff --attach-optimizer='kind=sgd momentum=-1' 2>&1 | FileCheck %s --check-prefix=MOMENTUM
// MOMENTUM: error: expected a momentum of at least 0, got -1
// RUN: not trainc-opt %t/plan.mlir --offload=target=abacus 2>&1 | FileCheck %s --check-prefix=TARGET
// TARGET: error: offload: there is no target 'abacus'
// RUN: not trainc-opt %t/model.mlir --autodiff --attach-optimizer --form-steps --choose-recompute='largest-sizes=batch' 2>&1 | FileCheck %s --check-prefix=SIZES
// SIZES: choose-recompute: expected NAME=N, got 'batch'

//--- empty.mlir
module {}
//--- model.mlir
func.func @forward(%w: tensor<8xf32> {train.role = "parameter", train.name = "w", train.trainable},
                   %x: tensor<8xf32> {train.role = "input", train.name = "x"})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %0 = train.mul %w, %x : tensor<8xf32>
  %1 = train.reduce sum %0 axes = [0] : tensor<8xf32> -> tensor<f32>
  return %1 : tensor<f32>
}
//--- plan.mlir
plan.function @eval {
  %0 = plan.buffer input "x" : tensor<2xf32>
}
