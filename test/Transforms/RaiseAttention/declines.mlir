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
// REMARK: NotRaised{{.*}}no fused kernel computes it in f32{{.*}}stays in parts{{.*}}Suggestion="trainc --precision bf16"
func.func @type(%q: tensor<1x2x6x8xf32>, %k: tensor<1x2x6x8xf32>, %v: tensor<1x2x6x8xf32>) -> tensor<1x2x6x8xf32> {
  %0 = train.matmul %q, %k transposed : tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32> -> tensor<1x2x6x6xf32>
  %1 = train.full 0.5 : f32 : tensor<1x2x6x6xf32>
  %2 = train.mul %0, %1 : tensor<1x2x6x6xf32>
  %3 = train.softmax %2 axis = 3 : tensor<1x2x6x6xf32>
  %4 = train.matmul %3, %v : tensor<1x2x6x6xf32>, tensor<1x2x6x8xf32> -> tensor<1x2x6x8xf32>
  return %4 : tensor<1x2x6x8xf32>
}

// CHECK-LABEL: func.func @two_types
// CHECK-NOT: train.attention
// REMARK: NotRaised{{.*}}its matmuls have different types{{.*}}stays in parts
func.func @two_types(%q: tensor<1x2x6x8xbf16>, %k: tensor<1x2x6x8xbf16>, %v: tensor<1x2x6x8xf32>) -> tensor<1x2x6x8xf32> {
  %0 = train.matmul %q, %k transposed : tensor<1x2x6x8xbf16>, tensor<1x2x6x8xbf16> -> tensor<1x2x6x6xbf16>
  %1 = train.full 0.5 : bf16 : tensor<1x2x6x6xbf16>
  %2 = train.mul %0, %1 : tensor<1x2x6x6xbf16>
  %3 = train.softmax %2 axis = 3 : tensor<1x2x6x6xbf16>
  %4 = train.cast %3 : tensor<1x2x6x6xbf16> -> tensor<1x2x6x6xf32>
  %5 = train.matmul %4, %v : tensor<1x2x6x6xf32>, tensor<1x2x6x8xf32> -> tensor<1x2x6x8xf32>
  return %5 : tensor<1x2x6x8xf32>
}

// CHECK-LABEL: func.func @bias_gradient
// CHECK-NOT: train.attention
// REMARK: NotRaised{{.*}}its bias needs a gradient, which not all GPUs of the target have a fused kernel for{{.*}}stays in parts{{.*}}Suggestion="trainc --target cuda:sm_90"
func.func @bias_gradient(%q: tensor<1x2x6x8xbf16>, %k: tensor<1x2x6x8xbf16>, %v: tensor<1x2x6x8xbf16>, %bias: tensor<1x2x6x6xbf16> {train.trainable}) -> tensor<1x2x6x8xbf16> {
  %0 = train.matmul %q, %k transposed : tensor<1x2x6x8xbf16>, tensor<1x2x6x8xbf16> -> tensor<1x2x6x6xbf16>
  %1 = train.add %0, %bias : tensor<1x2x6x6xbf16>
  %2 = train.softmax %1 axis = 3 : tensor<1x2x6x6xbf16>
  %3 = train.matmul %2, %v : tensor<1x2x6x6xbf16>, tensor<1x2x6x8xbf16> -> tensor<1x2x6x8xbf16>
  return %3 : tensor<1x2x6x8xbf16>
}

// A row that sees nothing is all -inf, or the mean of some columns.
// CHECK-LABEL: func.func @mixed_masks
// CHECK-NOT: train.attention
// REMARK: NotRaised{{.*}}its masks are of -inf and of finite numbers{{.*}}stays in parts{{.*}}Suggestion="mask with one of the two"
func.func @mixed_masks(%q: tensor<1x2x6x8xbf16>, %k: tensor<1x2x6x8xbf16>, %v: tensor<1x2x6x8xbf16>, %a: tensor<1x2x6x6xi1>, %b: tensor<1x2x6x6xi1>) -> tensor<1x2x6x8xbf16> {
  %least = train.full -3.38953139E+38 : bf16 : tensor<1x2x6x6xbf16>
  %infinite = train.full 0xFF80 : bf16 : tensor<1x2x6x6xbf16>
  %0 = train.matmul %q, %k transposed : tensor<1x2x6x8xbf16>, tensor<1x2x6x8xbf16> -> tensor<1x2x6x6xbf16>
  %1 = train.select %a, %0, %least : tensor<1x2x6x6xi1>, tensor<1x2x6x6xbf16>
  %2 = train.select %b, %1, %infinite : tensor<1x2x6x6xi1>, tensor<1x2x6x6xbf16>
  %3 = train.softmax %2 axis = 3 : tensor<1x2x6x6xbf16>
  %4 = train.matmul %3, %v : tensor<1x2x6x6xbf16>, tensor<1x2x6x8xbf16> -> tensor<1x2x6x8xbf16>
  return %4 : tensor<1x2x6x8xbf16>
}

// CHECK-LABEL: func.func @weights
// CHECK-NOT: train.attention
// REMARK: NotRaised{{.*}}its weights are read elsewhere{{.*}}stays in parts{{.*}}Suggestion="export the model without them (output_attentions=False in transformers)"
func.func @weights(%q: tensor<1x2x6x8xbf16>, %k: tensor<1x2x6x8xbf16>, %v: tensor<1x2x6x8xbf16>) -> (tensor<1x2x6x8xbf16>, tensor<1x2x6x6xbf16>) {
  %0 = train.matmul %q, %k transposed : tensor<1x2x6x8xbf16>, tensor<1x2x6x8xbf16> -> tensor<1x2x6x6xbf16>
  %1 = train.softmax %0 axis = 3 : tensor<1x2x6x6xbf16>
  %2 = train.matmul %1, %v : tensor<1x2x6x6xbf16>, tensor<1x2x6x8xbf16> -> tensor<1x2x6x8xbf16>
  return %2, %1 : tensor<1x2x6x8xbf16>, tensor<1x2x6x6xbf16>
}

// CHECK-LABEL: func.func @weak_mask
// CHECK-NOT: train.attention
// REMARK: NotRaised{{.*}}a mask selects a number that is not far below the scores{{.*}}stays in parts{{.*}}Suggestion="mask with -inf, or with the least number of the type"
func.func @weak_mask(%q: tensor<1x2x6x8xbf16>, %k: tensor<1x2x6x8xbf16>, %v: tensor<1x2x6x8xbf16>, %a: tensor<1x2x6x6xi1>) -> tensor<1x2x6x8xbf16> {
  %low = train.full -10.0 : bf16 : tensor<1x2x6x6xbf16>
  %0 = train.matmul %q, %k transposed : tensor<1x2x6x8xbf16>, tensor<1x2x6x8xbf16> -> tensor<1x2x6x6xbf16>
  %1 = train.select %a, %0, %low : tensor<1x2x6x6xi1>, tensor<1x2x6x6xbf16>
  %2 = train.softmax %1 axis = 3 : tensor<1x2x6x6xbf16>
  %3 = train.matmul %2, %v : tensor<1x2x6x6xbf16>, tensor<1x2x6x8xbf16> -> tensor<1x2x6x8xbf16>
  return %3 : tensor<1x2x6x8xbf16>
}
