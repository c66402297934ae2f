// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --raise-shared-factors --remarks-filter=raise-shared-factors --remark-format=emitRemark 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t

// Near misses: what is taken apart is read in the order of samples, what is merged was computed in it,
// a mask depends on the place, the merged axis is summed over, and an argument has it.
// CHECK-NOT: tensor<2x64x8xf32>
// REMARK: NotShared{{.*}}what is taken apart is not transposed behind
// REMARK: NotShared{{.*}}what is merged is not transposed before
// REMARK: NotShared{{.*}}train.dropout{{.*}} depends on the order
// REMARK: NotShared{{.*}}train.reduce{{.*}} depends on the order
// REMARK: NotShared{{.*}}an argument has samples and heads in one axis
// REMARK-NOT: NotShared
func.func @in_order(%x: tensor<4x16x2x8xf32>, %p: tensor<2x5x8xf32>) -> tensor<4x2x16x5xf32> {
  %0 = train.transpose %x permutation = [0, 2, 1, 3] : tensor<4x16x2x8xf32> -> tensor<4x2x16x8xf32>
  %1 = train.reshape %0 : tensor<4x2x16x8xf32> -> tensor<8x16x8xf32>
  %2 = train.broadcast %p axes = [1, 2, 3] : tensor<2x5x8xf32> -> tensor<4x2x5x8xf32>
  %3 = train.reshape %2 : tensor<4x2x5x8xf32> -> tensor<8x5x8xf32>
  %4 = train.matmul %1, %3 transposed : tensor<8x16x8xf32>, tensor<8x5x8xf32> -> tensor<8x16x5xf32>
  %5 = train.reshape %4 : tensor<8x16x5xf32> -> tensor<4x2x16x5xf32>
  %6 = train.neg %5 : tensor<4x2x16x5xf32>
  return %6 : tensor<4x2x16x5xf32>
}
func.func @computed(%x: tensor<4x2x16x8xf32>, %p: tensor<2x5x8xf32>) -> tensor<4x16x2x5xf32> {
  %0 = train.neg %x : tensor<4x2x16x8xf32>
  %1 = train.reshape %0 : tensor<4x2x16x8xf32> -> tensor<8x16x8xf32>
  %2 = train.broadcast %p axes = [1, 2, 3] : tensor<2x5x8xf32> -> tensor<4x2x5x8xf32>
  %3 = train.reshape %2 : tensor<4x2x5x8xf32> -> tensor<8x5x8xf32>
  %4 = train.matmul %1, %3 transposed : tensor<8x16x8xf32>, tensor<8x5x8xf32> -> tensor<8x16x5xf32>
  %5 = train.reshape %4 : tensor<8x16x5xf32> -> tensor<4x2x16x5xf32>
  %6 = train.transpose %5 permutation = [0, 2, 1, 3] : tensor<4x2x16x5xf32> -> tensor<4x16x2x5xf32>
  return %6 : tensor<4x16x2x5xf32>
}
func.func @mask(%x: tensor<4x16x2x8xf32>, %p: tensor<2x5x8xf32>, %key: tensor<i64>) -> tensor<4x16x2x5xf32> {
  %0 = train.transpose %x permutation = [0, 2, 1, 3] : tensor<4x16x2x8xf32> -> tensor<4x2x16x8xf32>
  %1 = train.reshape %0 : tensor<4x2x16x8xf32> -> tensor<8x16x8xf32>
  %2 = train.broadcast %p axes = [1, 2, 3] : tensor<2x5x8xf32> -> tensor<4x2x5x8xf32>
  %3 = train.reshape %2 : tensor<4x2x5x8xf32> -> tensor<8x5x8xf32>
  %4 = train.matmul %1, %3 transposed : tensor<8x16x8xf32>, tensor<8x5x8xf32> -> tensor<8x16x5xf32>
  %5 = train.dropout %4, %key {ratio = 0.1 : f64} : tensor<8x16x5xf32>, tensor<i64>
  %6 = train.reshape %5 : tensor<8x16x5xf32> -> tensor<4x2x16x5xf32>
  %7 = train.transpose %6 permutation = [0, 2, 1, 3] : tensor<4x2x16x5xf32> -> tensor<4x16x2x5xf32>
  return %7 : tensor<4x16x2x5xf32>
}
func.func @sum(%x: tensor<4x16x2x8xf32>, %p: tensor<2x5x8xf32>) -> tensor<16x5xf32> {
  %0 = train.transpose %x permutation = [0, 2, 1, 3] : tensor<4x16x2x8xf32> -> tensor<4x2x16x8xf32>
  %1 = train.reshape %0 : tensor<4x2x16x8xf32> -> tensor<8x16x8xf32>
  %2 = train.broadcast %p axes = [1, 2, 3] : tensor<2x5x8xf32> -> tensor<4x2x5x8xf32>
  %3 = train.reshape %2 : tensor<4x2x5x8xf32> -> tensor<8x5x8xf32>
  %4 = train.matmul %1, %3 transposed : tensor<8x16x8xf32>, tensor<8x5x8xf32> -> tensor<8x16x5xf32>
  %5 = train.reduce sum %4 axes = [0] : tensor<8x16x5xf32> -> tensor<16x5xf32>
  return %5 : tensor<16x5xf32>
}
func.func @argument(%x: tensor<8x16x8xf32>, %p: tensor<2x5x8xf32>) -> tensor<4x16x2x5xf32> {
  %2 = train.broadcast %p axes = [1, 2, 3] : tensor<2x5x8xf32> -> tensor<4x2x5x8xf32>
  %3 = train.reshape %2 : tensor<4x2x5x8xf32> -> tensor<8x5x8xf32>
  %4 = train.matmul %x, %3 transposed : tensor<8x16x8xf32>, tensor<8x5x8xf32> -> tensor<8x16x5xf32>
  %5 = train.reshape %4 : tensor<8x16x5xf32> -> tensor<4x2x16x5xf32>
  %6 = train.transpose %5 permutation = [0, 2, 1, 3] : tensor<4x2x16x5xf32> -> tensor<4x16x2x5xf32>
  return %6 : tensor<4x16x2x5xf32>
}
