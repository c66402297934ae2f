// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What kernels look like before lowering.
// RUN: trainc-test-opt %s --split-input-file --test-codegen="print remarks=false" | FileCheck %s

// One vector loop over blocks of 2048, then the rest masked. No mask where the size is known to fit.
// CHECK-LABEL: llvm.func @kernel_0_pointwise
// CHECK-SAME: (%{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr, %{{.*}}: i64, %{{.*}}: i64, %{{.*}}: !llvm.ptr)
// CHECK: scf.for
// CHECK: scf.for
// CHECK: llvm.load {{.*}} {alignment = 4 : i64} : !llvm.ptr -> vector<16xf32>
// CHECK: math.exp {{.*}} : vector<16xf32>
// CHECK: llvm.store {{.*}} : vector<16xf32>, !llvm.ptr
// CHECK: scf.for
// CHECK: llvm.intr.masked.load
// CHECK: llvm.intr.masked.store
func.func @tail(%x: tensor<?xf32, #train.dims<n>>) {
  %0 = train.fusion(%x) : (tensor<?xf32, #train.dims<n>>) -> tensor<?xf32, #train.dims<n>> {
  ^bb0(%a: tensor<?xf32, #train.dims<n>>):
    %1 = train.exp %a : tensor<?xf32, #train.dims<n>>
    train.yield %1 : tensor<?xf32, #train.dims<n>>
  }
  return
}

// -----

// The bias is read once a vector, the factor of the row once a row: before the inner loop.
// CHECK-LABEL: llvm.func @kernel_0_pointwise
// CHECK: scf.for
// CHECK: llvm.load {{.*}} : !llvm.ptr -> f32
// CHECK: scf.for
// CHECK-NOT: -> f32
// CHECK: llvm.load {{.*}} -> vector<16xf32>
// CHECK: llvm.load {{.*}} -> vector<16xf32>
// CHECK-NOT: masked
func.func @hoisted(%x: tensor<?x64xf32, #train.dims<n, 64>>, %bias: tensor<64xf32>, %factor: tensor<?xf32, #train.dims<n>>) {
  %0 = train.fusion(%x, %bias, %factor) : (tensor<?x64xf32, #train.dims<n, 64>>, tensor<64xf32>, tensor<?xf32, #train.dims<n>>) -> tensor<?x64xf32, #train.dims<n, 64>> {
  ^bb0(%a: tensor<?x64xf32, #train.dims<n, 64>>, %b: tensor<64xf32>, %f: tensor<?xf32, #train.dims<n>>):
    %1 = train.broadcast %b axes = [1] : tensor<64xf32> -> tensor<?x64xf32, #train.dims<n, 64>>
    %2 = train.broadcast %f axes = [0] : tensor<?xf32, #train.dims<n>> -> tensor<?x64xf32, #train.dims<n, 64>>
    %3 = train.mul %a, %2 : tensor<?x64xf32, #train.dims<n, 64>>
    %4 = train.add %3, %1 : tensor<?x64xf32, #train.dims<n, 64>>
    train.yield %4 : tensor<?x64xf32, #train.dims<n, 64>>
  }
  return
}

// -----

// Sums cascade: blocks of 32 vectors, of 64 blocks. Lanes are combined in a fixed tree. Nothing may be reassociated.
// CHECK-LABEL: llvm.func @kernel_0_row
// CHECK: scf.for {{.*}} iter_args
// CHECK: scf.for {{.*}} iter_args
// CHECK: scf.for {{.*}} iter_args
// CHECK: arith.addf {{.*}} : vector<16xf32>
// CHECK: arith.addf {{.*}} : vector<8xf32>
// CHECK: arith.addf {{.*}} : vector<4xf32>
// CHECK: arith.addf {{.*}} : vector<2xf32>
// CHECK-NOT: fastmath
func.func @cascade(%x: tensor<4x?xf32, #train.dims<4, n>>) {
  %0 = train.fusion(%x) : (tensor<4x?xf32, #train.dims<4, n>>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4x?xf32, #train.dims<4, n>>):
    %1 = train.reduce sum %a axes = [1] : tensor<4x?xf32, #train.dims<4, n>> -> tensor<4xf32>
    train.yield %1 : tensor<4xf32>
  }
  return
}

// -----

// Booleans are bytes in memory.
// CHECK-LABEL: llvm.func @kernel_0_pointwise
// CHECK: llvm.load {{.*}} -> vector<16xi8>
// CHECK: arith.cmpi ne
// CHECK: arith.extui {{.*}} : vector<16xi1> to vector<16xi8>
func.func @booleans(%x: tensor<16xi1>) {
  %0 = train.fusion(%x) : (tensor<16xi1>) -> tensor<16xi1> {
  ^bb0(%a: tensor<16xi1>):
    %1 = train.not %a : tensor<16xi1>
    train.yield %1 : tensor<16xi1>
  }
  return
}
