// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --insert-lora="rank=2 alpha=4 dora targets=up" | FileCheck %s
// RUN: trainc-opt %s --insert-lora="rank=2 alpha=4 dora dropout=0.5 targets=up" | FileCheck %s --check-prefix=DROP
// RUN: trainc-opt %s --insert-lora="rank=2 alpha=4 dora targets=down" | FileCheck %s --check-prefix=COLUMNS
// RUN: trainc-opt %s --insert-lora="rank=2 alpha=4 dora targets=up" --quantize-frozen --remarks-filter=quantize-frozen --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=QUANTIZED
// RUN: trainc-opt %s --insert-lora="rank=2 alpha=4 targets=up" | FileCheck %s --check-prefix=PLAIN

// The magnitude begins with the norms; those of the step are made of nothing as large as the weight,
// and no gradient goes to them.
// CHECK: dora = true
// CHECK-SAME: magnitude = "up.lora_magnitude_vector"
// CHECK: %[[A:arg[0-9]+]]: tensor<2x4xf32> {{[^%]*}}%[[B:arg[0-9]+]]: tensor<8x2xf32> {{[^%]*}}%[[M:arg[0-9]+]]: tensor<8xf32> {train.init = {axis = 0 : i64, norms_of = "up.weight"}, train.name = "up.lora_magnitude_vector", train.role = "parameter", train.trainable}
// CHECK: %[[SCALED:[0-9]+]] = train.mul %[[B]],
// CHECK: %[[SQUARED:[0-9]+]] = train.mul %[[W:[a-z0-9]+]], %[[W]]
// CHECK: %[[SQUARES:[0-9]+]] = train.reduce sum %[[SQUARED]] axes = [1]
// CHECK: %[[ALONG:[0-9]+]] = train.matmul %[[W]], %[[A]] transposed : tensor<8x4xf32>, tensor<2x4xf32>
// CHECK: train.matmul %[[A]], %[[A]] transposed
// CHECK: %[[NORM:[0-9]+]] = train.sqrt
// CHECK: %[[CONSTANT:[0-9]+]] = train.detach %[[NORM]]
// CHECK: %[[FACTOR:[0-9]+]] = train.div %[[M]], %[[CONSTANT]]
// CHECK: %[[Y:[0-9]+]] = train.matmul %{{[a-z0-9]+}}, %[[W]] transposed
// CHECK: %[[SUM:[0-9]+]] = train.add %[[Y]],
// CHECK: %[[EACH:[0-9]+]] = train.broadcast %[[FACTOR]] axes = [1]
// CHECK: %[[WHOLE:[0-9]+]] = train.mul %[[SUM]], %[[EACH]]
// The bias is not scaled.
// CHECK: train.add %[[WHOLE]], %{{.*}} : tensor<6x8xf32>

// With dropout what is scaled sees dropped numbers: a product of its own.
// DROP: %[[FACTOR:[0-9]+]] = train.div
// DROP: %[[Y:[0-9]+]] = train.matmul %[[X:[a-z0-9]+]], %[[W:[a-z0-9]+]] transposed
// DROP: %[[DROPPED:[0-9]+]] = train.dropout %[[X]]
// DROP: %[[AGAIN:[0-9]+]] = train.matmul %[[DROPPED]], %[[W]] transposed
// DROP: %[[SUM:[0-9]+]] = train.add %[[AGAIN]],
// DROP: %[[SCALED:[0-9]+]] = train.mul %[[SUM]],
// DROP: %[[MORE:[0-9]+]] = train.sub %[[SCALED]], %[[AGAIN]]
// DROP: train.add %[[Y]], %[[MORE]]

// A weight [in, out].
// COLUMNS: train.init = {axis = 1 : i64, norms_of = "down.weight"}
// COLUMNS: train.reduce sum %{{.*}} axes = [0] : tensor<8x5xf32> -> tensor<5xf32>

// Norms need all numbers, as products do: they do not keep a weight from being quantized. A result does.
// QUANTIZED-DAG: NotQuantized{{.*}}not only projections read it{{.*}}'down.weight' stays as it is
// QUANTIZED-DAG: Quantized{{.*}}'up.weight' is stored as nf4

// PLAIN: dora = false
// PLAIN-NOT: magnitude
func.func @forward(%up: tensor<8x4xf32> {train.role = "parameter", train.name = "up.weight", train.trainable},
    %bias: tensor<8xf32> {train.role = "parameter", train.name = "up.bias", train.trainable},
    %down: tensor<8x5xf32> {train.role = "parameter", train.name = "down.weight", train.trainable},
    %head: tensor<5x5xf32> {train.role = "parameter", train.name = "head.weight", train.trainable},
    %x: tensor<6x4xf32> {train.role = "input", train.name = "x"}) -> (tensor<6x5xf32> {train.role = "output", train.name = "y"}, tensor<8x5xf32> {train.role = "output", train.name = "kept"}) {
  %0 = train.matmul %x, %up transposed : tensor<6x4xf32>, tensor<8x4xf32> -> tensor<6x8xf32>
  %1 = train.broadcast %bias axes = [1] : tensor<8xf32> -> tensor<6x8xf32>
  %2 = train.add %0, %1 : tensor<6x8xf32>
  %3 = train.matmul %2, %down : tensor<6x8xf32>, tensor<8x5xf32> -> tensor<6x5xf32>
  %4 = train.matmul %3, %head transposed : tensor<6x5xf32>, tensor<5x5xf32> -> tensor<6x5xf32>
  %5 = train.mul %down, %down : tensor<8x5xf32>
  return %4, %5 : tensor<6x5xf32>, tensor<8x5xf32>
}
