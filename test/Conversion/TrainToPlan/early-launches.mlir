// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Small launches of one kernel stand where the first of them stood.
// RUN: trainc-test-opt %s --test-group-launches=early | FileCheck %s

// What converts weights is one launch at the first of them: each is read beyond the last. What a
// command in between writes, or is as large as a matmul, stays; so does what is read at once and
// would be held.
// CHECK-LABEL: plan.function @weights
// CHECK: plan.launch "cast_grouped"({{.*}} group <1, 1>
// CHECK-NEXT: plan.buffer
// CHECK-NEXT: plan.gemm
// CHECK: plan.launch "changed"
// CHECK-NEXT: plan.launch "cast"
// CHECK: plan.launch "large"
// CHECK: plan.gemm
// CHECK: plan.launch "large"
// CHECK-LABEL: plan.function @read_at_once
// CHECK: plan.launch "cast"
// CHECK: plan.gemm
// CHECK: plan.launch "cast"
plan.function @weights {
  %a = plan.buffer parameter "a" : tensor<512x512xf32>
  %x = plan.buffer arena : tensor<512x512xbf16>
  plan.launch "cast"(%a, %x) inputs 1 dims <> work <1> grain 16 scratch <0>
  %p = plan.buffer arena : tensor<512x512xbf16>
  plan.gemm %x, %x, %p batch <> sizes <512, 512, 512> strides <512, 1>, <1, 512>, <512, 1> offsets <0, 0, 0> : bf16 -> bf16
  %b = plan.buffer parameter "b" : tensor<512x512xf32>
  %y = plan.buffer arena : tensor<512x512xbf16>
  plan.launch "cast"(%b, %y) inputs 1 dims <> work <1> grain 16 scratch <0>
  plan.gemm %y, %x, %p batch <> sizes <512, 512, 512> strides <512, 1>, <1, 512>, <512, 1> offsets <0, 0, 0> : bf16 -> bf16
  %c = plan.buffer state "c" : tensor<512x512xf32>
  %z = plan.buffer arena : tensor<512x512xbf16>
  plan.launch "changed"(%a, %c) inputs 1 dims <> work <1> grain 16 scratch <0>
  plan.launch "cast"(%c, %z) inputs 1 dims <> work <1> grain 16 scratch <0>
  %d = plan.buffer parameter "d" : tensor<2048x2048xf32>
  %v = plan.buffer arena : tensor<2048x2048xbf16>
  plan.launch "large"(%d, %v) inputs 1 dims <> work <1> grain 16 scratch <0>
  plan.gemm %z, %y, %p batch <> sizes <512, 512, 512> strides <512, 1>, <1, 512>, <512, 1> offsets <0, 0, 0> : bf16 -> bf16
  %e = plan.buffer parameter "e" : tensor<2048x2048xf32>
  %w = plan.buffer arena : tensor<2048x2048xbf16>
  plan.launch "large"(%e, %w) inputs 1 dims <> work <1> grain 16 scratch <0>
  plan.launch "end"(%x, %y, %z, %v, %w, %p) inputs 6 dims <> work <1> grain 16 scratch <0>
}

plan.function @read_at_once {
  %a = plan.buffer parameter "a" : tensor<1024x512xf32>
  %x = plan.buffer arena : tensor<1024x512xbf16>
  plan.launch "cast"(%a, %x) inputs 1 dims <> work <1> grain 16 scratch <0>
  %p = plan.buffer arena : tensor<1024x1024xbf16>
  plan.gemm %x, %x, %p batch <> sizes <1024, 1024, 512> strides <512, 1>, <1, 512>, <1024, 1> offsets <0, 0, 0> : bf16 -> bf16
  %b = plan.buffer parameter "b" : tensor<1024x512xf32>
  %y = plan.buffer arena : tensor<1024x512xbf16>
  plan.launch "cast"(%b, %y) inputs 1 dims <> work <1> grain 16 scratch <0>
  plan.gemm %y, %y, %p batch <> sizes <1024, 1024, 512> strides <512, 1>, <1, 512>, <1024, 1> offsets <0, 0, 0> : bf16 -> bf16
}
