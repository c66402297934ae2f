// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --attach-optimizer="kind=sgd clip shard-from=4096" | FileCheck %s

// What a norm takes from the shards of all parameters travels at once; the sums are added up in the order of the parameters.
// CHECK-LABEL: func.func @update
// CHECK-DAG: %[[R0:.*]] = train.reduce sum %{{.*}} axes = [1] : tensor<?x208xf32{{.*}}> -> tensor<?xf32
// CHECK-DAG: %[[R1:.*]] = train.reduce sum %{{.*}} axes = [1] : tensor<?x256xf32{{.*}}> -> tensor<?xf32
// CHECK: %[[ALL:.*]]:2 = train.all_gather %[[R0]], %[[R1]] units
// CHECK-NOT: train.all_gather
// CHECK-DAG: %[[S0:.*]] = train.reduce sum %[[ALL]]#0 axes = [0]
// CHECK-DAG: %[[S1:.*]] = train.reduce sum %[[ALL]]#1 axes = [0]
// CHECK: %[[A:.*]] = train.add %[[S0]], %{{.*}}
// CHECK: train.add %[[A]], %[[S1]]
// CHECK: train.sqrt

train.symbol @world min 1 {train.run}
train.symbol @rank min 0 {train.run}
func.func @forward(%x: tensor<f32> {train.role = "input", train.name = "x"})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  return %x : tensor<f32>
}
func.func @gradients(%v: tensor<64x65xf32> {train.role = "parameter", train.name = "v", train.trainable},
                     %b: tensor<8xf32> {train.role = "parameter", train.name = "b", train.trainable},
                     %w: tensor<64x68xf32> {train.role = "parameter", train.name = "w", train.trainable},
                     %x: tensor<f32> {train.role = "input", train.name = "x"})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"},
        tensor<64x65xf32> {train.role = "gradient", train.name = "v"},
        tensor<8xf32> {train.role = "gradient", train.name = "b"},
        tensor<64x68xf32> {train.role = "gradient", train.name = "w"}) {
  return %x, %v, %b, %w : tensor<f32>, tensor<64x65xf32>, tensor<8xf32>, tensor<64x68xf32>
}
