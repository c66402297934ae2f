// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lifetimes end with the last command that touches a buffer; buffers that never live together share
// the arena; without a value for a symbol there is no number.
// RUN: trainc-test-opt %s --split-input-file --test-lifetimes="size=16" 2>&1 | FileCheck %s
// RUN: trainc-test-opt %s --split-input-file --test-lifetimes 2>&1 | FileCheck %s --check-prefix=UNBOUND

// UNBOUND-COUNT-2: no sizes
// 1 KiB of %a, %b and %c each: two of them live at once. A GPU's arena may
// be 32 MiB larger.
// CHECK: 4*n bytes, commands 0 to 2
// CHECK: 64*n bytes, commands 0 to 1
// CHECK: 64*n bytes, commands 1 to 3
// CHECK: 64*n bytes, commands 2 to 3
// CHECK: 4 bytes, commands 3 to 3
// CHECK: 4 bytes, commands 0 to 0
// CHECK: cpu: 2048 bytes, at least 2048
// CHECK: cuda: 33556480 bytes, at least 2048
plan.function @step {
  %x = plan.buffer input "x" : tensor<?xf32, #train.dims<n>>
  %a = plan.buffer arena : tensor<?x16xf32, #train.dims<n, 16>>
  %b = plan.buffer arena : tensor<?x16xf32, #train.dims<n, 16>>
  %c = plan.buffer arena : tensor<?x16xf32, #train.dims<n, 16>>
  %loss = plan.buffer output "loss" : tensor<f32>
  %unused = plan.buffer arena : tensor<f32>
  plan.launch "k"(%x, %a) inputs 1 dims <n> work <n> grain 16 scratch <0>
  plan.launch "k"(%a, %b) inputs 1 dims <n> work <n> grain 16 scratch <0>
  plan.launch "k"(%x, %c) inputs 1 dims <n> work <n> grain 16 scratch <0>
  plan.launch "k"(%b, %c, %loss) inputs 2 dims <n> work <n> grain 16 scratch <0>
}

// -----

// Too large for a number.
// CHECK: no sizes
plan.function @large {
  %x = plan.buffer arena : tensor<?x?xf32, #train.dims<1152921504606846975*n, n>>
}
