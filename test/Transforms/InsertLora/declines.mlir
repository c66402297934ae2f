// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --insert-lora="rank=2" --remarks-filter=insert-lora --remark-format=emitRemark 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t
// RUN: trainc-opt %s --insert-lora="rank=2 targets=q|scale" --remarks-filter=insert-lora --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=NAMED
// RUN: trainc-opt %s --insert-lora="rank=2 targets=q|head|embed save=q|embed" --remarks-filter=insert-lora --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=SAVED

// Without targets neither heads nor embeddings have a branch; with them what is no matrix of a product has none.
// CHECK: func.func @forward
// CHECK-NOT: embed.lora
// CHECK-NOT: head.lora
// REMARK-DAG: NotInserted{{.*}}it is a head: nothing is projected after it{{.*}}no branch at 'head'
// REMARK-DAG: NotInserted{{.*}}it is an embedding"{{.*}}no branch at 'embed'{{.*}}Suggestion="name it: trainc --lora targets=REGEX"
// NAMED-DAG: NotInserted{{.*}}targets does not match its name{{.*}}no branch at 'head'
// NAMED-DAG: NotInserted{{.*}}activations are not multiplied with it, and its rows are not looked up{{.*}}no branch at 'l.scale'
// SAVED-DAG: NotInserted{{.*}}it is trained in full (save=){{.*}}no branch at 'l.q'
// SAVED-DAG: NotInserted{{.*}}it is trained in full (save=){{.*}}no branch at 'embed'
// SAVED-DAG: Inserted{{.*}}at 'head'
func.func @forward(%q: tensor<8x4xf32> {train.role = "parameter", train.name = "l.q.weight", train.trainable},
    %table: tensor<9x4xf32> {train.role = "parameter", train.name = "embed.weight", train.trainable},
    %scale: tensor<4x4xf32> {train.role = "parameter", train.name = "l.scale.weight", train.trainable},
    %head: tensor<5x8xf32> {train.role = "parameter", train.name = "head.weight", train.trainable},
    %i: tensor<4xi64> {train.role = "input", train.name = "i"}) -> (tensor<4x5xf32> {train.role = "output", train.name = "y"}) {
  %0 = train.gather %table, %i axis = 0 : tensor<9x4xf32>, tensor<4xi64> -> tensor<4x4xf32>
  %1 = train.mul %0, %scale : tensor<4x4xf32>
  %2 = train.matmul %1, %q transposed : tensor<4x4xf32>, tensor<8x4xf32> -> tensor<4x8xf32>
  %3 = train.matmul %2, %head transposed : tensor<4x8xf32>, tensor<5x8xf32> -> tensor<4x5xf32>
  return %3 : tensor<4x5xf32>
}
