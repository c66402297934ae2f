// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: split-file %s %t
// RUN: trainc-opt %t/rows.mlir --insert-lora="rank=2 alpha=4 dropout=0.5 targets=embed" | FileCheck %t/rows.mlir
// RUN: trainc-opt %t/rows.mlir --insert-lora="rank=2 targets=embed" --remarks-filter=insert-lora --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %t/rows.mlir --check-prefix=REMARK
// RUN: trainc-opt %t/rows.mlir --insert-lora="rank=2" --remarks-filter=insert-lora --remark-format=emitRemark 2>&1 | FileCheck %t/rows.mlir --check-prefix=ALL
// RUN: trainc-opt %t/padding.mlir --insert-lora="rank=2 targets=embed" | FileCheck %t/padding.mlir
// RUN: not trainc-opt %t/tied.mlir --insert-lora="rank=2 targets=embed" 2>&1 | FileCheck %t/tied.mlir
// RUN: trainc-opt %t/tied.mlir --insert-lora="rank=2 targets=up" | FileCheck %t/tied.mlir --check-prefix=OTHER

//--- rows.mlir
// A begins with zeros, B does not; nothing is dropped.
// CHECK: modules = [{a = "embed.lora_embedding_A", {{.*}}b = "embed.lora_embedding_B", embedding = true, fan_in_fan_out = false, path = "embed"
// CHECK: %[[A:arg[0-9]+]]: tensor<2x10xf32> {train.init = {constant = 0.000000e+00 : f64}, train.name = "embed.lora_embedding_A", train.role = "parameter", train.trainable}
// CHECK-SAME: %[[B:arg[0-9]+]]: tensor<4x2xf32> {train.init = {normal = 1.000000e+00 : f64}
// CHECK: %[[Y:[0-9]+]] = train.gather %{{[a-z0-9]+}}, %[[IDS:[a-z0-9]+]] axis = 0
// CHECK-NEXT: %[[T:[0-9]+]] = train.transpose %[[A]] permutation = [1, 0]
// CHECK-NEXT: %[[LOW:[0-9]+]] = train.gather %[[T]], %[[IDS]] axis = 0
// CHECK-NEXT: train.full 2.000000e+00
// CHECK-NEXT: %[[SCALED:[0-9]+]] = train.mul %[[B]]
// CHECK-NEXT: %[[ROWS:[0-9]+]] = train.reshape %[[LOW]]
// CHECK-NEXT: train.matmul %[[ROWS]], %[[SCALED]] transposed
// CHECK-NEXT: train.reshape
// CHECK-NEXT: train.add %[[Y]],

// What has no branch, and why.
// REMARK-DAG: NotInserted{{.*}}targets does not match its name{{.*}}no branch at 'up'
// REMARK-DAG: NotInserted{{.*}}its rows are not looked up{{.*}}no branch at 'embed_positions'
// REMARK-DAG: Inserted{{.*}}at 'embed'
// ALL: NotInserted{{.*}}it is an embedding"{{.*}}no branch at 'embed'{{.*}}Suggestion="name it: trainc --lora targets=REGEX"
// ALL-NOT: embed.lora
func.func @forward(%table: tensor<10x4xf32> {train.role = "parameter", train.name = "embed.weight", train.trainable},
    %positions: tensor<6x4xf32> {train.role = "parameter", train.name = "embed_positions.weight", train.trainable},
    %up: tensor<8x4xf32> {train.role = "parameter", train.name = "up.weight", train.trainable},
    %down: tensor<4x8xf32> {train.role = "parameter", train.name = "down.weight", train.trainable},
    %x: tensor<2x3xi64> {train.role = "input", train.name = "x"}) -> (tensor<6x4xf32> {train.role = "output", train.name = "y"}) {
  %0 = train.gather %table, %x axis = 0 : tensor<10x4xf32>, tensor<2x3xi64> -> tensor<2x3x4xf32>
  %1 = train.reshape %0 : tensor<2x3x4xf32> -> tensor<6x4xf32>
  %2 = train.add %1, %positions : tensor<6x4xf32>
  %3 = train.matmul %2, %up transposed : tensor<6x4xf32>, tensor<8x4xf32> -> tensor<6x8xf32>
  %4 = train.matmul %3, %down transposed : tensor<6x8xf32>, tensor<4x8xf32> -> tensor<6x4xf32>
  return %4 : tensor<6x4xf32>
}

//--- padding.mlir
// The row that is not trained is not trained in the branch.
// CHECK: %[[PAD:[0-9]+]] = train.compare
// CHECK: %[[Y:[0-9]+]] = train.select
// CHECK: %[[LOW:[0-9]+]] = train.gather
// CHECK: %[[DETACHED:[0-9]+]] = train.detach %[[LOW]]
// CHECK: %[[ROWS:[0-9]+]] = train.broadcast %[[PAD]] axes = [0] : tensor<3xi1> -> tensor<3x2xi1>
// CHECK: train.select %[[ROWS]], %[[DETACHED]], %[[LOW]]
// CHECK: train.add %[[Y]],
func.func @forward(%table: tensor<10x4xf32> {train.role = "parameter", train.name = "embed.weight", train.trainable},
    %x: tensor<3xi64> {train.role = "input", train.name = "x"}) -> (tensor<3x4xf32> {train.role = "output", train.name = "y"}) {
  %0 = train.gather %table, %x axis = 0 : tensor<10x4xf32>, tensor<3xi64> -> tensor<3x4xf32>
  %1 = train.full 0 : i64 : tensor<3xi64>
  %2 = train.compare eq %x, %1 : tensor<3xi64> -> tensor<3xi1>
  %3 = train.broadcast %2 axes = [0] : tensor<3xi1> -> tensor<3x4xi1>
  %4 = train.detach %0 : tensor<3x4xf32>
  %5 = train.select %3, %4, %0 : tensor<3x4xi1>, tensor<3x4xf32>
  return %5 : tensor<3x4xf32>
}

//--- tied.mlir
// CHECK: error: {{.*}}reads 'embed.weight', which is the table of an embedding, too
// CHECK-SAME: tie_word_embeddings=False
// OTHER: path = "up"
func.func @forward(%table: tensor<10x4xf32> {train.role = "parameter", train.name = "embed.weight", train.trainable},
    %up: tensor<4x4xf32> {train.role = "parameter", train.name = "up.weight", train.trainable},
    %x: tensor<3xi64> {train.role = "input", train.name = "x"}) -> (tensor<3x10xf32> {train.role = "output", train.name = "y"}) {
  %0 = train.gather %table, %x axis = 0 : tensor<10x4xf32>, tensor<3xi64> -> tensor<3x4xf32>
  %1 = train.matmul %0, %up transposed : tensor<3x4xf32>, tensor<4x4xf32> -> tensor<3x4xf32>
  %2 = train.matmul %1, %table transposed : tensor<3x4xf32>, tensor<10x4xf32> -> tensor<3x10xf32>
  return %2 : tensor<3x10xf32>
}
