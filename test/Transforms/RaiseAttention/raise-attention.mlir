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
func.func @dropout(%q: tensor<2x4x32x16xf32>, %k: tensor<2x4x32x16xf32>, %v: tensor<2x4x32x16xf32>, %b: tensor<2x4x32x32xf32>, %key: tensor<i64>) -> tensor<2x4x32x16xf32> {
  %0 = train.matmul %q, %k transposed : tensor<2x4x32x16xf32>, tensor<2x4x32x16xf32> -> tensor<2x4x32x32xf32>
  %1 = train.add %0, %b : tensor<2x4x32x32xf32>
  %2 = train.softmax %1 axis = 3 : tensor<2x4x32x32xf32>
  %3 = train.dropout %2, %key {ratio = 1.000000e-01 : f64} : tensor<2x4x32x32xf32>, tensor<i64>
  %4 = train.matmul %3, %v : tensor<2x4x32x32xf32>, tensor<2x4x32x16xf32> -> tensor<2x4x32x16xf32>
  return %4 : tensor<2x4x32x16xf32>
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
