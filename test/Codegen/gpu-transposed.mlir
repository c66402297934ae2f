// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Inputs that lie across the results: 16 bytes along the inputs' innermost axis, 16 bytes along the
// results'; what is summed is read as it lies.
// RUN: trainc-test-opt %s --split-input-file --test-codegen="target=cuda print-ptx remarks=false" -o /dev/null | FileCheck %s

// A patch of 8 by 8; sizes that are known to fit need no branch.
// CHECK-LABEL: .entry kernel_0_pointwise(
// CHECK-NOT: bra
// CHECK-COUNT-8: ld.global.v4.b32
// CHECK-NOT: ld.global
// CHECK-NOT: bra
// CHECK-COUNT-8: st.global.v4.b32
// CHECK-NOT: .global
// CHECK: ret;
func.func @bf16(%x: tensor<32x1024x4096xbf16>) {
  %0 = train.fusion(%x) : (tensor<32x1024x4096xbf16>) -> tensor<32x4096x1024xbf16> {
  ^bb0(%a: tensor<32x1024x4096xbf16>):
    %1 = train.transpose %a permutation = [0, 2, 1] : tensor<32x1024x4096xbf16> -> tensor<32x4096x1024xbf16>
    train.yield %1 : tensor<32x4096x1024xbf16>
  }
  return
}

// -----

// 4 by 8 where the input is f32; another input is read along the results.
// CHECK-LABEL: .entry kernel_0_pointwise(
// CHECK-COUNT-8: ld.global.v4.b32
// CHECK-COUNT-4: ld.global.v4.b32
// CHECK-COUNT-4: st.global.v4.b32
// CHECK-NOT: .global
// CHECK: ret;
func.func @mixed(%x: tensor<4096x8192xf32>, %y: tensor<8192x4096xbf16>) {
  %0 = train.fusion(%x, %y) : (tensor<4096x8192xf32>, tensor<8192x4096xbf16>) -> tensor<8192x4096xbf16> {
  ^bb0(%a: tensor<4096x8192xf32>, %b: tensor<8192x4096xbf16>):
    %1 = train.transpose %a permutation = [1, 0] : tensor<4096x8192xf32> -> tensor<8192x4096xf32>
    %2 = train.cast %1 : tensor<8192x4096xf32> -> tensor<8192x4096xbf16>
    %3 = train.add %2, %b : tensor<8192x4096xbf16>
    train.yield %3 : tensor<8192x4096xbf16>
  }
  return
}

// -----

// Sizes that are not known: patches where whole ones divide both axes, else elements through shared
// memory.
// CHECK-LABEL: .entry kernel_0_pointwise(
// CHECK-COUNT-4: ld.global.v4.b32
// CHECK-COUNT-4: st.global.v4.b32
// CHECK: ld.global.b32
// CHECK: st.shared.b32
// CHECK: bar.sync
// CHECK: ld.shared.b32
// CHECK: st.global.b32
func.func @symbolic(%x: tensor<?x?xf32, #train.dims<m, n>>) {
  %0 = train.fusion(%x) : (tensor<?x?xf32, #train.dims<m, n>>) -> tensor<?x?xf32, #train.dims<n, m>> {
  ^bb0(%a: tensor<?x?xf32, #train.dims<m, n>>):
    %1 = train.transpose %a permutation = [1, 0] : tensor<?x?xf32, #train.dims<m, n>> -> tensor<?x?xf32, #train.dims<n, m>>
    train.yield %1 : tensor<?x?xf32, #train.dims<n, m>>
  }
  return
}

// -----

// CHECK-LABEL: .entry kernel_0_pointwise(
// CHECK-NOT: .global.v
// CHECK: ld.shared.b16
// CHECK-NOT: .global.v
// CHECK: ret;
func.func @odd(%x: tensor<4095x1023xbf16>) {
  %0 = train.fusion(%x) : (tensor<4095x1023xbf16>) -> tensor<1023x4095xbf16> {
  ^bb0(%a: tensor<4095x1023xbf16>):
    %1 = train.transpose %a permutation = [1, 0] : tensor<4095x1023xbf16> -> tensor<1023x4095xbf16>
    train.yield %1 : tensor<1023x4095xbf16>
  }
  return
}

// -----

// The innermost axis stays: no tile.
// CHECK-LABEL: .entry kernel_0_pointwise(
// CHECK-NOT: .shared
// CHECK-COUNT-2: ld.global.v4.b32
// CHECK-COUNT-2: st.global.v4.b32
// CHECK-NOT: .global
// CHECK: ret;
func.func @heads(%x: tensor<8x512x16x64xbf16>) {
  %0 = train.fusion(%x) : (tensor<8x512x16x64xbf16>) -> tensor<8x16x512x64xbf16> {
  ^bb0(%a: tensor<8x512x16x64xbf16>):
    %1 = train.transpose %a permutation = [0, 2, 1, 3] : tensor<8x512x16x64xbf16> -> tensor<8x16x512x64xbf16>
    train.yield %1 : tensor<8x16x512x64xbf16>
  }
  return
}

// -----

// CHECK-LABEL: .entry kernel_0_split_pass0(
// CHECK-NOT: ld.global.nc.b16
// CHECK: ld.global.nc.v4.b32
// CHECK-NOT: ld.global.nc.b16
// CHECK: ret;
func.func @sum(%x: tensor<32x1024x4096xbf16>) {
  %0 = train.fusion(%x) : (tensor<32x1024x4096xbf16>) -> tensor<f32> {
  ^bb0(%a: tensor<32x1024x4096xbf16>):
    %1 = train.cast %a : tensor<32x1024x4096xbf16> -> tensor<32x1024x4096xf32>
    %2 = train.transpose %1 permutation = [0, 2, 1] : tensor<32x1024x4096xf32> -> tensor<32x4096x1024xf32>
    %3 = train.reduce sum %2 axes = [0, 1, 2] : tensor<32x4096x1024xf32> -> tensor<f32>
    train.yield %3 : tensor<f32>
  }
  return
}
