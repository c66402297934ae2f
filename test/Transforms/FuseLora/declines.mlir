// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --fuse-lora=kinds=mlp --remarks-filter=fuse-lora --remark-format=emitRemark 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file %t

// A matrix that the graph has transposed does not go below the others.
// CHECK-NOT: train.concat
// REMARK: NotShared | {{.*}}its matrix is stored transposed, or its input is not one of rows{{.*}}the branch at 'q' has a matmul of its own
// REMARK: NotShared | {{.*}}no other branch reads the same input{{.*}}the branch at 'k' has a matmul of its own

module attributes {train.lora = {modules = [{a = "qa", b = "qb", path = "q", weight = "q.weight"}, {a = "ka", b = "kb", path = "k", weight = "k.weight"}]}} {
func.func @forward(%x: tensor<6x4xf32> {train.name = "x", train.role = "input"},
                   %q: tensor<4x4xf32> {train.name = "q.weight", train.role = "parameter"},
                   %k: tensor<4x4xf32> {train.name = "k.weight", train.role = "parameter"},
                   %qa: tensor<4x2xf32> {train.name = "qa", train.role = "parameter", train.trainable},
                   %ka: tensor<2x4xf32> {train.name = "ka", train.role = "parameter", train.trainable},
                   %qb: tensor<2x4xf32> {train.name = "qb", train.role = "parameter", train.trainable},
                   %kb: tensor<2x4xf32> {train.name = "kb", train.role = "parameter", train.trainable})
    -> (tensor<6x4xf32> {train.name = "y", train.role = "output"}) {
  %0 = train.matmul %x, %q transposed : tensor<6x4xf32>, tensor<4x4xf32> -> tensor<6x4xf32>
  %1 = train.matmul %x, %k transposed : tensor<6x4xf32>, tensor<4x4xf32> -> tensor<6x4xf32>
  %2 = train.matmul %x, %qa : tensor<6x4xf32>, tensor<4x2xf32> -> tensor<6x2xf32>
  %3 = train.matmul %x, %ka transposed : tensor<6x4xf32>, tensor<2x4xf32> -> tensor<6x2xf32>
  %4 = train.matmul %2, %qb : tensor<6x2xf32>, tensor<2x4xf32> -> tensor<6x4xf32>
  %5 = train.matmul %3, %kb : tensor<6x2xf32>, tensor<2x4xf32> -> tensor<6x4xf32>
  %6 = train.add %0, %4 : tensor<6x4xf32>
  %7 = train.add %1, %5 : tensor<6x4xf32>
  %8 = train.mul %6, %7 : tensor<6x4xf32>
  return %8 : tensor<6x4xf32>
}
}
