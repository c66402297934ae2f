// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --raise-attention --remarks-filter=raise-attention --remark-format=emitRemark 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t

// CHECK-LABEL: func.func @row
// CHECK-NOT: train.attention
// REMARK: NotRaised{{.*}}it has one row{{.*}}stays in parts
func.func @row(%q: tensor<1x2x1x8xbf16>, %k: tensor<1x2x6x8xbf16>, %v: tensor<1x2x6x8xbf16>) -> tensor<1x2x1x8xbf16> {
  %0 = train.matmul %q, %k transposed : tensor<1x2x1x8xbf16>, tensor<1x2x6x8xbf16> -> tensor<1x2x1x6xbf16>
  %1 = train.full 0.5 : bf16 : tensor<1x2x1x6xbf16>
  %2 = train.mul %0, %1 : tensor<1x2x1x6xbf16>
  %3 = train.softmax %2 axis = 3 : tensor<1x2x1x6xbf16>
  %4 = train.matmul %3, %v : tensor<1x2x1x6xbf16>, tensor<1x2x6x8xbf16> -> tensor<1x2x1x8xbf16>
  return %4 : tensor<1x2x1x8xbf16>
}

// CHECK-LABEL: func.func @negative
// CHECK-NOT: train.attention
// REMARK: NotRaised{{.*}}its scale is not positive{{.*}}stays in parts
func.func @negative(%q: tensor<1x2x6x8xbf16>, %k: tensor<1x2x6x8xbf16>, %v: tensor<1x2x6x8xbf16>) -> tensor<1x2x6x8xbf16> {
  %0 = train.matmul %q, %k transposed : tensor<1x2x6x8xbf16>, tensor<1x2x6x8xbf16> -> tensor<1x2x6x6xbf16>
  %1 = train.full -0.5 : bf16 : tensor<1x2x6x6xbf16>
  %2 = train.mul %0, %1 : tensor<1x2x6x6xbf16>
  %3 = train.softmax %2 axis = 3 : tensor<1x2x6x6xbf16>
  %4 = train.matmul %3, %v : tensor<1x2x6x6xbf16>, tensor<1x2x6x8xbf16> -> tensor<1x2x6x8xbf16>
  return %4 : tensor<1x2x6x8xbf16>
}

// CHECK-LABEL: func.func @width
// CHECK-NOT: train.attention
// REMARK: NotRaised{{.*}}its head size 7 is above 256 or no multiple of 8{{.*}}stays in parts
func.func @width(%q: tensor<1x2x6x7xbf16>, %k: tensor<1x2x6x7xbf16>, %v: tensor<1x2x6x7xbf16>) -> tensor<1x2x6x7xbf16> {
  %0 = train.matmul %q, %k transposed : tensor<1x2x6x7xbf16>, tensor<1x2x6x7xbf16> -> tensor<1x2x6x6xbf16>
  %1 = train.full 0.5 : bf16 : tensor<1x2x6x6xbf16>
  %2 = train.mul %0, %1 : tensor<1x2x6x6xbf16>
  %3 = train.softmax %2 axis = 3 : tensor<1x2x6x6xbf16>
  %4 = train.matmul %3, %v : tensor<1x2x6x6xbf16>, tensor<1x2x6x7xbf16> -> tensor<1x2x6x7xbf16>
  return %4 : tensor<1x2x6x7xbf16>
}

// CHECK-LABEL: func.func @type
// CHECK-NOT: train.attention
// REMARK: NotRaised{{.*}}no fused kernel computes it in f32{{.*}}stays in parts
func.func @type(%q: tensor<1x2x6x8xf32>, %k: tensor<1x2x6x8xf32>, %v: tensor<1x2x6x8xf32>) -> tensor<1x2x6x8xf32> {
  %0 = train.matmul %q, %k transposed : tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32> -> tensor<1x2x6x6xf32>
  %1 = train.full 0.5 : f32 : tensor<1x2x6x6xf32>
  %2 = train.mul %0, %1 : tensor<1x2x6x6xf32>
  %3 = train.softmax %2 axis = 3 : tensor<1x2x6x6xf32>
  %4 = train.matmul %3, %v : tensor<1x2x6x6xf32>, tensor<1x2x6x8xf32> -> tensor<1x2x6x8xf32>
  return %4 : tensor<1x2x6x8xf32>
}
