// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --attach-optimizer | FileCheck %s

// CHECK-LABEL: func.func @update(
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<8xf32> {train.decay_scale = 0.000000e+00 : f64, train.name = "w", train.role = "parameter", train.trainable}
// CHECK-SAME: %[[V:[a-z0-9]+]]: tensor<2xf32> {train.lr_scale = 5.000000e-01 : f64, train.name = "v", train.role = "parameter", train.trainable}
// CHECK-SAME: %[[GW:[a-z0-9]+]]: tensor<8xf32> {train.name = "w", train.role = "gradient"}
// CHECK-SAME: %[[GV:[a-z0-9]+]]: tensor<2xf32> {train.name = "v", train.role = "gradient"}
// CHECK-SAME: %[[MW:[a-z0-9]+]]: tensor<8xf32> {train.name = "w/exp_avg", train.role = "state"}
// CHECK-SAME: {train.name = "w/exp_avg_sq", train.role = "state"}
// CHECK-SAME: {train.name = "v/exp_avg", train.role = "state"}
// CHECK-SAME: {train.name = "v/exp_avg_sq", train.role = "state"}
// CHECK-SAME: %[[LR:[a-z0-9]+]]: tensor<f32> {train.name = "lr", train.role = "hyper"}
// CHECK-SAME: %[[WD:[a-z0-9]+]]: tensor<f32> {train.name = "weight_decay", train.role = "hyper"}
// CHECK-SAME: %[[STEP:[a-z0-9]+]]: tensor<i64> {train.name = "step", train.role = "hyper"}
// CHECK-NOT: clip_norm
// CHECK-NOT: unused
// CHECK-SAME: -> (tensor<8xf32> {train.name = "w", train.role = "update", train.updates = "parameter"}
// CHECK-SAME: tensor<8xf32> {train.name = "w/exp_avg", train.role = "update", train.updates = "state"}
// CHECK-SAME: train.optimizer = "adamw"
// CHECK: %[[NONE:.*]] = train.full 0.000000e+00
// CHECK: %[[WD0:.*]] = train.mul %[[WD]], %[[NONE]]
// CHECK: train.adam %[[W]], %[[GW]], %[[MW]], %{{.*}}, %[[LR]], %[[WD0]], %[[STEP]] {beta1 = 9.000000e-01 : f64, beta2 = 0.99{{.*}} : f64, decoupled, epsilon = 1.000000e-08 : f64}
// CHECK: %[[LR2:.*]] = train.mul %[[LR]]
// CHECK: train.adam %[[V]], %[[GV]], %{{.*}}, %{{.*}}, %[[LR2]], %[[WD]], %[[STEP]]
func.func @gradients(
    %w: tensor<8xf32> {train.role = "parameter", train.name = "w", train.trainable, train.decay_scale = 0.0 : f64},
    %v: tensor<2xf32> {train.role = "parameter", train.name = "v", train.trainable, train.lr_scale = 0.5 : f64},
    %frozen: tensor<2xf32> {train.role = "parameter", train.name = "frozen"},
    %unused: tensor<2xf32> {train.role = "parameter", train.name = "unused", train.trainable})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}, tensor<8xf32> {train.role = "gradient", train.name = "w"},
        tensor<2xf32> {train.role = "gradient", train.name = "v"},
        tensor<2xf32> {train.role = "gradient", train.name = "unused", train.unused}) {
  %0 = train.full 0.0 : f32 : tensor<f32>
  return %0, %w, %v, %unused : tensor<f32>, tensor<8xf32>, tensor<2xf32>, tensor<2xf32>
}
