// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --attach-optimizer="kind=adam grad-norm" --form-steps="micro=false" --canonicalize --cse --decompose --canonicalize --cse --form-kernels | FileCheck %s
// RUN: trainc-opt %s --attach-optimizer="kind=adam grad-norm" --form-steps="micro=false" --canonicalize --cse --decompose --canonicalize --cse --form-kernels=schedule-updates=false | FileCheck %s --check-prefix=LATE

// Each gradient is summed up beside its update, before the next one is made; the norm comes last, and is in no kernel that
// updates wait for.
// CHECK-LABEL: func.func @step(
// CHECK: %[[A:.*]] = train.matmul
// CHECK-NEXT: %[[SUM_A:.*]] = train.fusion(%[[A]]) : (tensor<64x64xf32>) -> tensor<f32>
// CHECK: train.fusion({{.*}}%[[A]]
// CHECK: %[[B:.*]] = train.matmul
// CHECK: %[[SUM_B:.*]] = train.fusion(%[[B]]) : (tensor<64x64xf32>) -> tensor<f32>
// CHECK: train.fusion({{.*}}%[[B]]
// CHECK-NOT: train.matmul
// CHECK: %[[NORM:.*]] = train.fusion(%[[SUM_A]], %[[SUM_B]]) : (tensor<f32>, tensor<f32>) -> tensor<f32>
// CHECK: return %{{.*}}, %[[NORM]],

// LATE-LABEL: func.func @step(
// LATE: train.matmul
// LATE-NOT: tensor<64x64xf32>) -> tensor<f32>
// LATE: train.matmul
func.func @forward() {
  return
}
func.func @gradients(%a: tensor<64x64xf32> {train.role = "parameter", train.name = "a", train.trainable},
                     %b: tensor<64x64xf32> {train.role = "parameter", train.name = "b", train.trainable},
                     %x: tensor<64x64xf32> {train.role = "input", train.name = "x"})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"},
        tensor<64x64xf32> {train.role = "gradient", train.name = "a"}, tensor<64x64xf32> {train.role = "gradient", train.name = "b"}) {
  %2 = train.reduce sum %x axes = [0, 1] : tensor<64x64xf32> -> tensor<f32>
  %0 = train.matmul %x, %x : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  %1 = train.matmul %0, %x : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  return %2, %0, %1 : tensor<f32>, tensor<64x64xf32>, tensor<64x64xf32>
}
