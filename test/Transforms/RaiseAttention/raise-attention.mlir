// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --raise-attention=type=bf16 --canonicalize --cse | FileCheck %s
// RUN: trainc-opt %s --raise-attention | FileCheck %s --check-prefix=F32
// RUN: trainc-opt %s --raise-attention="type=bf16 exact-dropout" | FileCheck %s --check-prefix=EXACT

// F32-NOT: train.attention

// A causal mask of coordinates, a symbolic length, a scale.
// CHECK-LABEL: func.func @causal
// CHECK-DAG: %[[Q:.*]] = train.cast %arg0 {{.*}}bf16
// CHECK-DAG: %[[K:.*]] = train.cast %arg1 {{.*}}bf16
// CHECK-DAG: %[[V:.*]] = train.cast %arg2 {{.*}}bf16
// CHECK: %[[O:.*]], %{{.*}} = train.attention %[[Q]], %[[K]], %[[V]] causal {dropout = 0.000000e+00 : f64, scale = 2.500000e-01 : f64}
// CHECK: train.cast %[[O]] {{.*}}f32
func.func @causal(%q: tensor<2x4x?x16xf32, #train.dims<2, 4, n, 16>>, %k: tensor<2x4x?x16xf32, #train.dims<2, 4, n, 16>>, %v: tensor<2x4x?x16xf32, #train.dims<2, 4, n, 16>>) -> tensor<2x4x?x16xf32, #train.dims<2, 4, n, 16>> {
  %0 = train.matmul %q, %k transposed : tensor<2x4x?x16xf32, #train.dims<2, 4, n, 16>>, tensor<2x4x?x16xf32, #train.dims<2, 4, n, 16>> -> tensor<2x4x?x?xf32, #train.dims<2, 4, n, n>>
  %1 = train.full 2.500000e-01 : f32 : tensor<2x4x?x?xf32, #train.dims<2, 4, n, n>>
  %2 = train.mul %0, %1 : tensor<2x4x?x?xf32, #train.dims<2, 4, n, n>>
  %3 = train.iota 3 : tensor<2x4x?x?xi64, #train.dims<2, 4, n, n>>
  %4 = train.iota 2 : tensor<2x4x?x?xi64, #train.dims<2, 4, n, n>>
  %5 = train.compare le %3, %4 : tensor<2x4x?x?xi64, #train.dims<2, 4, n, n>> -> tensor<2x4x?x?xi1, #train.dims<2, 4, n, n>>
  %6 = train.full 0xFF800000 : f32 : tensor<2x4x?x?xf32, #train.dims<2, 4, n, n>>
  %7 = train.select %5, %2, %6 : tensor<2x4x?x?xi1, #train.dims<2, 4, n, n>>, tensor<2x4x?x?xf32, #train.dims<2, 4, n, n>>
  %8 = train.softmax %7 axis = 3 : tensor<2x4x?x?xf32, #train.dims<2, 4, n, n>>
  %9 = train.matmul %8, %v : tensor<2x4x?x?xf32, #train.dims<2, 4, n, n>>, tensor<2x4x?x16xf32, #train.dims<2, 4, n, 16>> -> tensor<2x4x?x16xf32, #train.dims<2, 4, n, 16>>
  return %9 : tensor<2x4x?x16xf32, #train.dims<2, 4, n, 16>>
}

// Dropout of the weights, an added bias.
// CHECK-LABEL: func.func @dropout
// CHECK: train.attention {{.*}} bias %{{.*}} seed %{{.*}} {dropout = 1.000000e-01 : f64, scale = 1.000000e+00 : f64}
// EXACT-LABEL: func.func @dropout
// EXACT-NOT: train.attention
// EXACT: return
func.func @dropout(%q: tensor<2x4x32x16xf32>, %k: tensor<2x4x32x16xf32>, %v: tensor<2x4x32x16xf32>, %b: tensor<2x4x32x32xf32>, %key: tensor<i64>) -> tensor<2x4x32x16xf32> {
  %0 = train.matmul %q, %k transposed : tensor<2x4x32x16xf32>, tensor<2x4x32x16xf32> -> tensor<2x4x32x32xf32>
  %1 = train.add %0, %b : tensor<2x4x32x32xf32>
  %2 = train.softmax %1 axis = 3 : tensor<2x4x32x32xf32>
  %3 = train.dropout %2, %key {ratio = 1.000000e-01 : f64} : tensor<2x4x32x32xf32>, tensor<i64>
  %4 = train.matmul %3, %v : tensor<2x4x32x32xf32>, tensor<2x4x32x16xf32> -> tensor<2x4x32x16xf32>
  return %4 : tensor<2x4x32x16xf32>
}

// Slopes times positions (ALiBi) hide no column, so that the least float may beside them. All rows have the same, in f32.
// CHECK-LABEL: func.func @slopes
// CHECK: train.attention {{.*}} bias %{{.*}} causal {{.*}} tensor<2x4x1x32xf32>) ->
func.func @slopes(%q: tensor<2x4x32x16xf32>, %k: tensor<2x4x32x16xf32>, %v: tensor<2x4x32x16xf32>) -> tensor<2x4x32x16xf32> {
  %half = train.full 0.5 : f32 : tensor<4xf32>
  %heads = train.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %slopes = train.pow %half, %heads : tensor<4xf32>
  %ones = train.full 1.0 : f32 : tensor<2x32xf32>
  %counts = train.cumsum %ones axis = 1 : tensor<2x32xf32>
  %places = train.sub %counts, %ones : tensor<2x32xf32>
  %0 = train.broadcast %slopes axes = [1] : tensor<4xf32> -> tensor<2x4x32xf32>
  %1 = train.broadcast %places axes = [0, 2] : tensor<2x32xf32> -> tensor<2x4x32xf32>
  %m = train.mul %0, %1 : tensor<2x4x32xf32>
  %low = train.cast %m : tensor<2x4x32xf32> -> tensor<2x4x32xbf16>
  %2 = train.cast %low : tensor<2x4x32xbf16> -> tensor<2x4x32xf32>
  %3 = train.broadcast %2 axes = [0, 1, 3] : tensor<2x4x32xf32> -> tensor<2x4x32x32xf32>
  %4 = train.matmul %q, %k transposed : tensor<2x4x32x16xf32>, tensor<2x4x32x16xf32> -> tensor<2x4x32x32xf32>
  %5 = train.add %4, %3 : tensor<2x4x32x32xf32>
  %6 = train.iota 3 : tensor<2x4x32x32xi64>
  %7 = train.iota 2 : tensor<2x4x32x32xi64>
  %8 = train.compare le %6, %7 : tensor<2x4x32x32xi64> -> tensor<2x4x32x32xi1>
  %9 = train.full -3.40282347E+38 : f32 : tensor<2x4x32x32xf32>
  %10 = train.select %8, %5, %9 : tensor<2x4x32x32xi1>, tensor<2x4x32x32xf32>
  %11 = train.softmax %10 axis = 3 : tensor<2x4x32x32xf32>
  %12 = train.matmul %11, %v : tensor<2x4x32x32xf32>, tensor<2x4x32x16xf32> -> tensor<2x4x32x16xf32>
  return %12 : tensor<2x4x32x16xf32>
}

// A window of as many columns as there are hides none.
// CHECK-LABEL: func.func @wide_window
// CHECK: train.attention {{.*}} causal {dropout = 0.000000e+00 : f64, scale
func.func @wide_window(%q: tensor<2x4x32x16xf32>, %k: tensor<2x4x32x16xf32>, %v: tensor<2x4x32x16xf32>) -> tensor<2x4x32x16xf32> {
  %0 = train.matmul %q, %k transposed : tensor<2x4x32x16xf32>, tensor<2x4x32x16xf32> -> tensor<2x4x32x32xf32>
  %1 = train.iota 3 : tensor<2x4x32x32xi64>
  %2 = train.iota 2 : tensor<2x4x32x32xi64>
  %3 = train.full 32 : i64 : tensor<2x4x32x32xi64>
  %4 = train.sub %2, %3 : tensor<2x4x32x32xi64>
  %5 = train.compare gt %1, %4 : tensor<2x4x32x32xi64> -> tensor<2x4x32x32xi1>
  %6 = train.compare le %1, %2 : tensor<2x4x32x32xi64> -> tensor<2x4x32x32xi1>
  %7 = train.and %5, %6 : tensor<2x4x32x32xi1>
  %8 = train.full 0xFF800000 : f32 : tensor<2x4x32x32xf32>
  %9 = train.select %7, %0, %8 : tensor<2x4x32x32xi1>, tensor<2x4x32x32xf32>
  %10 = train.softmax %9 axis = 3 : tensor<2x4x32x32xf32>
  %11 = train.matmul %10, %v : tensor<2x4x32x32xf32>, tensor<2x4x32x16xf32> -> tensor<2x4x32x16xf32>
  return %11 : tensor<2x4x32x16xf32>
}

// What is added before the scores are scaled is scaled with them, and so is a mask.
// CHECK-LABEL: func.func @scaled
// CHECK: %[[HALF:.*]] = train.full 5.000000e-01 : f32
// CHECK: %[[BIAS:.*]] = train.mul %{{.*}}, %[[HALF]]
// CHECK: train.attention {{.*}} bias %{{.*}} causal {{.*}}scale = 5.000000e-01 : f64}
func.func @scaled(%q: tensor<2x4x32x16xf32>, %k: tensor<2x4x32x16xf32>, %v: tensor<2x4x32x16xf32>, %bias: tensor<2x4x32x32xf32>) -> tensor<2x4x32x16xf32> {
  %half = train.full 0.5 : f32 : tensor<2x4x32x32xf32>
  %0 = train.matmul %q, %k transposed : tensor<2x4x32x16xf32>, tensor<2x4x32x16xf32> -> tensor<2x4x32x32xf32>
  %1 = train.add %0, %bias : tensor<2x4x32x32xf32>
  %2 = train.iota 3 : tensor<2x4x32x32xi64>
  %3 = train.iota 2 : tensor<2x4x32x32xi64>
  %4 = train.compare le %2, %3 : tensor<2x4x32x32xi64> -> tensor<2x4x32x32xi1>
  %5 = train.full 0xFF800000 : f32 : tensor<2x4x32x32xf32>
  %6 = train.select %4, %1, %5 : tensor<2x4x32x32xi1>, tensor<2x4x32x32xf32>
  %7 = train.mul %6, %half : tensor<2x4x32x32xf32>
  %8 = train.softmax %7 axis = 3 : tensor<2x4x32x32xf32>
  %9 = train.matmul %8, %v : tensor<2x4x32x32xf32>, tensor<2x4x32x16xf32> -> tensor<2x4x32x16xf32>
  return %9 : tensor<2x4x32x16xf32>
}

// Declines: something else reads the weights; the softmax runs along the rows.
// CHECK-LABEL: func.func @others
// CHECK-NOT: train.attention
func.func @others(%q: tensor<2x4x32x16xf32>, %k: tensor<2x4x32x16xf32>, %v: tensor<2x4x32x16xf32>) -> (tensor<2x4x32x16xf32>, tensor<2x4x32x32xf32>, tensor<2x4x32x16xf32>) {
  %0 = train.matmul %q, %k transposed : tensor<2x4x32x16xf32>, tensor<2x4x32x16xf32> -> tensor<2x4x32x32xf32>
  %1 = train.softmax %0 axis = 3 : tensor<2x4x32x32xf32>
  %2 = train.matmul %1, %v : tensor<2x4x32x32xf32>, tensor<2x4x32x16xf32> -> tensor<2x4x32x16xf32>
  %3 = train.softmax %0 axis = 2 : tensor<2x4x32x32xf32>
  %4 = train.matmul %3, %v : tensor<2x4x32x32xf32>, tensor<2x4x32x16xf32> -> tensor<2x4x32x16xf32>
  return %2, %1, %4 : tensor<2x4x32x16xf32>, tensor<2x4x32x32xf32>, tensor<2x4x32x16xf32>
}
