// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --form-eval --autodiff --attach-optimizer=kind=sgd --form-steps | FileCheck %s
// RUN: trainc-opt %s --autodiff --attach-optimizer=kind=sgd --form-steps="micro=false" | FileCheck %s --check-prefix=ONLY
// RUN: trainc-opt %s --form-eval --form-steps | FileCheck %s --check-prefix=INFER
// RUN: trainc-opt %s --form-eval --autodiff --form-steps | FileCheck %s --check-prefix=NOOPT
// RUN: trainc-opt %s --autodiff --attach-optimizer="kind=sgd clip" --form-steps | FileCheck %s --check-prefix=CLIP
// RUN: trainc-opt %s --autodiff --attach-optimizer="kind=sgd grad-norm" --form-steps | FileCheck %s --check-prefix=GIVEN
// RUN: trainc-opt %s --autodiff --attach-optimizer=kind=adamw --form-steps="micro=false" | FileCheck %s --check-prefix=ADAM

// CHECK-NOT: @forward
// CHECK-NOT: @gradients

// CHECK-LABEL: func.func @step(
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<8xf32> {train.name = "w", train.role = "parameter", train.trainable}
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<8xf32> {train.name = "x", train.role = "input"}
// CHECK-SAME: %[[FLAG:[a-z0-9]+]]: tensor<i32> {train.name = "nonfinite", train.role = "state"}
// CHECK-SAME: {train.name = "seed", train.role = "hyper"}
// CHECK-SAME: {train.name = "grad_scale", train.role = "hyper"}
// CHECK-SAME: {train.name = "lr", train.role = "hyper"}
// CHECK-SAME: -> (tensor<f32> {train.name = "loss", train.role = "loss"}, tensor<8xf32> {train.name = "w", train.role = "update", train.updates = "parameter"}, tensor<i32> {train.name = "nonfinite", train.role = "update", train.updates = "state"})
// CHECK: %[[LOSS:.*]] = train.reduce sum
// CHECK: %[[NAN:.*]] = train.is_nan %[[LOSS]]
// CHECK: %[[INF:.*]] = train.is_inf %[[LOSS]]
// CHECK: %[[BAD:.*]] = train.or %[[NAN]], %[[INF]]
// CHECK: %[[ONE:.*]] = train.full 1 : i32
// CHECK: %[[NEW:.*]] = train.select %[[BAD]], %[[ONE]], %[[FLAG]]
// CHECK: %[[UPDATED:.*]] = train.sgd %[[W]]
// CHECK: %[[SET:.*]] = train.compare ne %[[NEW]]
// CHECK: %[[ALL:.*]] = train.broadcast %[[SET]]
// CHECK: %[[GUARDED:.*]] = train.select %[[ALL]], %[[W]], %[[UPDATED]]
// An element that was finite stays so, and the runtime is told.
// CHECK: %[[ZERO:.*]] = train.sub %[[GUARDED]], %[[GUARDED]]
// CHECK: %[[ISBAD:.*]] = train.is_nan %[[ZERO]]
// CHECK: %[[KEPT:.*]] = train.select %[[ISBAD]], %[[W]], %[[GUARDED]]
// CHECK: %[[OLDZERO:.*]] = train.sub %[[KEPT]], %[[KEPT]]
// CHECK: %[[WASGOOD:.*]] = train.compare eq %[[OLDZERO]]
// CHECK: %[[LOST:.*]] = train.and %[[ISBAD]], %[[WASGOOD]]
// CHECK: %[[FINITE:.*]] = train.select %[[LOST]], %[[KEPT]], %[[KEPT]] {train.reports}
// CHECK: return %[[LOSS]], %[[FINITE]], %[[NEW]]

// CHECK-LABEL: func.func @micro(
// CHECK-SAME: %[[ACC:[a-z0-9]+]]: tensor<8xf32> {train.name = "w", train.role = "gradient"}
// CHECK-NOT: "lr"
// CHECK-SAME: tensor<8xf32> {train.name = "w", train.role = "update", train.updates = "gradient"}, tensor<i32> {train.name = "nonfinite", train.role = "update", train.updates = "state"})
// CHECK: %[[SUM:.*]] = train.add %[[ACC]], %{{.*}}
// The update is left out where the runtime is told of a sum, which stays what it is.
// CHECK: %[[KEPT:.*]] = train.select %{{.*}}, %[[ACC]], %[[SUM]]
// CHECK: %[[TOLD:.*]] = train.select %{{.*}}, %[[KEPT]], %[[KEPT]] {train.reports}
// CHECK: return %{{.*}}, %[[TOLD]], %{{.*}}

// CHECK-LABEL: func.func @update(
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<8xf32> {train.name = "w", train.role = "parameter", train.trainable}
// CHECK-SAME: %[[FLAG:[a-z0-9]+]]: tensor<i32> {train.name = "nonfinite", train.role = "state"}
// CHECK-NOT: train.name = "nonfinite", train.role = "update"
// CHECK-SAME: train.optimizer = "sgd"
// CHECK: %[[UPDATED:.*]] = train.sgd
// CHECK: train.select %{{.*}}, %[[W]], %[[UPDATED]]

// Dropout is the identity, its seed is not asked for, and all outputs are there.
// CHECK-LABEL: func.func @eval(
// CHECK-NOT: "seed"
// CHECK-SAME: -> (tensor<f32> {train.loss_weight = "", train.name = "loss", train.role = "loss"}, tensor<8xf32> {train.name = "product", train.role = "output"})
// CHECK-NOT: train.dropout
// CHECK: return

// ONLY: func.func @step
// ONLY-NOT: func.func

// INFER-NOT: func.func @step
// INFER: func.func @eval
// INFER-NOT: func.func

// NOOPT-NOT: func.func @step
// NOOPT: func.func @micro
// NOOPT: func.func @eval
// The norm is known before any update, and belongs to what the flag says; also in @update.
// CLIP-LABEL: func.func @step(
// CLIP: %[[LOST:.*]] = train.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<i1>, tensor<i32>
// CLIP: %[[NORM:.*]] = train.sqrt %{{.*}} : tensor<f32>
// CLIP: %[[NAN:.*]] = train.is_nan %[[NORM]]
// CLIP: %[[INF:.*]] = train.is_inf %[[NORM]]
// CLIP: %[[BAD:.*]] = train.or %[[NAN]], %[[INF]]
// CLIP: %[[NEW:.*]] = train.select %[[BAD]], %{{.*}}, %[[LOST]]
// CLIP: train.compare ne %[[NEW]]
// CLIP: return %{{.*}}, %[[NORM]], %{{.*}}, %[[NEW]] : tensor<f32>, tensor<f32>, tensor<8xf32>, tensor<i32>
// CLIP-LABEL: func.func @update(
// CLIP-SAME: -> (tensor<f32> {train.grad_norm, train.name = "grad_norm", train.role = "output"}, tensor<8xf32> {train.name = "w", train.role = "update", train.updates = "parameter"}, tensor<i32> {train.name = "nonfinite", train.role = "update", train.updates = "state"})
// Without clipping the norm is told, and nothing waits for it; micro-batches have none.
// GIVEN-LABEL: func.func @step(
// GIVEN: %[[NORM:.*]] = train.sqrt %{{.*}} : tensor<f32>
// GIVEN-NOT: train.is_nan %[[NORM]]
// GIVEN: return %{{.*}}, %[[NORM]], %{{.*}}, %{{.*}} : tensor<f32>, tensor<f32>, tensor<8xf32>, tensor<i32>
// GIVEN-LABEL: func.func @micro(
// GIVEN-NOT: train.grad_norm
// GIVEN-LABEL: func.func @update(
// GIVEN-SAME: -> (tensor<f32> {train.grad_norm, train.name = "grad_norm", train.role = "output"}, tensor<8xf32> {train.name = "w", train.role = "update", train.updates = "parameter"})
// An element stays as it was in a parameter and its averages, and the runtime is told once, with the parameter.
// ADAM-LABEL: func.func @step(
// ADAM: %[[NEW:.*]], %[[M:.*]], %[[V:.*]] = train.adam
// ADAM-NOT: train.reports
// ADAM: %[[ANY:.*]] = train.or
// ADAM: %[[BAD:.*]] = train.or %[[ANY]]
// ADAM-NEXT: %[[KEPT:.*]] = train.select %[[BAD]], %arg0,
// ADAM-NEXT: %[[KEPTM:.*]] = train.select %[[BAD]],
// ADAM-NEXT: %[[KEPTV:.*]] = train.select %[[BAD]],
// ADAM: %[[TOLD:.*]] = train.select %{{.*}}, %[[KEPT]], %[[KEPT]] {train.reports}
// ADAM-NOT: train.reports
// ADAM: return %{{.*}}, %[[TOLD]], %[[KEPTM]], %[[KEPTV]],
func.func @forward(%w: tensor<8xf32> {train.role = "parameter", train.name = "w", train.trainable},
                   %x: tensor<8xf32> {train.role = "input", train.name = "x"},
                   %seed: tensor<i64> {train.role = "hyper", train.name = "seed"})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}, tensor<8xf32> {train.role = "output", train.name = "product"}) {
  %0 = train.mul %w, %x : tensor<8xf32>
  %1 = train.dropout %0, %seed {ratio = 0.5 : f64} : tensor<8xf32>, tensor<i64>
  %2 = train.reduce sum %1 axes = [0] : tensor<8xf32> -> tensor<f32>
  return %2, %1 : tensor<f32>, tensor<8xf32>
}
