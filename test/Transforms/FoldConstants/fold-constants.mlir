// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ops on constants are computed; everything else stays.
// RUN: trainc-opt %s --fold-constants --split-input-file | FileCheck %s
// RUN: trainc-opt %s --fold-constants --split-input-file --remarks-filter=fold-constants 2>&1 \
// RUN:   | FileCheck %s --check-prefix=REMARK
// RUN: trainc-opt %s --fold-constants='max-elements=1' --split-input-file \
// RUN:   | FileCheck %s --check-prefix=SMALL

// CHECK-LABEL: func.func @pointwise
// SMALL-LABEL: func.func @pointwise
func.func @pointwise() -> tensor<3xf32> {
  // CHECK-NEXT: %[[C:.*]] = train.constant dense<[5.000000e-01, 1.000000e+00, 1.500000e+00]> : tensor<3xf32>
  // CHECK-NEXT: return %[[C]]
  // SMALL: train.mul
  // REMARK: remark: {{.*}}FoldConstants{{.*}}folded train.mul
  %0 = train.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  %1 = train.full 0.5 : f32 : tensor<3xf32>
  %2 = train.mul %0, %1 : tensor<3xf32>
  return %2 : tensor<3xf32>
}

// -----
// Chains, reductions and element moves; rounded to the type after every op, as the program would.
// CHECK-LABEL: func.func @chain
func.func @chain() -> (tensor<f32>, tensor<2xi64>) {
  // CHECK-DAG: %[[S:.*]] = train.full 3.000000e+00 : f32 : tensor<f32>
  // CHECK-DAG: %[[G:.*]] = train.constant dense<[30, 10]> : tensor<2xi64>
  // CHECK: return %[[S]], %[[G]]
  %0 = train.constant dense<[16777216.0, 1.0]> : tensor<2xf32>
  %1 = train.full 1.0 : f32 : tensor<2xf32>
  %2 = train.add %0, %1 : tensor<2xf32>
  %3 = train.sub %2, %0 : tensor<2xf32>
  %4 = train.full 2.0 : f32 : tensor<2xf32>
  %5 = train.max %3, %4 : tensor<2xf32>
  %6 = train.reduce sum %3 axes = [0] : tensor<2xf32> -> tensor<f32>
  %7 = train.reduce max %5 axes = [0] : tensor<2xf32> -> tensor<f32>
  %8 = train.add %6, %7 : tensor<f32>
  %9 = train.constant dense<[10, 20, 30]> : tensor<3xi64>
  %10 = train.constant dense<[-1, 0]> : tensor<2xi64>
  %11 = train.gather %9, %10 axis = 0 : tensor<3xi64>, tensor<2xi64> -> tensor<2xi64>
  return %8, %11 : tensor<f32>, tensor<2xi64>
}

// -----
// Several results.
// CHECK-LABEL: func.func @split
func.func @split() -> (tensor<2xi32>, tensor<1xi32>) {
  // CHECK-DAG: train.constant dense<[1, 2]> : tensor<2xi32>
  // CHECK-DAG: train.full 3 : i32 : tensor<1xi32>
  // CHECK-NOT: train.split
  %0 = train.constant dense<[1, 2, 3]> : tensor<3xi32>
  %1:2 = train.split %0 axis = 0 : (tensor<3xi32>) -> (tensor<2xi32>, tensor<1xi32>)
  return %1#0, %1#1 : tensor<2xi32>, tensor<1xi32>
}

// -----
// Declines: an argument, a symbolic size, a large result, an index out of range, an integer that a double
// cannot hold.
// CHECK-LABEL: func.func @declined
func.func @declined(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<?xf32, #train.dims<n>>, tensor<2000xf32>, tensor<1xi64>, tensor<1xi64>) {
  %0 = train.full 1.0 : f32 : tensor<2xf32>
  // CHECK: train.div
  %1 = train.div %0, %x : tensor<2xf32>
  %2 = train.full 1.0 : f32 : tensor<f32>
  // CHECK: train.broadcast
  // REMARK: remark: {{.*}}FoldConstants{{.*}}the result has more than 1024 elements or a symbolic size
  %3 = train.broadcast %2 axes = [] : tensor<f32> -> tensor<?xf32, #train.dims<n>>
  // CHECK: train.broadcast
  // REMARK: remark: {{.*}}FoldConstants{{.*}}the result has more than 1024 elements or a symbolic size
  %4 = train.broadcast %2 axes = [] : tensor<f32> -> tensor<2000xf32>
  %5 = train.constant dense<[1, 2]> : tensor<2xi64>
  %6 = train.constant dense<[5]> : tensor<1xi64>
  // CHECK: train.gather
  %7 = train.gather %5, %6 axis = 0 : tensor<2xi64>, tensor<1xi64> -> tensor<1xi64>
  %8 = train.full 4611686018427387904 : i64 : tensor<1xi64>
  // CHECK: train.add
  %9 = train.add %8, %6 : tensor<1xi64>
  return %1, %3, %4, %7, %9 : tensor<2xf32>, tensor<?xf32, #train.dims<n>>, tensor<2000xf32>, tensor<1xi64>, tensor<1xi64>
}

// -----
// Segments that positions would tell apart, were they given: all tokens belong to the first. Nothing has a known
// size, and an index that could lie outside stays.
// CHECK-LABEL: func.func @segments
// CHECK: train.full true : tensor<2x?x?xi1
// CHECK: train.gather_nd
func.func @segments(%x: tensor<2x?xf32, #train.dims<2, n>>) -> (tensor<2x?x?xi1, #train.dims<2, n, n>>, tensor<?x1xi64, #train.dims<n + 1, 1>>) {
  %0 = train.iota 1 : tensor<2x?xi64, #train.dims<2, n>>
  %1 = train.slice %0 starts = <0, 0> steps = [1, 1] : tensor<2x?xi64, #train.dims<2, n>> -> tensor<2x1xi64>
  %2 = train.full 1 : i64 : tensor<2x1xi64>
  %3 = train.sub %1, %2 : tensor<2x1xi64>
  %4 = train.concat %3, %0 axis = 1 : (tensor<2x1xi64>, tensor<2x?xi64, #train.dims<2, n>>) -> tensor<2x?xi64, #train.dims<2, n + 1>>
  %5 = train.slice %4 starts = <0, 0> steps = [1, 1] : tensor<2x?xi64, #train.dims<2, n + 1>> -> tensor<2x?xi64, #train.dims<2, n>>
  %6 = train.slice %4 starts = <0, 1> steps = [1, 1] : tensor<2x?xi64, #train.dims<2, n + 1>> -> tensor<2x?xi64, #train.dims<2, n>>
  %7 = train.sub %6, %5 : tensor<2x?xi64, #train.dims<2, n>>
  %8 = train.full 1 : i64 : tensor<2x?xi64, #train.dims<2, n>>
  %9 = train.compare ne %7, %8 : tensor<2x?xi64, #train.dims<2, n>> -> tensor<2x?xi1, #train.dims<2, n>>
  %10 = train.cast %9 : tensor<2x?xi1, #train.dims<2, n>> -> tensor<2x?xi64, #train.dims<2, n>>
  %11 = train.cumsum %10 axis = 1 : tensor<2x?xi64, #train.dims<2, n>>
  %12 = train.iota 0 : tensor<2x?x1xi64, #train.dims<2, n, 1>>
  %13 = train.iota 1 : tensor<2x?x1xi64, #train.dims<2, n, 1>>
  %14 = train.concat %12, %13 axis = 2 : (tensor<2x?x1xi64, #train.dims<2, n, 1>>, tensor<2x?x1xi64, #train.dims<2, n, 1>>) -> tensor<2x?x2xi64, #train.dims<2, n, 2>>
  %15 = train.gather_nd %11, %14 batch_dims = 0 : tensor<2x?xi64, #train.dims<2, n>>, tensor<2x?x2xi64, #train.dims<2, n, 2>> -> tensor<2x?xi64, #train.dims<2, n>>
  %16 = train.broadcast %15 axes = [0, 1] : tensor<2x?xi64, #train.dims<2, n>> -> tensor<2x?x?xi64, #train.dims<2, n, n>>
  %17 = train.broadcast %11 axes = [0, 2] : tensor<2x?xi64, #train.dims<2, n>> -> tensor<2x?x?xi64, #train.dims<2, n, n>>
  %18 = train.compare eq %16, %17 : tensor<2x?x?xi64, #train.dims<2, n, n>> -> tensor<2x?x?xi1, #train.dims<2, n, n>>
  %19 = train.iota 0 : tensor<?x1xi64, #train.dims<n + 1, 1>>
  %20 = train.iota 0 : tensor<?x1xi64, #train.dims<n, 1>>
  %21 = train.gather_nd %20, %19 batch_dims = 0 : tensor<?x1xi64, #train.dims<n, 1>>, tensor<?x1xi64, #train.dims<n + 1, 1>> -> tensor<?x1xi64, #train.dims<n + 1, 1>>
  return %18, %21 : tensor<2x?x?xi1, #train.dims<2, n, n>>, tensor<?x1xi64, #train.dims<n + 1, 1>>
}

// What ranks do together, of constants, too: the others' are not known.
// CHECK-LABEL: func.func @collective
// CHECK: train.all_reduce
func.func @collective() -> tensor<2xf32> {
  %0 = train.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %1 = train.all_reduce %0 : (tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// -----
// Formulas of numbers that are the same everywhere, of any size: what masks nothing is gone.
// CHECK-LABEL: func.func @ones
// CHECK-DAG: %[[F:.*]] = train.full false : tensor<?x64x64xi1, #train.dims<n, 64, 64>>
// CHECK-DAG: %[[N:.*]] = train.log
// CHECK: return %[[F]], %[[N]]
// REMARK: FoldConstants{{.*}}folded train.mul: 1 everywhere
func.func @ones() -> (tensor<?x64x64xi1, #train.dims<n, 64, 64>>, tensor<?x64xf32, #train.dims<n, 64>>) {
  %0 = train.full 1.0 : f32 : tensor<?x64xf32, #train.dims<n, 64>>
  %1 = train.broadcast %0 axes = [0, 1] : tensor<?x64xf32, #train.dims<n, 64>> -> tensor<?x64x64xf32, #train.dims<n, 64, 64>>
  %2 = train.broadcast %0 axes = [0, 2] : tensor<?x64xf32, #train.dims<n, 64>> -> tensor<?x64x64xf32, #train.dims<n, 64, 64>>
  %3 = train.mul %1, %2 : tensor<?x64x64xf32, #train.dims<n, 64, 64>>
  %4 = train.cast %3 : tensor<?x64x64xf32, #train.dims<n, 64, 64>> -> tensor<?x64x64xi1, #train.dims<n, 64, 64>>
  %5 = train.not %4 : tensor<?x64x64xi1, #train.dims<n, 64, 64>>
  // Not a finite number.
  %zero = train.full 0.0 : f32 : tensor<?x64xf32, #train.dims<n, 64>>
  %6 = train.log %zero : tensor<?x64xf32, #train.dims<n, 64>>
  return %5, %6 : tensor<?x64x64xi1, #train.dims<n, 64, 64>>, tensor<?x64xf32, #train.dims<n, 64>>
}
