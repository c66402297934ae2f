// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Row kernels on the GPU: threads of a warp or block share a row, what they hold is read once, and
// partial results meet in shuffles.
// RUN: trainc-test-opt %s --split-input-file --test-codegen="target=cuda print-ptx remarks=false" -o /dev/null | FileCheck %s

// A warp a row: no shared memory.
// CHECK-LABEL: .entry kernel_0_row(
// CHECK-COUNT-4: ld.global.v4.b32
// CHECK-COUNT-10: shfl.sync.bfly.b32
// CHECK-NOT: .shared
// CHECK-NOT: ld.global
// CHECK-COUNT-4: st.global.v4.b32
// CHECK: ret;
func.func @warp_rows(%x: tensor<?x512xf32, #train.dims<rows, 512>>) {
  %0 = train.fusion(%x) : (tensor<?x512xf32, #train.dims<rows, 512>>) -> tensor<?x512xf32, #train.dims<rows, 512>> {
  ^bb0(%p: tensor<?x512xf32, #train.dims<rows, 512>>):
    %1 = train.reduce max %p axes = [1] : tensor<?x512xf32, #train.dims<rows, 512>> -> tensor<?xf32, #train.dims<rows>>
    %2 = train.broadcast %1 axes = [0] : tensor<?xf32, #train.dims<rows>> -> tensor<?x512xf32, #train.dims<rows, 512>>
    %3 = train.sub %p, %2 : tensor<?x512xf32, #train.dims<rows, 512>>
    %4 = train.exp %3 : tensor<?x512xf32, #train.dims<rows, 512>>
    %5 = train.reduce sum %4 axes = [1] : tensor<?x512xf32, #train.dims<rows, 512>> -> tensor<?xf32, #train.dims<rows>>
    %6 = train.broadcast %5 axes = [0] : tensor<?xf32, #train.dims<rows>> -> tensor<?x512xf32, #train.dims<rows, 512>>
    %7 = train.div %4, %6 : tensor<?x512xf32, #train.dims<rows, 512>>
    train.yield %7 : tensor<?x512xf32, #train.dims<rows, 512>>
  }
  return
}

// -----

// A block a row: the warps meet in shared memory, once a reduction.
// CHECK-LABEL: .entry kernel_0_row(
// CHECK-COUNT-4: ld.global.v4.b32
// CHECK-COUNT-5: shfl.sync.bfly.b32
// CHECK: st.shared.b32
// CHECK: bar.sync
// CHECK: ld.shared.b32
// CHECK-COUNT-7: shfl.sync.bfly.b32
// CHECK: bar.sync
// CHECK-NOT: bar.sync
// CHECK-NOT: ld.global
// CHECK-COUNT-4: st.global.v4.b32
// CHECK: ret;
func.func @block_rows(%x: tensor<?x4096xbf16, #train.dims<rows, 4096>>) {
  %0 = train.fusion(%x) : (tensor<?x4096xbf16, #train.dims<rows, 4096>>) -> tensor<?x4096xbf16, #train.dims<rows, 4096>> {
  ^bb0(%p: tensor<?x4096xbf16, #train.dims<rows, 4096>>):
    %a = train.cast %p : tensor<?x4096xbf16, #train.dims<rows, 4096>> -> tensor<?x4096xf32, #train.dims<rows, 4096>>
    %1 = train.reduce max %a axes = [1] : tensor<?x4096xf32, #train.dims<rows, 4096>> -> tensor<?xf32, #train.dims<rows>>
    %2 = train.broadcast %1 axes = [0] : tensor<?xf32, #train.dims<rows>> -> tensor<?x4096xf32, #train.dims<rows, 4096>>
    %3 = train.sub %a, %2 : tensor<?x4096xf32, #train.dims<rows, 4096>>
    %4 = train.exp %3 : tensor<?x4096xf32, #train.dims<rows, 4096>>
    %5 = train.reduce sum %4 axes = [1] : tensor<?x4096xf32, #train.dims<rows, 4096>> -> tensor<?xf32, #train.dims<rows>>
    %6 = train.broadcast %5 axes = [0] : tensor<?xf32, #train.dims<rows>> -> tensor<?x4096xf32, #train.dims<rows, 4096>>
    %7 = train.div %4, %6 : tensor<?x4096xf32, #train.dims<rows, 4096>>
    %8 = train.cast %7 : tensor<?x4096xf32, #train.dims<rows, 4096>> -> tensor<?x4096xbf16, #train.dims<rows, 4096>>
    train.yield %8 : tensor<?x4096xbf16, #train.dims<rows, 4096>>
  }
  return
}

// -----

// Too long for registers: the row is read twice. The sum of exponentials is part of the pass that
// finds the maximum, so the threads meet once.
// CHECK-LABEL: .entry kernel_0_row(
// CHECK-COUNT-5: ld.global{{(.nc)?}}.v4.b32
// CHECK: bar.sync
// CHECK-NOT: bar.sync
// CHECK-COUNT-5: ld.global{{(.nc)?}}.v4.b32
// CHECK-NOT: ld.global{{(.nc)?}}.b
// CHECK: ret;
func.func @loops(%x: tensor<?x50304xbf16, #train.dims<rows, 50304>>) {
  %0 = train.fusion(%x) : (tensor<?x50304xbf16, #train.dims<rows, 50304>>) -> tensor<?x50304xbf16, #train.dims<rows, 50304>> {
  ^bb0(%p: tensor<?x50304xbf16, #train.dims<rows, 50304>>):
    %a = train.cast %p : tensor<?x50304xbf16, #train.dims<rows, 50304>> -> tensor<?x50304xf32, #train.dims<rows, 50304>>
    %1 = train.reduce max %a axes = [1] : tensor<?x50304xf32, #train.dims<rows, 50304>> -> tensor<?xf32, #train.dims<rows>>
    %2 = train.broadcast %1 axes = [0] : tensor<?xf32, #train.dims<rows>> -> tensor<?x50304xf32, #train.dims<rows, 50304>>
    %3 = train.sub %a, %2 : tensor<?x50304xf32, #train.dims<rows, 50304>>
    %4 = train.exp %3 : tensor<?x50304xf32, #train.dims<rows, 50304>>
    %5 = train.reduce sum %4 axes = [1] : tensor<?x50304xf32, #train.dims<rows, 50304>> -> tensor<?xf32, #train.dims<rows>>
    %6 = train.broadcast %5 axes = [0] : tensor<?xf32, #train.dims<rows>> -> tensor<?x50304xf32, #train.dims<rows, 50304>>
    %7 = train.div %4, %6 : tensor<?x50304xf32, #train.dims<rows, 50304>>
    %8 = train.cast %7 : tensor<?x50304xf32, #train.dims<rows, 50304>> -> tensor<?x50304xbf16, #train.dims<rows, 50304>>
    train.yield %8 : tensor<?x50304xbf16, #train.dims<rows, 50304>>
  }
  return
}

// -----

// A size that is not known: a loop of vectors where they divide it, else one of scalars.
// CHECK-LABEL: .entry kernel_0_row(
// CHECK: ld.global.v4.b32
// CHECK: ld.global.b32
// CHECK: bar.sync
// CHECK: st.global.v4.b32
// CHECK: st.global.b32
// CHECK: ret;
func.func @symbolic(%x: tensor<?x?xf32, #train.dims<rows, n>>) {
  %0 = train.fusion(%x) : (tensor<?x?xf32, #train.dims<rows, n>>) -> tensor<?x?xf32, #train.dims<rows, n>> {
  ^bb0(%p: tensor<?x?xf32, #train.dims<rows, n>>):
    %1 = train.reduce max %p axes = [1] : tensor<?x?xf32, #train.dims<rows, n>> -> tensor<?xf32, #train.dims<rows>>
    %2 = train.broadcast %1 axes = [0] : tensor<?xf32, #train.dims<rows>> -> tensor<?x?xf32, #train.dims<rows, n>>
    %3 = train.sub %p, %2 : tensor<?x?xf32, #train.dims<rows, n>>
    %4 = train.exp %3 : tensor<?x?xf32, #train.dims<rows, n>>
    %5 = train.reduce sum %4 axes = [1] : tensor<?x?xf32, #train.dims<rows, n>> -> tensor<?xf32, #train.dims<rows>>
    %6 = train.broadcast %5 axes = [0] : tensor<?xf32, #train.dims<rows>> -> tensor<?x?xf32, #train.dims<rows, n>>
    %7 = train.div %4, %6 : tensor<?x?xf32, #train.dims<rows, n>>
    train.yield %7 : tensor<?x?xf32, #train.dims<rows, n>>
  }
  return
}

// -----

// A sum that picks one element loads it, and the rest of the kernel reads the row once.
// CHECK-LABEL: .entry kernel_0_row(
// CHECK-COUNT-5: ld.global{{(.nc)?}}.v4.b32
// CHECK: bar.sync
// CHECK-NOT: bar.sync
// CHECK-NOT: ld.global{{(.nc)?}}.v4
// CHECK: ret;
func.func @cross_entropy(%x: tensor<?x50304xbf16, #train.dims<rows, 50304>>, %labels: tensor<?xi64, #train.dims<rows>>) {
  %0 = train.fusion(%x, %labels) : (tensor<?x50304xbf16, #train.dims<rows, 50304>>, tensor<?xi64, #train.dims<rows>>) -> tensor<?xf32, #train.dims<rows>> {
  ^bb0(%p: tensor<?x50304xbf16, #train.dims<rows, 50304>>, %l: tensor<?xi64, #train.dims<rows>>):
    %a = train.cast %p : tensor<?x50304xbf16, #train.dims<rows, 50304>> -> tensor<?x50304xf32, #train.dims<rows, 50304>>
    %1 = train.reduce max %a axes = [1] : tensor<?x50304xf32, #train.dims<rows, 50304>> -> tensor<?xf32, #train.dims<rows>>
    %2 = train.broadcast %1 axes = [0] : tensor<?xf32, #train.dims<rows>> -> tensor<?x50304xf32, #train.dims<rows, 50304>>
    %3 = train.sub %a, %2 : tensor<?x50304xf32, #train.dims<rows, 50304>>
    %4 = train.exp %3 : tensor<?x50304xf32, #train.dims<rows, 50304>>
    %5 = train.reduce sum %4 axes = [1] : tensor<?x50304xf32, #train.dims<rows, 50304>> -> tensor<?xf32, #train.dims<rows>>
    %6 = train.log %5 : tensor<?xf32, #train.dims<rows>>
    %7 = train.iota 1 : tensor<?x50304xi64, #train.dims<rows, 50304>>
    %8 = train.broadcast %l axes = [0] : tensor<?xi64, #train.dims<rows>> -> tensor<?x50304xi64, #train.dims<rows, 50304>>
    %9 = train.compare eq %7, %8 : tensor<?x50304xi64, #train.dims<rows, 50304>> -> tensor<?x50304xi1, #train.dims<rows, 50304>>
    %10 = train.full 0.0 : f32 : tensor<?x50304xf32, #train.dims<rows, 50304>>
    %11 = train.select %9, %3, %10 : tensor<?x50304xi1, #train.dims<rows, 50304>>, tensor<?x50304xf32, #train.dims<rows, 50304>>
    %12 = train.reduce sum %11 axes = [1] : tensor<?x50304xf32, #train.dims<rows, 50304>> -> tensor<?xf32, #train.dims<rows>>
    %13 = train.sub %6, %12 : tensor<?xf32, #train.dims<rows>>
    train.yield %13 : tensor<?xf32, #train.dims<rows>>
  }
  return
}

// -----

// Dropout whose innermost coordinate is one number for all lanes: tokens that are packed lie along
// its last axis, lanes along the one before.
// CHECK-LABEL: .entry kernel_0_row(
// CHECK: st.global.v4.b32
// CHECK: ret;
func.func @dropout_across(%x: tensor<4096x768xf32>, %key: tensor<i64>, %place: tensor<4096xi32>) {
  %0:2 = train.fusion(%x, %key, %place) : (tensor<4096x768xf32>, tensor<i64>, tensor<4096xi32>) -> (tensor<4096xf32>, tensor<4096x768xf32>) {
  ^bb0(%a: tensor<4096x768xf32>, %k: tensor<i64>, %p: tensor<4096xi32>):
    %1 = train.transpose %a permutation = [1, 0] : tensor<4096x768xf32> -> tensor<768x4096xf32>
    %2 = train.broadcast %p axes = [1] : tensor<4096xi32> -> tensor<768x4096xi32>
    %3 = train.dropout %1, %k at %2 axes = [1] {ratio = 1.000000e-01 : f64} : tensor<768x4096xf32>, tensor<i64>, tensor<768x4096xi32>
    %4 = train.transpose %3 permutation = [1, 0] : tensor<768x4096xf32> -> tensor<4096x768xf32>
    %5 = train.reduce sum %4 axes = [1] : tensor<4096x768xf32> -> tensor<4096xf32>
    train.yield %5, %4 : tensor<4096xf32>, tensor<4096x768xf32>
  }
  return
}
