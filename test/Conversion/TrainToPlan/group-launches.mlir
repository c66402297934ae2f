// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Launches of one kernel become one, where the last of them stood.
// RUN: trainc-test-opt %s --split-input-file --test-group-launches | FileCheck %s

// Two, over another kernel's that has to do with neither.
// CHECK-LABEL: plan.function @two
// CHECK: %[[A:.*]] = plan.buffer input "a"
// CHECK: %[[B:.*]] = plan.buffer input "b"
// CHECK: %[[X:.*]] = plan.buffer output "x"
// CHECK: %[[Y:.*]] = plan.buffer output "y"
// CHECK-NOT: plan.launch "k"
// CHECK: plan.launch "other"
// CHECK-NEXT: plan.launch "k_grouped"(%[[A]], %[[X]], %[[B]], %[[Y]]) inputs 1 dims <n, m> work <m + n> grain 16 scratch <0> group <n, m>
// CHECK-NOT: plan.launch
plan.function @two {
  %a = plan.buffer input "a" : tensor<?xf32, #train.dims<n>>
  %b = plan.buffer input "b" : tensor<?xf32, #train.dims<m>>
  %x = plan.buffer output "x" : tensor<?xf32, #train.dims<n>>
  %y = plan.buffer output "y" : tensor<?xf32, #train.dims<m>>
  %z = plan.buffer output "z" : tensor<?xf32, #train.dims<n>>
  plan.launch "k"(%a, %x) inputs 1 dims <n> work <n> grain 16 scratch <0>
  plan.launch "other"(%a, %z) inputs 1 dims <n> work <n> grain 16 scratch <0>
  plan.launch "k"(%b, %y) inputs 1 dims <m> work <m> grain 16 scratch <0>
}

// -----

// The stages of a kernel stay one behind the other, each a group.
// CHECK-LABEL: plan.function @stages
// CHECK-NOT: plan.launch "k0"
// CHECK: plan.launch "k0_grouped"
// CHECK-NEXT: plan.launch "k1_grouped"
// CHECK-NOT: plan.launch
plan.function @stages {
  %a = plan.buffer input "a" : tensor<8xf32>
  %x = plan.buffer output "x" : tensor<8xf32>
  %y = plan.buffer output "y" : tensor<8xf32>
  plan.launch "k0"(%a, %x) inputs 1 dims <> work <2> grain 16 scratch <0>
  plan.launch "k1"(%a, %x) inputs 1 dims <> work <1> grain 16 scratch <0>
  plan.launch "k0"(%a, %y) inputs 1 dims <> work <2> grain 16 scratch <0>
  plan.launch "k1"(%a, %y) inputs 1 dims <> work <1> grain 16 scratch <0>
}

// -----

// Where the first stage does all of a small one, the group's second is of the others.
// CHECK-LABEL: plan.function @fewer_stages
// CHECK: %[[X:.*]] = plan.buffer output "x"
// CHECK: %[[Y:.*]] = plan.buffer output "y"
// CHECK-NEXT: %[[Z:.*]] = plan.buffer output "z"
// CHECK-NEXT: plan.launch "k0_grouped"({{.*}} group <2, 1, 3>
// CHECK-NEXT: plan.launch "k1_grouped"({{%.*}}, %[[X]], {{%.*}}, %[[Z]]) {{.*}} group <1, 1>
// CHECK-NOT: plan.launch
// CHECK-LABEL: plan.function @one_has_more
// CHECK: plan.launch "k0_grouped"({{.*}} group <2, 1>
// CHECK-NEXT: plan.launch "k1"(
// CHECK-NOT: plan.launch
// CHECK-LABEL: plan.function @other_stages
// CHECK-NEXT: plan.buffer
// CHECK-COUNT-4: plan.launch "{{k[012]}}"(
plan.function @fewer_stages {
  %a = plan.buffer input "a" : tensor<8xf32>
  %x = plan.buffer output "x" : tensor<8xf32>
  %y = plan.buffer output "y" : tensor<8xf32>
  %z = plan.buffer output "z" : tensor<8xf32>
  plan.launch "k0"(%a, %x) inputs 1 dims <> work <2> grain 16 scratch <0>
  plan.launch "k1"(%a, %x) inputs 1 dims <> work <1> grain 16 scratch <0>
  plan.launch "k0"(%a, %y) inputs 1 dims <> work <1> grain 16 scratch <0>
  plan.launch "k0"(%a, %z) inputs 1 dims <> work <3> grain 16 scratch <0>
  plan.launch "k1"(%a, %z) inputs 1 dims <> work <1> grain 16 scratch <0>
}
plan.function @one_has_more {
  %a = plan.buffer input "a" : tensor<8xf32>
  %x = plan.buffer output "x" : tensor<8xf32>
  %y = plan.buffer output "y" : tensor<8xf32>
  plan.launch "k0"(%a, %x) inputs 1 dims <> work <2> grain 16 scratch <0>
  plan.launch "k1"(%a, %x) inputs 1 dims <> work <1> grain 16 scratch <0>
  plan.launch "k0"(%a, %y) inputs 1 dims <> work <1> grain 16 scratch <0>
}
plan.function @other_stages {
  %a = plan.buffer input "a" : tensor<8xf32>
  %x = plan.buffer output "x" : tensor<8xf32>
  %y = plan.buffer output "y" : tensor<8xf32>
  plan.launch "k0"(%a, %x) inputs 1 dims <> work <2> grain 16 scratch <0>
  plan.launch "k1"(%a, %x) inputs 1 dims <> work <1> grain 16 scratch <0>
  plan.launch "k0"(%a, %y) inputs 1 dims <> work <2> grain 16 scratch <0>
  plan.launch "k2"(%a, %y) inputs 1 dims <> work <1> grain 16 scratch <0>
}

// -----

// The second reads what the first writes.
// CHECK-LABEL: plan.function @chain
// CHECK-COUNT-2: plan.launch "k"(
plan.function @chain {
  %a = plan.buffer input "a" : tensor<8xf32>
  %x = plan.buffer arena : tensor<8xf32>
  %y = plan.buffer output "y" : tensor<8xf32>
  plan.launch "k"(%a, %x) inputs 1 dims <> work <2> grain 16 scratch <0>
  plan.launch "k"(%x, %y) inputs 1 dims <> work <2> grain 16 scratch <0>
}

// -----

// A launch in between reads what the first writes; one writes what the first reads.
// CHECK-LABEL: plan.function @read_between
// CHECK: plan.launch "k"(
// CHECK-NEXT: plan.launch "other"(
// CHECK-NEXT: plan.launch "k"(
// CHECK-LABEL: plan.function @written_between
// CHECK: plan.launch "k"(
// CHECK-NEXT: plan.launch "other"(
// CHECK-NEXT: plan.launch "k"(
plan.function @read_between {
  %a = plan.buffer input "a" : tensor<8xf32>
  %x = plan.buffer output "x" : tensor<8xf32>
  %y = plan.buffer output "y" : tensor<8xf32>
  %z = plan.buffer output "z" : tensor<8xf32>
  plan.launch "k"(%a, %x) inputs 1 dims <> work <2> grain 16 scratch <0>
  plan.launch "other"(%x, %z) inputs 1 dims <> work <2> grain 16 scratch <0>
  plan.launch "k"(%a, %y) inputs 1 dims <> work <2> grain 16 scratch <0>
}
plan.function @written_between {
  %a = plan.buffer input "a" : tensor<8xf32>
  %w = plan.buffer parameter "w" : tensor<8xf32>
  %x = plan.buffer output "x" : tensor<8xf32>
  %y = plan.buffer output "y" : tensor<8xf32>
  plan.launch "k"(%w, %x) inputs 1 dims <> work <2> grain 16 scratch <0>
  plan.launch "other"(%a, %w) inputs 1 dims <> work <2> grain 16 scratch <0>
  plan.launch "k"(%a, %y) inputs 1 dims <> work <2> grain 16 scratch <0>
}

// -----

// Other threads to a block are another launch.
// CHECK-LABEL: plan.function @grains
// CHECK-COUNT-2: plan.launch "k"(
plan.function @grains {
  %a = plan.buffer input "a" : tensor<8xf32>
  %x = plan.buffer output "x" : tensor<8xf32>
  %y = plan.buffer output "y" : tensor<8xf32>
  plan.launch "k"(%a, %x) inputs 1 dims <> work <2> grain 16 scratch <0>
  plan.launch "k"(%a, %y) inputs 1 dims <> work <2> grain 32 scratch <0>
}

// -----

// Over a library call small buffers are kept longer, large ones and ones of unknown size are not.
// CHECK-LABEL: plan.function @small_over_library
// CHECK: plan.gemm
// CHECK-NEXT: plan.launch "k_grouped"(
// CHECK-LABEL: plan.function @large_over_library
// CHECK: plan.launch "k"(
// CHECK-NEXT: plan.gemm
// CHECK-NEXT: plan.launch "k"(
// CHECK-LABEL: plan.function @unknown_over_library
// CHECK: plan.launch "k"(
// CHECK-NEXT: plan.gemm
// CHECK-NEXT: plan.launch "k"(
plan.function @small_over_library {
  %a = plan.buffer arena : tensor<8x8xf32>
  %x = plan.buffer output "x" : tensor<8x8xf32>
  %y = plan.buffer output "y" : tensor<8x8xf32>
  %w = plan.buffer parameter "w" : tensor<8x8xf32>
  %z = plan.buffer arena : tensor<8x8xf32>
  plan.launch "k"(%a, %x) inputs 1 dims <> work <2> grain 16 scratch <0>
  plan.gemm %w, %w, %z batch <> sizes <8, 8, 8> strides <8, 1>, <8, 1>, <8, 1> offsets <0, 0, 0> : f32 -> f32
  plan.launch "k"(%a, %y) inputs 1 dims <> work <2> grain 16 scratch <0>
}
plan.function @large_over_library {
  %a = plan.buffer arena : tensor<1024x1024xf32>
  %x = plan.buffer output "x" : tensor<1024x1024xf32>
  %y = plan.buffer output "y" : tensor<1024x1024xf32>
  %w = plan.buffer parameter "w" : tensor<8x8xf32>
  %z = plan.buffer arena : tensor<8x8xf32>
  plan.launch "k"(%a, %x) inputs 1 dims <> work <2> grain 16 scratch <0>
  plan.gemm %w, %w, %z batch <> sizes <8, 8, 8> strides <8, 1>, <8, 1>, <8, 1> offsets <0, 0, 0> : f32 -> f32
  plan.launch "k"(%a, %y) inputs 1 dims <> work <2> grain 16 scratch <0>
}
plan.function @unknown_over_library {
  %a = plan.buffer arena : tensor<?xf32, #train.dims<n>>
  %x = plan.buffer output "x" : tensor<?xf32, #train.dims<n>>
  %y = plan.buffer output "y" : tensor<?xf32, #train.dims<n>>
  %w = plan.buffer parameter "w" : tensor<8x8xf32>
  %z = plan.buffer arena : tensor<8x8xf32>
  plan.launch "k"(%a, %x) inputs 1 dims <n> work <n> grain 16 scratch <0>
  plan.gemm %w, %w, %z batch <> sizes <8, 8, 8> strides <8, 1>, <8, 1>, <8, 1> offsets <0, 0, 0> : f32 -> f32
  plan.launch "k"(%a, %y) inputs 1 dims <n> work <n> grain 16 scratch <0>
}

// -----

// A group moves and computes what its members do.
// CHECK-LABEL: plan.function @costs
// CHECK: plan.launch "k_grouped"{{.*}} group <1, 1> form pointwise moves <8*m + 8*n> flops <5>
plan.function @costs {
  %a = plan.buffer input "a" : tensor<?xf32, #train.dims<n>>
  %b = plan.buffer input "b" : tensor<?xf32, #train.dims<m>>
  %x = plan.buffer output "x" : tensor<?xf32, #train.dims<n>>
  %y = plan.buffer output "y" : tensor<?xf32, #train.dims<m>>
  plan.launch "k"(%a, %x) inputs 1 dims <n> work <1> grain 16 scratch <0> form pointwise moves <8*n> flops <2>
  plan.launch "k"(%b, %y) inputs 1 dims <m> work <1> grain 16 scratch <0> form pointwise moves <8*m> flops <3>
}
