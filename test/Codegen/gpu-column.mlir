// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Column sums on the GPU: blocks of rows leave partial sums, a second launch adds them in order. No
// atomics.
// RUN: trainc-test-opt %s --split-input-file --test-codegen="target=cuda print-ptx remarks=false" -o /dev/null | FileCheck %s

// CHECK-LABEL: .entry kernel_0_column_pass0(
// CHECK-COUNT-4: ld.global.nc.v4.b32
// CHECK: bar.sync
// CHECK: st.global.v4.b32
// CHECK-NOT: atom
// CHECK-LABEL: .entry kernel_0_column_totals0(
// CHECK: ld.global.nc.v4.b32
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
// CHECK-COUNT-8: ld.global.nc.v4.b32
// CHECK: st.global.v4.b32
// CHECK-LABEL: .entry kernel_0_column_totals0(
// CHECK: ld.global.nc.v4.b32
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
// CHECK-COUNT-8: ld.global.nc.b32
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
