// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-test-opt %s --attach-optimizer="kind=sgd clip" --test-evaluate --mlir-disable-threading -o /dev/null | FileCheck %s

// torch.nn.utils.clip_grad_norm_([0.1, -0.2, 0.3], max_norm) for max_norm 0.2: [0.0534521, -0.106904, 0.160356]. The evaluator
// fills @update's arguments: parameter and gradient [0.5, -1, 1.5] (norm 1.87083), lr = clip_norm = weight_decay = 0.5, so
// p - 0.5 * (g * 0.5 / (1.87083 + 1e-6) + 0.5 * p).
// CHECK-LABEL: @update
// CHECK-NEXT: [3]: 0.308185 -0.616369 0.924554
func.func @gradients(%w: tensor<3xf64> {train.role = "parameter", train.name = "w", train.trainable})
    -> (tensor<f64> {train.role = "loss", train.name = "loss"}, tensor<3xf64> {train.role = "gradient", train.name = "w"}) {
  %0 = train.full 0.0 : f64 : tensor<f64>
  return %0, %w : tensor<f64>, tensor<3xf64>
}
