// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: split-file %s %t
// RUN: trainc-opt %t/branch.mlir --insert-lora="existing" | FileCheck %t/branch.mlir
// RUN: trainc-opt %t/branch.mlir --insert-lora="existing rslora" | FileCheck %t/branch.mlir --check-prefix=RSLORA
// RUN: trainc-opt %t/branch.mlir --insert-lora="existing" --remarks-filter=insert-lora --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %t/branch.mlir --check-prefix=REMARK
// RUN: trainc-opt %t/branch.mlir --insert-lora="rank=1 targets=base" 2>&1 | FileCheck %t/branch.mlir --check-prefix=AGAIN
// RUN: not trainc-opt %t/misses.mlir --insert-lora="existing" --remarks-filter=insert-lora --remark-format=emitRemark 2>&1 | FileCheck %t/misses.mlir
// RUN: not trainc-opt %t/twice.mlir --insert-lora="existing" --remarks-filter=insert-lora --remark-format=emitRemark 2>&1 | FileCheck %t/twice.mlir
// RUN: not trainc-opt %t/shapes.mlir --insert-lora="existing" --remarks-filter=insert-lora --remark-format=emitRemark 2>&1 | FileCheck %t/shapes.mlir
// RUN: not trainc-opt %t/scales.mlir --insert-lora="existing" 2>&1 | FileCheck %t/scales.mlir
// RUN: not trainc-opt %t/left.mlir --insert-lora="existing" 2>&1 | FileCheck %t/left.mlir
// RUN: not trainc-opt %t/two.mlir --insert-lora="existing" 2>&1 | FileCheck %t/two.mlir

//--- branch.mlir
// Names do not matter: PEFT's are read only to say what the model without adapters calls the module.
// A bias and a residual in the sum do not matter either; the base is frozen, the branch is trained.
// CHECK: module attributes {train.lora = {alpha = 3.000000e+00 : f64
// CHECK-SAME: dropout = 1.000000e-01 : f64
// CHECK-SAME: modules = [{a = "first", alpha = 3.000000e+00 : f64, b = "second", embedding = false, fan_in_fan_out = false, path = "up", rank = 2 : i64, scale = 1.500000e+00 : f64, weight = "wrapped.base_model.model.up.base_layer.weight"}]
// CHECK-SAME: modules_to_save = ["base_model.model.head.modules_to_save.default.weight"]
// CHECK: func.func @forward(%{{.*}}: tensor<6x4xf32> {train.name = "wrapped.base_model.model.up.base_layer.weight", train.role = "parameter"}, %{{[a-z0-9]+}}: tensor<6xf32> {train.name = "bias", train.role = "parameter"}
// CHECK-SAME: train.name = "first", train.role = "parameter", train.trainable
// CHECK-SAME: train.name = "second", train.role = "parameter", train.trainable
// RSLORA: alpha = 2.121{{.*}}rslora = true
// REMARK: Recognised{{.*}}a branch of rank 2 and scale 1.50 at 'up'
// AGAIN: warning: insert-lora: the model has 1 low-rank branches{{.*}}'existing'
func.func @forward(%w: tensor<6x4xf32> {train.role = "parameter", train.name = "wrapped.base_model.model.up.base_layer.weight", train.trainable},
    %bias: tensor<6xf32> {train.role = "parameter", train.name = "bias", train.trainable},
    %a: tensor<2x4xf32> {train.role = "parameter", train.name = "first", train.trainable},
    %b: tensor<6x2xf32> {train.role = "parameter", train.name = "second"},
    %head: tensor<6x6xf32> {train.role = "parameter", train.name = "base_model.model.head.modules_to_save.default.weight", train.trainable},
    %key: tensor<i64> {train.role = "hyper", train.name = "seed"},
    %r: tensor<2x3x6xf32> {train.role = "input", train.name = "r"},
    %x: tensor<2x3x4xf32> {train.role = "input", train.name = "x"}) -> (tensor<6x6xf32> {train.role = "output", train.name = "y"}) {
  %0 = train.reshape %x : tensor<2x3x4xf32> -> tensor<6x4xf32>
  %1 = train.matmul %0, %w transposed : tensor<6x4xf32>, tensor<6x4xf32> -> tensor<6x6xf32>
  %2 = train.broadcast %bias axes = [1] : tensor<6xf32> -> tensor<6x6xf32>
  %3 = train.add %1, %2 : tensor<6x6xf32>
  %4 = train.reshape %3 : tensor<6x6xf32> -> tensor<2x3x6xf32>
  %5 = train.add %r, %4 : tensor<2x3x6xf32>
  %6 = train.dropout %x, %key {ratio = 0.10000000149011612 : f64} : tensor<2x3x4xf32>, tensor<i64>
  %7 = train.reshape %6 : tensor<2x3x4xf32> -> tensor<6x4xf32>
  %8 = train.matmul %7, %a transposed : tensor<6x4xf32>, tensor<2x4xf32> -> tensor<6x2xf32>
  %9 = train.matmul %8, %b transposed : tensor<6x2xf32>, tensor<6x2xf32> -> tensor<6x6xf32>
  %10 = train.full 1.5 : f32 : tensor<6x6xf32>
  %11 = train.mul %9, %10 : tensor<6x6xf32>
  %12 = train.reshape %11 : tensor<6x6xf32> -> tensor<2x3x6xf32>
  %13 = train.add %5, %12 : tensor<2x3x6xf32>
  %14 = train.reshape %13 : tensor<2x3x6xf32> -> tensor<6x6xf32>
  %15 = train.matmul %14, %head transposed : tensor<6x6xf32>, tensor<6x6xf32> -> tensor<6x6xf32>
  return %15 : tensor<6x6xf32>
}

//--- misses.mlir
// Two projections in a row: beside one of another input; scaled by a vector; wider between than around.
// CHECK-DAG: NotRecognised{{.*}}it is not added to a matmul of the same input with a parameter{{.*}}'a1' and 'b1' are no branch
// CHECK-DAG: NotRecognised{{.*}}its result is multiplied with what is no number{{.*}}'a2' and 'b2' are no branch
// CHECK-DAG: NotRecognised{{.*}}what is between the two is larger{{.*}}'a3' and 'b3' are no branch
// CHECK-DAG: error: insert-lora: 'existing' finds no branch: it looks for W x + scale * B (A x)
func.func @forward(%w: tensor<4x4xf32> {train.role = "parameter", train.name = "w", train.trainable},
    %a1: tensor<2x4xf32> {train.role = "parameter", train.name = "a1"}, %b1: tensor<4x2xf32> {train.role = "parameter", train.name = "b1"},
    %a2: tensor<2x4xf32> {train.role = "parameter", train.name = "a2"}, %b2: tensor<4x2xf32> {train.role = "parameter", train.name = "b2"},
    %a3: tensor<5x4xf32> {train.role = "parameter", train.name = "a3"}, %b3: tensor<4x5xf32> {train.role = "parameter", train.name = "b3"},
    %m: tensor<4xf32> {train.role = "parameter", train.name = "m"},
    %z: tensor<6x4xf32> {train.role = "input", train.name = "z"},
    %x: tensor<6x4xf32> {train.role = "input", train.name = "x"}) -> (tensor<6x4xf32> {train.role = "output", train.name = "y"}) {
  %y = train.matmul %x, %w transposed : tensor<6x4xf32>, tensor<4x4xf32> -> tensor<6x4xf32>
  %0 = train.matmul %z, %a1 transposed : tensor<6x4xf32>, tensor<2x4xf32> -> tensor<6x2xf32>
  %1 = train.matmul %0, %b1 transposed : tensor<6x2xf32>, tensor<4x2xf32> -> tensor<6x4xf32>
  %2 = train.add %y, %1 : tensor<6x4xf32>
  %3 = train.matmul %x, %a2 transposed : tensor<6x4xf32>, tensor<2x4xf32> -> tensor<6x2xf32>
  %4 = train.matmul %3, %b2 transposed : tensor<6x2xf32>, tensor<4x2xf32> -> tensor<6x4xf32>
  %5 = train.broadcast %m axes = [1] : tensor<4xf32> -> tensor<6x4xf32>
  %6 = train.mul %4, %5 : tensor<6x4xf32>
  %7 = train.add %2, %6 : tensor<6x4xf32>
  %8 = train.matmul %x, %a3 transposed : tensor<6x4xf32>, tensor<5x4xf32> -> tensor<6x5xf32>
  %9 = train.matmul %8, %b3 transposed : tensor<6x5xf32>, tensor<4x5xf32> -> tensor<6x4xf32>
  %10 = train.add %7, %9 : tensor<6x4xf32>
  return %10 : tensor<6x4xf32>
}

//--- twice.mlir
// A matmul that enters a sum twice is two.
// CHECK: NotRecognised{{.*}}it is added to more than one matmul of the same input{{.*}}'a' and 'b' are no branch
func.func @forward(%w: tensor<4x4xf32> {train.role = "parameter", train.name = "w", train.trainable},
    %a: tensor<2x4xf32> {train.role = "parameter", train.name = "a"}, %b: tensor<4x2xf32> {train.role = "parameter", train.name = "b"},
    %x: tensor<6x4xf32> {train.role = "input", train.name = "x"}) -> (tensor<6x4xf32> {train.role = "output", train.name = "y"}) {
  %y = train.matmul %x, %w transposed : tensor<6x4xf32>, tensor<4x4xf32> -> tensor<6x4xf32>
  %0 = train.matmul %x, %a transposed : tensor<6x4xf32>, tensor<2x4xf32> -> tensor<6x2xf32>
  %1 = train.matmul %0, %b transposed : tensor<6x2xf32>, tensor<4x2xf32> -> tensor<6x4xf32>
  %2 = train.add %y, %y : tensor<6x4xf32>
  %3 = train.add %2, %1 : tensor<6x4xf32>
  return %3 : tensor<6x4xf32>
}

//--- shapes.mlir
// A product that is read elsewhere; one that something else is made of; matrices whose sizes a run decides.
// CHECK-DAG: NotRecognised{{.*}}its result is not only part of a sum{{.*}}'a1' and 'b1' are no branch
// CHECK-DAG: NotRecognised{{.*}}its result is not only part of a sum{{.*}}'a2' and 'b2' are no branch
// CHECK-DAG: NotRecognised{{.*}}its sizes are not known{{.*}}'a3' and 'b3' are no branch
train.symbol @n min 1 input "z" axis 0
func.func @forward(%w: tensor<4x4xf32> {train.role = "parameter", train.name = "w", train.trainable},
    %a1: tensor<2x4xf32> {train.role = "parameter", train.name = "a1"}, %b1: tensor<4x2xf32> {train.role = "parameter", train.name = "b1"},
    %a2: tensor<2x4xf32> {train.role = "parameter", train.name = "a2"}, %b2: tensor<4x2xf32> {train.role = "parameter", train.name = "b2"},
    %a3: tensor<?x4xf32, #train.dims<n, 4>> {train.role = "parameter", train.name = "a3"},
    %b3: tensor<4x?xf32, #train.dims<4, n>> {train.role = "parameter", train.name = "b3"},
    %z: tensor<?xf32, #train.dims<n>> {train.role = "input", train.name = "z"},
    %x: tensor<6x4xf32> {train.role = "input", train.name = "x"})
    -> (tensor<6x4xf32> {train.role = "output", train.name = "y"}, tensor<6x4xf32> {train.role = "output", train.name = "other"}) {
  %y = train.matmul %x, %w transposed : tensor<6x4xf32>, tensor<4x4xf32> -> tensor<6x4xf32>
  %0 = train.matmul %x, %a1 transposed : tensor<6x4xf32>, tensor<2x4xf32> -> tensor<6x2xf32>
  %1 = train.matmul %0, %b1 transposed : tensor<6x2xf32>, tensor<4x2xf32> -> tensor<6x4xf32>
  %2 = train.add %y, %1 : tensor<6x4xf32>
  %3 = train.matmul %x, %a2 transposed : tensor<6x4xf32>, tensor<2x4xf32> -> tensor<6x2xf32>
  %4 = train.matmul %3, %b2 transposed : tensor<6x2xf32>, tensor<4x2xf32> -> tensor<6x4xf32>
  %5 = train.exp %4 : tensor<6x4xf32>
  %6 = train.add %2, %5 : tensor<6x4xf32>
  %7 = train.matmul %x, %a3 transposed : tensor<6x4xf32>, tensor<?x4xf32, #train.dims<n, 4>> -> tensor<6x?xf32, #train.dims<6, n>>
  %8 = train.matmul %7, %b3 transposed : tensor<6x?xf32, #train.dims<6, n>>, tensor<4x?xf32, #train.dims<4, n>> -> tensor<6x4xf32>
  %9 = train.add %6, %8 : tensor<6x4xf32>
  return %9, %1 : tensor<6x4xf32>, tensor<6x4xf32>
}

//--- scales.mlir
// One branch of a matrix that is applied twice.
// CHECK: error: {{.*}}is part of a low-rank branch at 'w', which acts with another scale elsewhere
func.func @forward(%w: tensor<4x4xf32> {train.role = "parameter", train.name = "w", train.trainable},
    %a: tensor<2x4xf32> {train.role = "parameter", train.name = "a"}, %b: tensor<4x2xf32> {train.role = "parameter", train.name = "b"},
    %x: tensor<6x4xf32> {train.role = "input", train.name = "x"}) -> (tensor<6x4xf32> {train.role = "output", train.name = "y"}) {
  %half = train.full 0.5 : f32 : tensor<6x4xf32>
  %0 = train.matmul %x, %w transposed : tensor<6x4xf32>, tensor<4x4xf32> -> tensor<6x4xf32>
  %1 = train.matmul %x, %a transposed : tensor<6x4xf32>, tensor<2x4xf32> -> tensor<6x2xf32>
  %2 = train.matmul %1, %b transposed : tensor<6x2xf32>, tensor<4x2xf32> -> tensor<6x4xf32>
  %3 = train.add %0, %2 : tensor<6x4xf32>
  %4 = train.matmul %3, %w transposed : tensor<6x4xf32>, tensor<4x4xf32> -> tensor<6x4xf32>
  %5 = train.matmul %3, %a transposed : tensor<6x4xf32>, tensor<2x4xf32> -> tensor<6x2xf32>
  %6 = train.matmul %5, %b transposed : tensor<6x2xf32>, tensor<4x2xf32> -> tensor<6x4xf32>
  %7 = train.mul %6, %half : tensor<6x4xf32>
  %8 = train.add %4, %7 : tensor<6x4xf32>
  return %8 : tensor<6x4xf32>
}

//--- left.mlir
// CHECK: error: insert-lora: 'embed.lora_embedding_A' is part of an adapter that is not recognised
func.func @forward(%w: tensor<4x4xf32> {train.role = "parameter", train.name = "w"},
    %a: tensor<2x4xf32> {train.role = "parameter", train.name = "a"}, %b: tensor<4x2xf32> {train.role = "parameter", train.name = "b"},
    %e: tensor<2x4xf32> {train.role = "parameter", train.name = "embed.lora_embedding_A"},
    %x: tensor<6x4xf32> {train.role = "input", train.name = "x"}) -> (tensor<6x4xf32> {train.role = "output", train.name = "y"}) {
  %0 = train.matmul %x, %w transposed : tensor<6x4xf32>, tensor<4x4xf32> -> tensor<6x4xf32>
  %1 = train.matmul %x, %a transposed : tensor<6x4xf32>, tensor<2x4xf32> -> tensor<6x2xf32>
  %2 = train.matmul %1, %b transposed : tensor<6x2xf32>, tensor<4x2xf32> -> tensor<6x4xf32>
  %3 = train.add %0, %2 : tensor<6x4xf32>
  return %3 : tensor<6x4xf32>
}

//--- two.mlir
// CHECK: error: {{.*}}is part of a low-rank branch at 'w', which has another one: export the model with one active adapter
func.func @forward(%w: tensor<4x4xf32> {train.role = "parameter", train.name = "w"},
    %a1: tensor<2x4xf32> {train.role = "parameter", train.name = "a1"}, %b1: tensor<4x2xf32> {train.role = "parameter", train.name = "b1"},
    %a2: tensor<2x4xf32> {train.role = "parameter", train.name = "a2"}, %b2: tensor<4x2xf32> {train.role = "parameter", train.name = "b2"},
    %x: tensor<6x4xf32> {train.role = "input", train.name = "x"}) -> (tensor<6x4xf32> {train.role = "output", train.name = "y"}) {
  %0 = train.matmul %x, %w transposed : tensor<6x4xf32>, tensor<4x4xf32> -> tensor<6x4xf32>
  %1 = train.matmul %x, %a1 transposed : tensor<6x4xf32>, tensor<2x4xf32> -> tensor<6x2xf32>
  %2 = train.matmul %1, %b1 transposed : tensor<6x2xf32>, tensor<4x2xf32> -> tensor<6x4xf32>
  %3 = train.add %0, %2 : tensor<6x4xf32>
  %4 = train.matmul %x, %a2 transposed : tensor<6x4xf32>, tensor<2x4xf32> -> tensor<6x2xf32>
  %5 = train.matmul %4, %b2 transposed : tensor<6x2xf32>, tensor<4x2xf32> -> tensor<6x4xf32>
  %6 = train.add %3, %5 : tensor<6x4xf32>
  return %6 : tensor<6x4xf32>
}
