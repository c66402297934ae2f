// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --decompose --cse | FileCheck %s

// CHECK-LABEL: func.func @sgd
// CHECK-SAME: %[[P:[a-z0-9]+]]: tensor<8xf32>, %[[G:[a-z0-9]+]]: tensor<8xf32>, %[[V:[a-z0-9]+]]: tensor<8xf32>
// CHECK: %[[DECAY:.*]] = train.mul %{{.*}}, %[[P]]
// CHECK: %[[D:.*]] = train.add %[[G]], %[[DECAY]]
// CHECK: %[[OLD:.*]] = train.mul %[[V]]
// CHECK: %[[MOVED:.*]] = train.add %[[OLD]], %[[D]]
// CHECK: %[[FIRST:.*]] = train.broadcast %{{.*}} : tensor<i1> -> tensor<8xi1>
// CHECK: %[[NEW:.*]] = train.select %[[FIRST]], %[[D]], %[[MOVED]]
// CHECK: %[[STEP:.*]] = train.mul %{{.*}}, %[[NEW]]
// CHECK: %[[RESULT:.*]] = train.sub %[[P]], %[[STEP]]
// CHECK: return %[[RESULT]], %[[NEW]]
func.func @sgd(%p: tensor<8xf32>, %g: tensor<8xf32>, %v: tensor<8xf32>, %lr: tensor<f32>, %wd: tensor<f32>, %t: tensor<i64>)
    -> (tensor<8xf32>, tensor<8xf32>) {
  %0, %1 = train.sgd %p, %g, %v, %lr, %wd, %t {momentum = 0.9 : f64}
      : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>, tensor<i64>) -> (tensor<8xf32>, tensor<8xf32>)
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}

// Scalars are computed in f64, once for two parameters; tensors in f32.
// CHECK-LABEL: func.func @adamw
// CHECK-COUNT-2: train.pow %{{.*}} : tensor<f64>
// CHECK-NOT: train.pow
// CHECK-NOT: x{{[0-9]*}}f64
// CHECK: return
func.func @adamw(%p: tensor<8xf32>, %g: tensor<8xf32>, %m: tensor<8xf32>, %v: tensor<8xf32>, %lr: tensor<f32>, %wd: tensor<f32>,
                 %t: tensor<i64>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0, %1, %2 = train.adam %p, %g, %m, %v, %lr, %wd, %t
      {beta1 = 0.9 : f64, beta2 = 0.999 : f64, epsilon = 1.0e-8 : f64, decoupled}
      : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>, tensor<i64>)
      -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  %3, %4, %5 = train.adam %g, %p, %m, %v, %lr, %wd, %t
      {beta1 = 0.9 : f64, beta2 = 0.999 : f64, epsilon = 1.0e-8 : f64, decoupled}
      : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>, tensor<i64>)
      -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  return %0, %3 : tensor<8xf32>, tensor<8xf32>
}

// The trust ratio: two norms over the whole parameter.
// CHECK-LABEL: func.func @lamb
// CHECK: train.reduce sum %{{.*}} axes = [0, 1] : tensor<2x4xf32> -> tensor<f32>
// CHECK: train.reduce sum %{{.*}} axes = [0, 1] : tensor<2x4xf32> -> tensor<f32>
// CHECK: train.and
func.func @lamb(%p: tensor<2x4xf32>, %g: tensor<2x4xf32>, %m: tensor<2x4xf32>, %v: tensor<2x4xf32>, %lr: tensor<f32>,
                %wd: tensor<f32>, %t: tensor<i64>) -> tensor<2x4xf32> {
  %0, %1, %2 = train.lamb %p, %g, %m, %v, %lr, %wd, %t {beta1 = 0.9 : f64, beta2 = 0.999 : f64, epsilon = 1.0e-6 : f64}
      : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<f32>, tensor<f32>, tensor<i64>)
      -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>)
  return %0 : tensor<2x4xf32>
}
