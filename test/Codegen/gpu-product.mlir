// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products that compute their right factor: tensor cores on numbers that never were in memory.
// RUN: trainc-test-opt %s --split-input-file --test-codegen="target=cuda print-ptx remarks=false" -o /dev/null | FileCheck %s

// Four codes a byte pair are one load, and the table of their numbers is in shared memory. Two tiles of 16 columns, two of
// 8 rows, and 4 steps of 16. Blocks share a sum of 4096.
// CHECK-LABEL: .entry kernel_0_product_parts(
// CHECK: st.shared.b32
// CHECK: bar.sync
// CHECK-NOT: ld.global.nc.b8
// CHECK: ld.global.nc.b32
// CHECK-NOT: ld.global.nc.b8
// CHECK: ld.shared.b32
// CHECK-COUNT-16: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// CHECK-NOT: mma.sync
// CHECK-LABEL: .entry kernel_0_product_sum(
// CHECK: ld.global.nc.v4.b32
// CHECK: st.global.v4.b32
func.func @transposed(%x: tensor<?x4096xbf16, #train.dims<n, 4096>>, %c: tensor<131072xi8>, %t: tensor<16xf32>, %s: tensor<4096xf32>,
    %a: tensor<?x64xbf16, #train.dims<n, 64>>) {
  %0 = train.fusion(%x, %c, %t, %s, %a) : (tensor<?x4096xbf16, #train.dims<n, 4096>>, tensor<131072xi8>, tensor<16xf32>, tensor<4096xf32>, tensor<?x64xbf16, #train.dims<n, 64>>) -> tensor<?x64xbf16, #train.dims<n, 64>> {
  ^bb0(%f: tensor<?x4096xbf16, #train.dims<n, 4096>>, %b: tensor<131072xi8>, %g: tensor<16xf32>, %h: tensor<4096xf32>, %i: tensor<?x64xbf16, #train.dims<n, 64>>):
    %1 = train.dequantize %b, %g, %h block 64 : (tensor<131072xi8>, tensor<16xf32>, tensor<4096xf32>) -> tensor<64x4096xf32>
    %2 = train.cast %1 : tensor<64x4096xf32> -> tensor<64x4096xbf16>
    %3 = train.matmul %f, %2 transposed plus %i streamed 16 : tensor<?x4096xbf16, #train.dims<n, 4096>>, tensor<64x4096xbf16>, tensor<?x64xbf16, #train.dims<n, 64>> -> tensor<?x64xbf16, #train.dims<n, 64>>
    train.yield %3 : tensor<?x64xbf16, #train.dims<n, 64>>
  }
  return
}

// -----

// Stored the other way, in f16; one block has all of a short sum.
// CHECK-LABEL: .entry kernel_0_product(
// CHECK-COUNT-8: mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
// CHECK-NOT: mma.sync
// CHECK: ret;
func.func @columns(%x: tensor<8x64xf16>, %w: tensor<64x64xi8>) {
  %0 = train.fusion(%x, %w) : (tensor<8x64xf16>, tensor<64x64xi8>) -> tensor<8x64xf16> {
  ^bb0(%f: tensor<8x64xf16>, %b: tensor<64x64xi8>):
    %1 = train.cast %b : tensor<64x64xi8> -> tensor<64x64xf16>
    %2 = train.matmul %f, %1 streamed 8 : tensor<8x64xf16>, tensor<64x64xf16> -> tensor<8x64xf16>
    train.yield %2 : tensor<8x64xf16>
  }
  return
}

// -----

// A table that is looked up under a condition stays where it is.
// CHECK-LABEL: .entry kernel_0_pointwise(
// CHECK-NOT: .shared
// CHECK: ret;
func.func @guarded(%t: tensor<16xf32>, %i: tensor<8x256xi64>) {
  %0 = train.fusion(%t, %i) : (tensor<16xf32>, tensor<8x256xi64>) -> tensor<8x512xf32> {
  ^bb0(%a: tensor<16xf32>, %b: tensor<8x256xi64>):
    %1 = train.gather %a, %b axis = 0 : tensor<16xf32>, tensor<8x256xi64> -> tensor<8x256xf32>
    %2 = train.neg %1 : tensor<8x256xf32>
    %3 = train.concat %1, %2 axis = 1 : (tensor<8x256xf32>, tensor<8x256xf32>) -> tensor<8x512xf32>
    train.yield %3 : tensor<8x512xf32>
  }
  return
}
