// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --insert-lora="rank=2 alpha=2" --fuse-lora="kinds=mlp,qkv,o" --remarks-filter=fuse-lora --remark-format=emitRemark 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file %t
// RUN: trainc-opt %s --insert-lora="rank=2 alpha=2" --fuse-lora="kinds=mlp" | FileCheck %s --check-prefix=MLP
// RUN: trainc-opt %s --insert-lora="rank=2 alpha=2" --fuse-lora="kinds=qkv,o" | FileCheck %s --check-prefix=ATTENTION
// RUN: trainc-opt %s --insert-lora="rank=2 alpha=2" --fuse-lora | FileCheck %s --check-prefix=NONE
// RUN: trainc-opt %s --insert-lora="rank=2 alpha=2 dropout=0.5" --fuse-lora="kinds=mlp,qkv,o" | FileCheck %s --check-prefix=DROP
// RUN: not trainc-opt %s --insert-lora="rank=2 alpha=2" --fuse-lora="kinds=head" 2>&1 | FileCheck %s --check-prefix=KIND
// RUN: not trainc-opt %s --fuse-lora="kinds=mlp" 2>&1 | FileCheck %s --check-prefix=BRANCHES

// CHECK-NOT: train.unfused_branches
// CHECK: %[[QK:.*]] = train.concat %[[AQ:.*]], %[[AK:.*]] axis = 0 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
// CHECK-NEXT: %[[LOW:.*]] = train.matmul %[[X:.*]], %[[QK]] transposed
// CHECK-NEXT: %[[PARTS:.*]]:2 = train.split %[[LOW]] axis = 1
// CHECK: train.matmul %[[PARTS]]#0, %{{.*}} transposed
// CHECK: train.matmul %[[PARTS]]#1, %{{.*}} transposed
// CHECK: %[[GU:.*]] = train.concat
// CHECK-NEXT: train.matmul %{{.*}}, %[[GU]] transposed
// CHECK-NOT: train.concat

// REMARK: remark: [Passed] Shared | {{.*}}the branches at 'q', 'k' multiply their input once
// REMARK: remark: [Missed] NotShared | {{.*}}no other branch reads the same input{{.*}}the branch at 'o' has a matmul of its own
// REMARK: remark: [Passed] Shared | {{.*}}the branches at 'gate', 'up' multiply their input once

// MLP: train.unfused_branches = ["q.lora_A.weight", "q.lora_B.weight", "k.lora_A.weight", "k.lora_B.weight", "o.lora_A.weight", "o.lora_B.weight"]
// MLP-COUNT-1: train.concat
// MLP-NOT: train.concat
// ATTENTION: train.unfused_branches = ["gate.lora_A.weight", "gate.lora_B.weight", "up.lora_A.weight", "up.lora_B.weight", "down.lora_A.weight", "down.lora_B.weight"]
// ATTENTION-COUNT-1: train.concat
// ATTENTION-NOT: train.concat
// NONE-NOT: train.concat
// Each branch has its own mask.
// DROP-NOT: train.concat
// KIND: error: fuse-lora: 'head' is no kind of projection; there are mlp, qkv and o
// BRANCHES: error: fuse-lora: expected the function @forward, with branches

func.func @forward(%x: tensor<6x4xf32> {train.name = "x", train.role = "input"},
                   %q: tensor<4x4xf32> {train.name = "q.weight", train.role = "parameter", train.trainable},
                   %k: tensor<4x4xf32> {train.name = "k.weight", train.role = "parameter", train.trainable},
                   %o: tensor<4x6xf32> {train.name = "o.weight", train.role = "parameter", train.trainable},
                   %norm: tensor<4xf32> {train.name = "norm.weight", train.role = "parameter", train.trainable},
                   %gate: tensor<8x4xf32> {train.name = "gate.weight", train.role = "parameter", train.trainable},
                   %up: tensor<8x4xf32> {train.name = "up.weight", train.role = "parameter", train.trainable},
                   %down: tensor<4x8xf32> {train.name = "down.weight", train.role = "parameter", train.trainable},
                   %head: tensor<5x4xf32> {train.name = "head.weight", train.role = "parameter", train.trainable})
    -> (tensor<6x5xf32> {train.name = "logits", train.role = "output"}) {
  %0 = train.matmul %x, %q transposed : tensor<6x4xf32>, tensor<4x4xf32> -> tensor<6x4xf32>
  %1 = train.matmul %x, %k transposed : tensor<6x4xf32>, tensor<4x4xf32> -> tensor<6x4xf32>
  %2 = train.matmul %0, %1 transposed : tensor<6x4xf32>, tensor<6x4xf32> -> tensor<6x6xf32>
  %3 = train.matmul %2, %o transposed : tensor<6x6xf32>, tensor<4x6xf32> -> tensor<6x4xf32>
  %4 = train.add %x, %3 : tensor<6x4xf32>
  %5 = train.broadcast %norm axes = [1] : tensor<4xf32> -> tensor<6x4xf32>
  %6 = train.mul %4, %5 : tensor<6x4xf32>
  %7 = train.matmul %6, %gate transposed : tensor<6x4xf32>, tensor<8x4xf32> -> tensor<6x8xf32>
  %8 = train.matmul %6, %up transposed : tensor<6x4xf32>, tensor<8x4xf32> -> tensor<6x8xf32>
  %9 = train.mul %7, %8 : tensor<6x8xf32>
  %10 = train.matmul %9, %down transposed : tensor<6x8xf32>, tensor<4x8xf32> -> tensor<6x4xf32>
  %11 = train.add %4, %10 : tensor<6x4xf32>
  %12 = train.matmul %11, %head transposed : tensor<6x4xf32>, tensor<5x4xf32> -> tensor<6x5xf32>
  return %12 : tensor<6x5xf32>
}
