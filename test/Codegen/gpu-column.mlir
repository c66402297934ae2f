// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Column sums on the GPU: blocks of rows leave partial sums, a second launch adds them in order. No
// atomics.
// RUN: trainc-test-opt %s --split-input-file --test-codegen="target=cuda print-ptx remarks=false" -o /dev/null | FileCheck %s

// CHECK-LABEL: .entry kernel_0_column_pass0(
// CHECK-COUNT-4: ld.global.v4.b32
// CHECK: bar.sync
// CHECK: st.global.v4.b32
// CHECK-NOT: atom
// CHECK-LABEL: .entry kernel_0_column_totals0(
// CHECK: ld.global.v4.b32
// CHECK: st.global.v4.b32
// CHECK-NOT: atom
// CHECK: ret;
func.func @bf16(%x: tensor<?x1024xbf16, #train.dims<m, 1024>>) {
  %0 = train.fusion(%x) : (tensor<?x1024xbf16, #train.dims<m, 1024>>) -> tensor<1024xf32> {
  ^bb0(%p: tensor<?x1024xbf16, #train.dims<m, 1024>>):
    %a = train.cast %p : tensor<?x1024xbf16, #train.dims<m, 1024>> -> tensor<?x1024xf32, #train.dims<m, 1024>>
    %1 = train.reduce sum %a axes = [0] : tensor<?x1024xf32, #train.dims<m, 1024>> -> tensor<1024xf32>
    train.yield %1 : tensor<1024xf32>
  }
  return
}

// -----

// CHECK-LABEL: .entry kernel_0_column_pass0(
// CHECK-COUNT-8: ld.global.v4.b32
// CHECK: st.global.v4.b32
// CHECK-LABEL: .entry kernel_0_column_totals0(
// CHECK: ld.global.v4.b32
// CHECK: st.global.v4.b32
// CHECK: ret;
func.func @f32(%x: tensor<8192x4096xf32>) {
  %0 = train.fusion(%x) : (tensor<8192x4096xf32>) -> tensor<4096xf32> {
  ^bb0(%p: tensor<8192x4096xf32>):
    %1 = train.reduce sum %p axes = [0] : tensor<8192x4096xf32> -> tensor<4096xf32>
    train.yield %1 : tensor<4096xf32>
  }
  return
}

// -----

// No vector divides the columns; there are so many that one launch does.
// CHECK-LABEL: .entry kernel_0_column(
// CHECK-COUNT-8: ld.global.b32
// CHECK: st.global.b32
// CHECK: ret;
func.func @odd(%x: tensor<8192x50257xf32>) {
  %0 = train.fusion(%x) : (tensor<8192x50257xf32>) -> tensor<50257xf32> {
  ^bb0(%p: tensor<8192x50257xf32>):
    %1 = train.reduce sum %p axes = [0] : tensor<8192x50257xf32> -> tensor<50257xf32>
    train.yield %1 : tensor<50257xf32>
  }
  return
}

// -----

// The gradient of a pool whose windows move by 2: a thread reads the four windows of a position once, divides each of their
// numbers once and without branches, and stores all four phases, where they belong.
// CHECK-LABEL: .entry kernel_0_column(
// CHECK-COUNT-4: ld.global.v4.b32
// CHECK-NOT: {{ld.global|div|bra}}
// CHECK-COUNT-4: st.global.v4.b32
// CHECK-NOT: {{ld.global|st.global}}
// CHECK: ret;
func.func @phases(%x: tensor<64x55x55x96xbf16>) {
  %0 = train.fusion(%x) : (tensor<64x55x55x96xbf16>) -> tensor<64x56x2x56x2x96xbf16> {
  ^bb0(%p: tensor<64x55x55x96xbf16>):
    %1 = train.cast %p : tensor<64x55x55x96xbf16> -> tensor<64x55x55x96xf32>
    %2 = train.full 9.0 : f32 : tensor<64x55x55x96xf32>
    %3 = train.div %1, %2 : tensor<64x55x55x96xf32>
    %4 = train.broadcast %3 axes = [2, 3, 4, 5] : tensor<64x55x55x96xf32> -> tensor<3x3x64x55x55x96xf32>
    %5 = train.pad %4 value = 0.0 : f32 low = <0, 0, 0, 0, 0, 0> : tensor<3x3x64x55x55x96xf32> -> tensor<4x4x64x55x55x96xf32>
    %6 = train.broadcast %5 axes = [0, 1, 2, 3, 5, 7] : tensor<4x4x64x55x55x96xf32> -> tensor<4x4x64x55x2x55x2x96xf32>
    %7 = train.window %6 axis = 0 taps = 4 stride = 2 dilation = 1 : tensor<4x4x64x55x2x55x2x96xf32> -> tensor<2x4x64x55x2x55x2x96xf32>
    %8 = train.window %7 axis = 1 taps = 6 stride = 2 dilation = 1 : tensor<2x4x64x55x2x55x2x96xf32> -> tensor<2x2x64x55x2x55x2x96xf32>
    %9 = train.spread %8 axis = 5 taps = 1 stride = 1 dilation = 1 : tensor<2x2x64x55x2x55x2x96xf32> -> tensor<2x2x64x55x2x56x2x96xf32>
    %10 = train.spread %9 axis = 3 taps = 0 stride = 1 dilation = 1 : tensor<2x2x64x55x2x56x2x96xf32> -> tensor<2x2x64x56x2x56x2x96xf32>
    %11 = train.reduce sum %10 axes = [0, 1] : tensor<2x2x64x56x2x56x2x96xf32> -> tensor<64x56x2x56x2x96xf32>
    %12 = train.cast %11 : tensor<64x56x2x56x2x96xf32> -> tensor<64x56x2x56x2x96xbf16>
    train.yield %12 : tensor<64x56x2x56x2x96xbf16>
  }
  return
}
