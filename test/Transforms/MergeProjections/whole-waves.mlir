// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --pass-pipeline='builtin.module(func.func(merge-projections{launch=0}))' --remarks-filter=merge-projections --remark-format=emitRemark 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t

// CHECK-NOT: train.concat

// Of whole waves of tiles, in each of the three matmuls, one matmul has as many: nothing is gained where none takes time to begin.
// REMARK: NotMerged{{.*}}too little is gained: {{[0-9.]+}} us as one, {{[0-9.]+}} apart, forward and backward, at 8448 rows{{.*}}train.matmul stays apart from others of its input
func.func @many(%x: tensor<8448x16896xf32>, %v: tensor<16896x16896xf32> {train.role = "parameter", train.name = "v", train.trainable},
    %w: tensor<16896x16896xf32> {train.role = "parameter", train.name = "w", train.trainable}) -> tensor<16896x16896xf32> {
  %0 = train.matmul %x, %v transposed : tensor<8448x16896xf32>, tensor<16896x16896xf32> -> tensor<8448x16896xf32>
  %1 = train.matmul %x, %w transposed : tensor<8448x16896xf32>, tensor<16896x16896xf32> -> tensor<8448x16896xf32>
  %2 = train.matmul %0 transposed, %1 : tensor<8448x16896xf32>, tensor<8448x16896xf32> -> tensor<16896x16896xf32>
  return %2 : tensor<16896x16896xf32>
}
