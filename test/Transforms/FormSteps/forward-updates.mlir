// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --autodiff | FileCheck %s --check-prefix=GRAD
// RUN: trainc-opt %s --form-eval --autodiff --attach-optimizer=kind=sgd --form-steps | FileCheck %s

// What the forward pass changes stays through differentiation; steps and micro-batches change it, guarded
// by the flag as updates are; evaluation reads the running value and changes nothing.

// GRAD-LABEL: func.func @gradients(
// GRAD-SAME: -> (tensor<f32> {train.name = "loss", train.role = "loss"}, tensor<8xf32> {train.name = "running", train.role = "update", train.updates = "parameter"}, tensor<8xf32> {train.name = "w", train.role = "gradient"})
// GRAD: train.in_training %[[P:.*]] else %{{.*}}
// The gradient goes to the first operand.
// GRAD-NOT: train.in_training

// CHECK-LABEL: func.func @step(
// CHECK-SAME: %[[R:[a-z0-9]+]]: tensor<8xf32> {train.name = "running", train.role = "parameter"}
// CHECK-SAME: -> (tensor<f32> {train.name = "loss", train.role = "loss"}, tensor<8xf32> {train.name = "running", train.role = "update", train.updates = "parameter"}, tensor<8xf32> {train.name = "w", train.role = "update", train.updates = "parameter"}, tensor<i32> {train.name = "nonfinite", train.role = "update", train.updates = "state"})
// CHECK: %[[NEW:.*]] = train.add %{{.*}}, %[[R]]
// CHECK: %[[GUARDED:.*]] = train.select %{{.*}}, %[[R]], %[[NEW]]
// CHECK: %[[KEPT:.*]] = train.select %{{.*}}, %[[R]], %[[GUARDED]]
// CHECK: %[[FINITE:.*]] = train.select %{{.*}}, %[[KEPT]], %[[KEPT]] {train.reports}
// CHECK: return %{{.*}}, %[[FINITE]], %{{.*}}, %{{.*}}

// CHECK-LABEL: func.func @micro(
// CHECK-SAME: %[[R:[a-z0-9]+]]: tensor<8xf32> {train.name = "running", train.role = "parameter"}
// CHECK-SAME: tensor<8xf32> {train.name = "running", train.role = "update", train.updates = "parameter"}, tensor<8xf32> {train.name = "w", train.role = "update", train.updates = "gradient"}
// CHECK: train.select %{{.*}}, %[[R]], %{{.*}}

// CHECK-LABEL: func.func @eval(
// CHECK-SAME: %[[R:[a-z0-9]+]]: tensor<8xf32> {train.name = "running", train.role = "parameter"}
// CHECK-NOT: "update"
// CHECK-NOT: train.in_training
// CHECK: %[[SUM:.*]] = train.reduce sum %[[R]]
// CHECK: return %[[SUM]]
func.func @forward(%w: tensor<8xf32> {train.role = "parameter", train.name = "w", train.trainable},
                   %running: tensor<8xf32> {train.role = "parameter", train.name = "running"},
                   %x: tensor<8xf32> {train.role = "input", train.name = "x"})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"},
        tensor<8xf32> {train.role = "update", train.name = "running", train.updates = "parameter"}) {
  %0 = train.mul %w, %x : tensor<8xf32>
  %1 = train.add %0, %running : tensor<8xf32>
  %2 = train.in_training %0 else %running : tensor<8xf32>
  %3 = train.reduce sum %2 axes = [0] : tensor<8xf32> -> tensor<f32>
  return %3, %1 : tensor<f32>, tensor<8xf32>
}
