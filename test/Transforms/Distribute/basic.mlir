// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --distribute | FileCheck %s
// RUN: trainc-opt %s --distribute --remarks-filter=distribute --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: trainc-opt %s --distribute="bucket=8" | FileCheck %s --check-prefix=BUCKETS
// RUN: trainc-opt %s --distribute="narrow-apart" | FileCheck %s --check-prefix=APART
// RUN: trainc-opt %s --distribute --form-steps | FileCheck %s --check-prefix=STEPS

// REMARK: remark: {{.*}}56 bytes of gradients are summed up over all ranks: of 3 parameters, in 2 buckets

// Gradients of 16 bits travel as their accumulators; those of another type apart. The last ones come first.
// CHECK-LABEL: func.func @exchange
// CHECK-SAME: tensor<4xf64> {train.name = "c", train.role = "gradient"}
// CHECK-SAME: tensor<2xf32> {train.name = "b", train.role = "gradient"}
// CHECK-SAME: tensor<4xf32> {train.name = "a", train.role = "gradient"}
// CHECK-NEXT: %[[C:.*]] = train.all_reduce %{{.*}} {train.bucket = 0 : i64} : (tensor<4xf64>) -> tensor<4xf64>
// CHECK-NEXT: %[[BA:.*]]:2 = train.all_reduce %{{.*}}, %{{.*}} {train.bucket = 1 : i64} : (tensor<2xf32>, tensor<4xf32>) -> (tensor<2xf32>, tensor<4xf32>)
// CHECK-NEXT: return %[[BA]]#1, %[[BA]]#0, %[[C]]

// APART-LABEL: func.func @exchange
// APART: train.all_reduce %{{.*}} {train.bucket = 0 : i64} : (tensor<4xf64>) -> tensor<4xf64>
// APART-NEXT: train.all_reduce %{{.*}} {train.bucket = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32>
// APART-NEXT: train.all_reduce %{{.*}} {train.bucket = 2 : i64} : (tensor<4xf32>) -> tensor<4xf32>

// BUCKETS-LABEL: func.func @exchange
// BUCKETS-COUNT-3: train.all_reduce

// Whether a step is made is decided by all ranks before any update, and then their gradients are summed up.
// STEPS-LABEL: func.func @step
// STEPS-SAME: attributes {train.in_step = "step"}
// STEPS: %[[BAD:.*]] = train.cast %{{.*}} : tensor<i1> -> tensor<f32>
// STEPS: %[[RANKS:.*]] = train.all_reduce %[[BAD]] {train.bucket = 0 : i64, train.verdict} : (tensor<f32>) -> tensor<f32>
// STEPS: train.compare gt %[[RANKS]]
// STEPS: train.all_reduce %{{.*}} {train.bucket = 1 : i64} : (tensor<4xf64>) -> tensor<4xf64>
// STEPS: %[[BA:.*]]:2 = train.all_reduce %{{.*}} {train.bucket = 2 : i64} : (tensor<2xf32>, tensor<4xf32>) -> (tensor<2xf32>, tensor<4xf32>)
// STEPS: train.cast %[[BA]]#1 : tensor<4xf32> -> tensor<4xbf16>
// STEPS: train.select %{{.*}} {train.reports}
// Accumulators are summed up with the last micro-batch, or by a rank without one.
// STEPS-LABEL: func.func @micro
// STEPS-SAME: attributes {train.in_step = "micro"}
// STEPS: train.all_reduce %{{.*}} : (tensor<4xf64>) -> tensor<4xf64>
// STEPS: %[[BA:.*]]:2 = train.all_reduce %{{.*}} : (tensor<2xf32>, tensor<4xf32>) -> (tensor<2xf32>, tensor<4xf32>)
// STEPS: return %{{.*}}, %[[BA]]#1, %[[BA]]#0, %
// STEPS-LABEL: func.func @absent(
// STEPS-SAME: attributes {train.in_step = "micro"}
// STEPS-NEXT: train.all_reduce
// STEPS-NEXT: train.all_reduce
// STEPS-NEXT: return
// Without a batch there are zeros, and the same calls and updates.
// STEPS-LABEL: func.func @absent_step
// STEPS-SAME: attributes {train.in_step = "step"}
// STEPS-NOT: train.role = "loss"
// STEPS: train.all_reduce %{{.*}} {train.bucket = 0 : i64, train.verdict} : (tensor<f32>) -> tensor<f32>
// STEPS: train.full 0.0
// STEPS: train.all_reduce %{{.*}} {train.bucket = 1 : i64} : (tensor<4xf64>) -> tensor<4xf64>
// STEPS: train.all_reduce %{{.*}} {train.bucket = 2 : i64} : (tensor<2xf32>, tensor<4xf32>)
// STEPS: train.select %{{.*}} {train.reports}
// STEPS-LABEL: func.func @update
// STEPS-NOT: train.all_reduce
// STEPS-NOT: func.func @exchange

func.func @forward(%x: tensor<f32> {train.role = "input", train.name = "x"})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  return %x : tensor<f32>
}
func.func @gradients(%a: tensor<4xbf16> {train.role = "parameter", train.name = "a", train.trainable},
                     %b: tensor<2xf32> {train.role = "parameter", train.name = "b", train.trainable},
                     %c: tensor<4xf64> {train.role = "parameter", train.name = "c", train.trainable},
                     %x: tensor<f32> {train.role = "input", train.name = "x"})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"},
        tensor<4xbf16> {train.role = "gradient", train.name = "a"},
        tensor<2xf32> {train.role = "gradient", train.name = "b"},
        tensor<4xf64> {train.role = "gradient", train.name = "c"}) {
  return %x, %a, %b, %c : tensor<f32>, tensor<4xbf16>, tensor<2xf32>, tensor<4xf64>
}
func.func @update(%a: tensor<4xbf16> {train.role = "parameter", train.name = "a", train.trainable},
                  %b: tensor<2xf32> {train.role = "parameter", train.name = "b", train.trainable},
                  %c: tensor<4xf64> {train.role = "parameter", train.name = "c", train.trainable},
                  %ga: tensor<4xbf16> {train.role = "gradient", train.name = "a"},
                  %gb: tensor<2xf32> {train.role = "gradient", train.name = "b"},
                  %gc: tensor<4xf64> {train.role = "gradient", train.name = "c"})
    -> (tensor<4xbf16> {train.role = "update", train.updates = "parameter", train.name = "a"},
        tensor<2xf32> {train.role = "update", train.updates = "parameter", train.name = "b"},
        tensor<4xf64> {train.role = "update", train.updates = "parameter", train.name = "c"}) {
  %0 = train.sub %a, %ga : tensor<4xbf16>
  %1 = train.sub %b, %gb : tensor<2xf32>
  %2 = train.sub %c, %gc : tensor<4xf64>
  return %0, %1, %2 : tensor<4xbf16>, tensor<2xf32>, tensor<4xf64>
}
