// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --decompose | FileCheck %s

// CHECK-LABEL: func.func @softmax
// CHECK: %[[MAX:.*]] = train.reduce max %[[X:[a-z0-9]+]] axes = [1]
// CHECK: %[[MAXES:.*]] = train.broadcast %[[MAX]] axes = [0]
// CHECK: %[[SHIFTED:.*]] = train.sub %[[X]], %[[MAXES]]
// CHECK: %[[E:.*]] = train.exp %[[SHIFTED]]
// CHECK: %[[SUM:.*]] = train.reduce sum %[[E]] axes = [1]
// CHECK: %[[SUMS:.*]] = train.broadcast %[[SUM]] axes = [0]
// CHECK: %[[Y:.*]] = train.div %[[E]], %[[SUMS]]
// CHECK: return %[[Y]]
func.func @softmax(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = train.softmax %x axis = 1 : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// Rows of -inf are shifted by 0 and divided by 1.
// CHECK-LABEL: func.func @guarded
// CHECK: %[[MAX:.*]] = train.reduce max
// CHECK: %[[INF:.*]] = train.full 0xFF800000
// CHECK: %[[DEAD:.*]] = train.compare eq %[[MAX]], %[[INF]]
// CHECK: train.select %[[DEAD]], %{{.*}}, %[[MAX]]
// CHECK: %[[SUM:.*]] = train.reduce sum
// CHECK: train.select %[[DEAD]], %{{.*}}, %[[SUM]]
func.func @guarded(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = train.softmax %x axis = 1 guarded : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// Half precision is computed in f32.
// CHECK-LABEL: func.func @half
// CHECK: train.cast %{{.*}} : tensor<4x8xbf16> -> tensor<4x8xf32>
// CHECK-NOT: xbf16
// CHECK: train.cast %{{.*}} : tensor<4x8xf32> -> tensor<4x8xbf16>
func.func @half(%x: tensor<4x8xbf16>) -> tensor<4x8xbf16> {
  %0 = train.log_softmax %x axis = 1 : tensor<4x8xbf16>
  return %0 : tensor<4x8xbf16>
}

// Two passes over a row; a symbolic row has its length from a size expression. Nobody uses mean and rstd.
// CHECK-LABEL: func.func @layer_norm
// CHECK: train.reduce sum
// CHECK: train.dim <seq> : tensor<f32>
// CHECK: train.sub
// CHECK: train.mul
// CHECK: train.reduce sum
// CHECK: train.rsqrt
// CHECK-NOT: train.layer_norm
func.func @layer_norm(%x: tensor<4x?xf32, #train.dims<4, seq>>, %s: tensor<?xf32, #train.dims<seq>>)
    -> tensor<4x?xf32, #train.dims<4, seq>> {
  %0, %m, %r = train.layer_norm %x, %s {axis = 1 : i64, epsilon = 1.0e-5 : f64}
      : (tensor<4x?xf32, #train.dims<4, seq>>, tensor<?xf32, #train.dims<seq>>)
      -> (tensor<4x?xf32, #train.dims<4, seq>>, tensor<4xf32>, tensor<4xf32>)
  return %0 : tensor<4x?xf32, #train.dims<4, seq>>
}

// The unused log-sum-exp leaves no op behind.
// CHECK-LABEL: func.func @cross_entropy
// CHECK: train.iota 1 : tensor<4x8xi32>
// CHECK-NOT: train.add
// CHECK: return
func.func @cross_entropy(%x: tensor<4x8xf32>, %y: tensor<4xi64>) -> tensor<4xf32> {
  %0, %lse = train.cross_entropy %x, %y : (tensor<4x8xf32>, tensor<4xi64>) -> (tensor<4xf32>, tensor<4xf32>)
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @unused
// CHECK-NEXT: return
func.func @unused(%x: tensor<4x8xf32>) {
  %0 = train.softmax %x axis = 1 : tensor<4x8xf32>
  return
}
