// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --distribute | FileCheck %s
// RUN: trainc-opt %s --distribute --remarks-filter=distribute --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: trainc-opt %s --distribute="bucket=16" | FileCheck %s --check-prefix=BUCKETS
// RUN: trainc-opt %s --distribute --form-steps | FileCheck %s --check-prefix=STEPS
// RUN: trainc-opt %s --distribute="with-last" --form-steps | FileCheck %s --check-prefix=LAST

// REMARK: remark: {{.*}}56 bytes of gradients are summed up over all ranks: of 3 parameters, in 2 buckets

// Gradients of 16 bits travel as their accumulators; those of another type apart.
// CHECK-LABEL: func.func @exchange
// CHECK-SAME: tensor<4xf32> {train.name = "a", train.role = "gradient"}
// CHECK-SAME: tensor<2xf32> {train.name = "b", train.role = "gradient"}
// CHECK-SAME: tensor<4xf64> {train.name = "c", train.role = "gradient"}
// CHECK-NEXT: %[[AB:.*]]:2 = train.all_reduce %{{.*}}, %{{.*}} : (tensor<4xf32>, tensor<2xf32>) -> (tensor<4xf32>, tensor<2xf32>)
// CHECK-NEXT: %[[C:.*]] = train.all_reduce %{{.*}} : (tensor<4xf64>) -> tensor<4xf64>
// CHECK-NEXT: return %[[AB]]#0, %[[AB]]#1, %[[C]]

// BUCKETS-LABEL: func.func @exchange
// BUCKETS-COUNT-3: train.all_reduce

// The step of one rank has none.
// STEPS-LABEL: func.func @step
// STEPS-NOT: train.all_reduce
// STEPS-LABEL: func.func @micro
// STEPS-NOT: train.all_reduce
// STEPS-LABEL: func.func @update
// STEPS: %[[AB:.*]]:2 = train.all_reduce
// STEPS: train.cast %[[AB]]#0 : tensor<4xf32> -> tensor<4xbf16>
// STEPS-NOT: func.func @exchange

// Accumulators are summed up with the last micro-batch, the last ones first, or by a rank without one.
// LAST-LABEL: func.func @micro
// LAST-SAME: attributes {train.in_step}
// LAST: train.all_reduce %{{.*}} : (tensor<4xf64>) -> tensor<4xf64>
// LAST: %[[BA:.*]]:2 = train.all_reduce %{{.*}} : (tensor<2xf32>, tensor<4xf32>) -> (tensor<2xf32>, tensor<4xf32>)
// LAST: return %{{.*}}, %[[BA]]#1, %[[BA]]#0, %
// LAST-LABEL: func.func @absent
// LAST-SAME: attributes {train.in_step}
// LAST-NEXT: train.all_reduce
// LAST-NEXT: train.all_reduce
// LAST-NEXT: return
// LAST-LABEL: func.func @update
// LAST-NOT: train.all_reduce

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
