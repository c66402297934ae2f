// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --attach-optimizer="kind=sgd" | FileCheck %s --check-prefix=SGD
// RUN: trainc-opt %s --attach-optimizer="kind=sgd momentum=0.9 nesterov" | FileCheck %s --check-prefix=NESTEROV
// RUN: trainc-opt %s --attach-optimizer="kind=adam betas=0.8,0.9 eps=1e-6" | FileCheck %s --check-prefix=ADAM
// RUN: trainc-opt %s --attach-optimizer="kind=lamb" | FileCheck %s --check-prefix=LAMB
// RUN: trainc-opt %s --attach-optimizer="kind=sgd grad-norm" | FileCheck %s --check-prefix=GIVEN
// RUN: trainc-opt %s --attach-optimizer="kind=sgd clip" | FileCheck %s --check-prefix=CLIP

// SGD-LABEL: func.func @update(
// SGD-NOT: train.role = "state"
// SGD: train.sgd %{{.*}} {momentum = 0.000000e+00 : f64} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>, tensor<i64>) -> tensor<8xf32>

// NESTEROV-LABEL: func.func @update(
// NESTEROV-SAME: {train.name = "w/momentum_buffer", train.role = "state"}
// NESTEROV: train.sgd %{{.*}} {momentum = 9.000000e-01 : f64, nesterov} : {{.*}} -> (tensor<8xf32>, tensor<8xf32>)

// ADAM-LABEL: func.func @update(
// ADAM: train.adam %{{.*}} {beta1 = 8.000000e-01 : f64, beta2 = 9.000000e-01 : f64, epsilon = {{.*}}E-7 : f64}

// LAMB-LABEL: func.func @update(
// LAMB: train.lamb %{{.*}} epsilon = {{.*}}E-7 : f64}

// An output of the model has the name already. The update does not read the norm.
// GIVEN-LABEL: func.func @update(
// GIVEN-NOT: clip_norm
// GIVEN-SAME: tensor<f32> {train.grad_norm, train.name = "grad_norm_", train.role = "output"}
// GIVEN-NOT: "verdict"
// GIVEN: %[[SUM:.*]] = train.reduce sum %{{.*}} axes = [0]
// GIVEN: %[[NORM:.*]] = train.sqrt %[[SUM]]
// GIVEN-NEXT: %[[NEW:.*]] = train.sgd
// GIVEN-NEXT: return %[[NEW]], %[[NORM]]

// min(1, clip_norm / (norm + 1e-6)) times the gradient.
// CLIP-LABEL: func.func @update(
// CLIP-SAME: %[[G:[a-z0-9]+]]: tensor<8xf32> {train.name = "w", train.role = "gradient"}
// CLIP-SAME: %[[MAX:[a-z0-9]+]]: tensor<f32> {train.name = "clip_norm", train.role = "hyper"}
// CLIP: %[[SQUARE:.*]] = train.mul %[[G]], %[[G]]
// CLIP: %[[SUM:.*]] = train.reduce sum %[[SQUARE]] axes = [0]
// CLIP: %[[NORM:.*]] = train.sqrt %[[SUM]]
// CLIP: %[[SAFE:.*]] = train.add %[[NORM]]
// CLIP: %[[RATIO:.*]] = train.div %[[MAX]], %[[SAFE]]
// CLIP: %[[COEFFICIENT:.*]] = train.min %[[RATIO]]
// CLIP: %[[ALL:.*]] = train.broadcast %[[COEFFICIENT]]
// CLIP: %[[CLIPPED:.*]] = train.mul %[[G]], %[[ALL]]
// CLIP: %[[NEW:.*]] = train.sgd %{{[a-z0-9]+}}, %[[CLIPPED]],
// CLIP: return %[[NEW]], %[[NORM]], %[[NORM]]
func.func @gradients(%w: tensor<8xf32> {train.role = "parameter", train.name = "w", train.trainable})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}, tensor<8xf32> {train.role = "gradient", train.name = "w"}) {
  %0 = train.full 0.0 : f32 : tensor<f32>
  return %0, %w : tensor<f32>, tensor<8xf32>
}
func.func @eval(%w: tensor<8xf32> {train.role = "parameter", train.name = "w"})
    -> (tensor<8xf32> {train.role = "output", train.name = "grad_norm"}) {
  return %w : tensor<8xf32>
}
