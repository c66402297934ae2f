// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Pointwise kernels on the GPU: a thread reads 16 bytes of the narrowest type at once, all vectors
// before its first store.
// RUN: trainc-test-opt %s --split-input-file --test-codegen="target=cuda print-ptx remarks=false" -o /dev/null | FileCheck %s

// CHECK-LABEL: .entry kernel_0_pointwise(
// CHECK-COUNT-4: ld.global.v4.b32
// CHECK-COUNT-4: st.global.v4.b32
// CHECK-NOT: .global
// CHECK: ret;
func.func @f32(%x: tensor<4096x1024xf32>) {
  %0 = train.fusion(%x) : (tensor<4096x1024xf32>) -> tensor<4096x1024xf32> {
  ^bb0(%a: tensor<4096x1024xf32>):
    %1 = train.mul %a, %a : tensor<4096x1024xf32>
    train.yield %1 : tensor<4096x1024xf32>
  }
  return
}

// -----

// Eight elements a vector; sizes that are known to fit need no branch.
// CHECK-LABEL: .entry kernel_0_pointwise(
// CHECK-NOT: bra
// CHECK-COUNT-2: ld.global.v4.b32
// CHECK-NOT: bra
// CHECK-COUNT-2: st.global.v4.b32
// CHECK-NOT: bra
// CHECK: ret;
func.func @bf16(%x: tensor<4096x1024xbf16>) {
  %0 = train.fusion(%x) : (tensor<4096x1024xbf16>) -> tensor<4096x1024xbf16> {
  ^bb0(%a: tensor<4096x1024xbf16>):
    %1 = train.mul %a, %a : tensor<4096x1024xbf16>
    train.yield %1 : tensor<4096x1024xbf16>
  }
  return
}

// -----

// Vectors first, then what is behind the last whole one.
// CHECK-LABEL: .entry kernel_0_pointwise(
// CHECK-COUNT-4: ld.global.v4.b32
// CHECK-COUNT-4: st.global.v4.b32
// CHECK: ld.global.b32
// CHECK: st.global.b32
// CHECK: ret;
func.func @flat_tail(%x: tensor<?xf32, #train.dims<n>>) {
  %0 = train.fusion(%x) : (tensor<?xf32, #train.dims<n>>) -> tensor<?xf32, #train.dims<n>> {
  ^bb0(%a: tensor<?xf32, #train.dims<n>>):
    %1 = train.mul %a, %a : tensor<?xf32, #train.dims<n>>
    train.yield %1 : tensor<?xf32, #train.dims<n>>
  }
  return
}

// -----

// Rows of a size that is not known: vectors where they divide it, else scalars.
// CHECK-LABEL: .entry kernel_0_pointwise(
// CHECK: ld.global.v4.b32
// CHECK: ld.global.v4.b32
// CHECK-COUNT-2: st.global.v4.b32
// CHECK: ld.global.b16
// CHECK: ld.global.b16
// CHECK: st.global.b16
// CHECK: ret;
func.func @bias(%x: tensor<?x?xbf16, #train.dims<m, n>>, %b: tensor<?xbf16, #train.dims<n>>) {
  %0 = train.fusion(%x, %b) : (tensor<?x?xbf16, #train.dims<m, n>>, tensor<?xbf16, #train.dims<n>>) -> tensor<?x?xbf16, #train.dims<m, n>> {
  ^bb0(%a: tensor<?x?xbf16, #train.dims<m, n>>, %c: tensor<?xbf16, #train.dims<n>>):
    %1 = train.broadcast %c axes = [1] : tensor<?xbf16, #train.dims<n>> -> tensor<?x?xbf16, #train.dims<m, n>>
    %2 = train.add %a, %1 : tensor<?x?xbf16, #train.dims<m, n>>
    train.yield %2 : tensor<?x?xbf16, #train.dims<m, n>>
  }
  return
}

// -----

// Small elementwise kernels of known shapes are one kernel of any length; one that asks where an element is is not.
// CHECK-LABEL: .entry kernel_0_pointwise(
// CHECK-LABEL: .entry kernel_1_pointwise(
// CHECK-NOT: .entry
func.func @flat(%x: tensor<30x10xf32>, %y: tensor<7xf32>, %s: tensor<f32>) {
  %0 = train.fusion(%x, %s) : (tensor<30x10xf32>, tensor<f32>) -> tensor<30x10xf32> {
  ^bb0(%a: tensor<30x10xf32>, %b: tensor<f32>):
    %1 = train.broadcast %b axes = [] : tensor<f32> -> tensor<30x10xf32>
    %2 = train.mul %a, %1 : tensor<30x10xf32>
    train.yield %2 : tensor<30x10xf32>
  }
  %3 = train.fusion(%y, %s) : (tensor<7xf32>, tensor<f32>) -> tensor<7xf32> {
  ^bb0(%a: tensor<7xf32>, %b: tensor<f32>):
    %1 = train.broadcast %b axes = [] : tensor<f32> -> tensor<7xf32>
    %2 = train.mul %a, %1 : tensor<7xf32>
    train.yield %2 : tensor<7xf32>
  }
  %4 = train.fusion(%y) : (tensor<7xf32>) -> tensor<7xf32> {
  ^bb0(%a: tensor<7xf32>):
    %1 = train.iota 0 : tensor<7xf32>
    %2 = train.mul %a, %1 : tensor<7xf32>
    train.yield %2 : tensor<7xf32>
  }
  return
}

// -----

// Both halves of a joined result by one kernel: two vectors a thread, of each of which every input is read once and both
// halves are stored.
// CHECK-LABEL: .entry kernel_0_pointwise(
// CHECK-NOT: bra
// CHECK-COUNT-6: ld.global.v4.b32
// CHECK-COUNT-4: st.global.v4.b32
// CHECK-NOT: .global
// CHECK: ret;
func.func @halves(%dy: tensor<1024x1152xbf16>, %both: tensor<1024x2304xbf16>) {
  %0 = train.fusion(%dy, %both) : (tensor<1024x1152xbf16>, tensor<1024x2304xbf16>) -> tensor<1024x2304xbf16> {
  ^bb0(%a: tensor<1024x1152xbf16>, %b: tensor<1024x2304xbf16>):
    %gate = train.slice %b starts = <0, 0> steps = [1, 1] : tensor<1024x2304xbf16> -> tensor<1024x1152xbf16>
    %up = train.slice %b starts = <0, 1152> steps = [1, 1] : tensor<1024x2304xbf16> -> tensor<1024x1152xbf16>
    %1 = train.mul %a, %up : tensor<1024x1152xbf16>
    %2 = train.mul %a, %gate : tensor<1024x1152xbf16>
    %3 = train.concat %1, %2 axis = 1 : (tensor<1024x1152xbf16>, tensor<1024x1152xbf16>) -> tensor<1024x2304xbf16>
    train.yield %3 : tensor<1024x2304xbf16>
  }
  return
}

// -----

// A sigmoid is no division, which branches for special cases, and its exponential no denormal.
// CHECK-LABEL: .entry kernel_0_pointwise(
// CHECK-COUNT-8: ex2.approx.ftz.f32
// CHECK-COUNT-8: rcp.approx.ftz.f32
// CHECK-NOT: {{div|rcp}}.rn
// CHECK: ret;
func.func @sigmoid(%x: tensor<4096x1024xbf16>) {
  %0 = train.fusion(%x) : (tensor<4096x1024xbf16>) -> tensor<4096x1024xbf16> {
  ^bb0(%a: tensor<4096x1024xbf16>):
    %1 = train.cast %a : tensor<4096x1024xbf16> -> tensor<4096x1024xf32>
    %2 = train.sigmoid %1 : tensor<4096x1024xf32>
    %3 = train.cast %2 : tensor<4096x1024xf32> -> tensor<4096x1024xbf16>
    train.yield %3 : tensor<4096x1024xbf16>
  }
  return
}
