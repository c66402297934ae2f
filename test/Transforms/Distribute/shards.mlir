// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --attach-optimizer="kind=adamw state=int8 clip shard-from=4096" --distribute | FileCheck %s
// RUN: trainc-opt %s --attach-optimizer="kind=sgd shard-from=4096" --distribute --remarks-filter=distribute --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: trainc-opt %s --attach-optimizer="kind=sgd shard-from=4096" --distribute --form-steps="loss-scaling" | FileCheck %s --check-prefix=STEPS
// RUN: trainc-opt %s --attach-optimizer="kind=sgd shard-from=4096" --distribute="each-micro" --form-steps | FileCheck %s --check-prefix=MICRO
// RUN: trainc-opt %s --attach-optimizer="kind=lamb shard-from=4096" | FileCheck %s --check-prefix=LAMB

// REMARK: remark: {{.*}}Published{{.*}}17408 bytes of new values are gathered from the shards of all ranks: of 1 parameters, in 1 buckets; 1 parameters are small and stay whole

// Rows of a block of state, 16 of which are never cut.
// CHECK-LABEL: func.func @update
// CHECK-SAME: %[[P:.*]]: tensor<?x256xf32, #train.dims<16*floordiv(world + 1, world), 256>> {train.name = "w", train.role = "parameter", train.shard = {of = tensor<64x68xf32>, unit = 4096 : i64}, train.trainable}
// CHECK-SAME: tensor<?x256xi8, #train.dims<16*floordiv(world + 1, world), 256>> {train.name = "w/exp_avg", train.role = "state", train.shard = {of = tensor<17x256xi8>, unit = 4096 : i64}}
// CHECK-SAME: tensor<?xf32, #train.dims<16*floordiv(world + 1, world)>> {train.name = "w/exp_avg.absmax", train.role = "state", train.shard = {of = tensor<17xf32>, unit = 16 : i64}}
// CHECK-SAME: tensor<8xf32> {train.name = "b/exp_avg", train.role = "state"}
// The norm is that of rows, whichever rank has them.
// CHECK: %[[R:.*]] = train.reduce sum %{{.*}} axes = [1] : tensor<?x256xf32{{.*}}> -> tensor<?xf32
// CHECK: %[[ALL:.*]] = train.all_gather %[[R]] units = [16] : {{.*}} -> tensor<17xf32>
// CHECK: train.reduce sum %[[ALL]] axes = [0]
// Random bits are those of places in the whole tensor.
// CHECK: %[[BITS:.*]] = train.random_bits
// CHECK: train.slice %[[BITS]] starts = <16*floordiv(world + 1, world)*rank, 0>

// CHECK-LABEL: func.func @exchange
// CHECK: train.all_reduce %{{.*}} : (tensor<8xf32>) -> tensor<8xf32>
// CHECK: train.reduce_scatter %{{.*}} units = [4096]{{.*}} : (tensor<64x68xf32>) -> tensor<?x256xf32
// CHECK-LABEL: func.func @shards
// CHECK: train.pad
// CHECK: train.slice %{{.*}} starts = <16*floordiv(world + 1, world)*rank, 0>
// CHECK-LABEL: func.func @publish
// CHECK-NEXT: train.all_gather %{{.*}} units = [4096] : {{.*}} -> tensor<64x68xf32>

// Whole outside, also in the step of one rank. An overflow on one rank is one on all; what is not finite stays out
// before the others get it.
// STEPS-LABEL: func.func @step
// STEPS-SAME: %{{.*}}: tensor<64x68xf32> {train.name = "w", train.role = "parameter", train.trainable}
// STEPS: train.reduce_scatter
// STEPS-LABEL: func.func @micro
// STEPS-NOT: train.reduce_scatter
// STEPS-LABEL: func.func @absent_step
// STEPS: train.reduce_scatter
// STEPS: train.all_reduce %{{.*}} {train.bucket = 3 : i64} : (tensor<f32>) -> tensor<f32>
// STEPS: train.all_gather
// STEPS-LABEL: func.func @update
// STEPS-SAME: tensor<64x68xf32> {train.name = "w", train.role = "gradient"}
// STEPS: %[[G:.*]] = train.reduce_scatter
// STEPS: %[[OVERFLOW:.*]] = train.cast %{{.*}} : tensor<i1> -> tensor<f32>
// STEPS: train.all_reduce %[[OVERFLOW]] : (tensor<f32>) -> tensor<f32>
// STEPS: train.sgd
// STEPS: %[[NEW:.*]] = train.select {{.*}} {train.reports} : tensor<?x256xi1
// STEPS: %[[WHOLE:.*]] = train.all_gather %[[NEW]]
// STEPS: return %[[WHOLE]]
// STEPS-NOT: func.func @publish

// The last gradient first, and sums of all ranks in the accumulators.
// MICRO-LABEL: func.func @micro
// MICRO-SAME: %[[ACC:[a-z0-9]+]]: tensor<?x256xf32, #train.dims<16*floordiv(world + 1, world), 256>> {train.name = "w", train.role = "gradient", train.shard
// MICRO-SAME: attributes {train.in_step = "micro"}
// MICRO: train.all_reduce
// MICRO: %[[SUM:.*]] = train.reduce_scatter
// MICRO: train.add %[[ACC]], %[[SUM]]
// MICRO-LABEL: func.func @absent
// MICRO-SAME: attributes {train.in_step = "micro"}
// MICRO: train.full 0.0
// MICRO: train.all_reduce
// MICRO: train.reduce_scatter
// MICRO-LABEL: func.func @update
// MICRO-NOT: train.reduce_scatter
// MICRO: train.all_gather

// LAMB-LABEL: func.func @update
// LAMB-COUNT-2: train.all_gather %{{.*}} units = [16]
// LAMB: train.lamb

train.symbol @world min 1 {train.run}
train.symbol @rank min 0 {train.run}
func.func @forward(%x: tensor<f32> {train.role = "input", train.name = "x"})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  return %x : tensor<f32>
}
func.func @gradients(%w: tensor<64x68xf32> {train.role = "parameter", train.name = "w", train.trainable},
                     %b: tensor<8xf32> {train.role = "parameter", train.name = "b", train.trainable},
                     %x: tensor<f32> {train.role = "input", train.name = "x"})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"},
        tensor<64x68xf32> {train.role = "gradient", train.name = "w"},
        tensor<8xf32> {train.role = "gradient", train.name = "b"}) {
  return %x, %w, %b : tensor<f32>, tensor<64x68xf32>, tensor<8xf32>
}
