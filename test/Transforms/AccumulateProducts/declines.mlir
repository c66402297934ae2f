// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --accumulate-products --remarks-filter=accumulate-products --remark-format=emitRemark 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t

// Near misses: a product that something else reads, one and the same, a sum of something else, a narrower
// cast in between, a batch.
// CHECK-LABEL: func.func @declines
// CHECK-NOT: plus
func.func @declines(%x: tensor<6x4xf32>, %w: tensor<4x8xf32>, %v: tensor<4x8xf32>, %y: tensor<2x6x4xf32>, %z: tensor<2x4x8xf32>)
    -> (tensor<6x8xf32>, tensor<6x8xf32>, tensor<6x8xf32>, tensor<6x8xf32>, tensor<6x8xbf16>, tensor<2x6x8xf32>) {
  %0 = train.matmul %x, %w : tensor<6x4xf32>, tensor<4x8xf32> -> tensor<6x8xf32>
  %1 = train.matmul %x, %v : tensor<6x4xf32>, tensor<4x8xf32> -> tensor<6x8xf32>
  %2 = train.add %0, %1 : tensor<6x8xf32>
  %3 = train.add %1, %1 : tensor<6x8xf32>
  %4 = train.tanh %2 : tensor<6x8xf32>
  %5 = train.matmul %x, %v : tensor<6x4xf32>, tensor<4x8xf32> -> tensor<6x8xf32>
  %6 = train.add %4, %5 : tensor<6x8xf32>
  %7 = train.matmul %x, %w : tensor<6x4xf32>, tensor<4x8xf32> -> tensor<6x8xf32>
  %8 = train.matmul %x, %v : tensor<6x4xf32>, tensor<4x8xf32> -> tensor<6x8xf32>
  %9 = train.cast %7 : tensor<6x8xf32> -> tensor<6x8xbf16>
  %10 = train.cast %8 : tensor<6x8xf32> -> tensor<6x8xbf16>
  %11 = train.add %9, %10 : tensor<6x8xbf16>
  %12 = train.matmul %y, %z : tensor<2x6x4xf32>, tensor<2x4x8xf32> -> tensor<2x6x8xf32>
  %13 = train.matmul %y, %z {tag} : tensor<2x6x4xf32>, tensor<2x4x8xf32> -> tensor<2x6x8xf32>
  %14 = train.add %12, %13 : tensor<2x6x8xf32>
  return %1, %2, %3, %6, %11, %14 : tensor<6x8xf32>, tensor<6x8xf32>, tensor<6x8xf32>, tensor<6x8xf32>, tensor<6x8xbf16>, tensor<2x6x8xf32>
}

// Two chains; products of different types; a branch that is to stay apart.
// CHECK-LABEL: func.func @chains
// CHECK-COUNT-2: train.matmul {{.*}} plus
// CHECK-NOT: plus
// CHECK: train.add
// REMARK: NotAccumulated{{.*}}each is the end of a chain of sums{{.*}}are stored before they are added
func.func @chains(%x: tensor<6x4xf32>, %w: tensor<4x8xf32>, %v: tensor<4x8xf32>) -> tensor<6x8xf32> {
  %0 = train.matmul %x, %w : tensor<6x4xf32>, tensor<4x8xf32> -> tensor<6x8xf32>
  %1 = train.matmul %x, %v : tensor<6x4xf32>, tensor<4x8xf32> -> tensor<6x8xf32>
  %2 = train.add %0, %1 : tensor<6x8xf32>
  %3 = train.matmul %x, %w {tag} : tensor<6x4xf32>, tensor<4x8xf32> -> tensor<6x8xf32>
  %4 = train.matmul %x, %v {tag} : tensor<6x4xf32>, tensor<4x8xf32> -> tensor<6x8xf32>
  %5 = train.add %3, %4 : tensor<6x8xf32>
  %6 = train.add %2, %5 : tensor<6x8xf32>
  return %6 : tensor<6x8xf32>
}

// CHECK-LABEL: func.func @types
// CHECK-NOT: plus
// REMARK: NotAccumulated{{.*}}they are of other types or shapes
func.func @types(%x: tensor<6x4xf32>, %w: tensor<4x8xf32>, %y: tensor<6x4xbf16>, %v: tensor<4x8xbf16>) -> tensor<6x8xf32> {
  %0 = train.matmul %x, %w : tensor<6x4xf32>, tensor<4x8xf32> -> tensor<6x8xf32>
  %1 = train.matmul %y, %v : tensor<6x4xbf16>, tensor<4x8xbf16> -> tensor<6x8xbf16>
  %2 = train.cast %1 : tensor<6x8xbf16> -> tensor<6x8xf32>
  %3 = train.add %0, %2 : tensor<6x8xf32>
  return %3 : tensor<6x8xf32>
}
