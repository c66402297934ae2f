// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --shard-parameters="from=4096" | FileCheck %s
// RUN: trainc-opt %s --shard-parameters="from=4096" --remarks-filter=distribute --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: trainc-opt %s --autodiff --shard-parameters="from=4096" --attach-optimizer="kind=sgd shard-from=4096" --distribute="each-micro" --form-steps --canonicalize --cse --rematerialize-weights="only-marked shards" --align-collectives | FileCheck %s --check-prefix=STEPS
// RUN: not trainc-opt %s --shard-parameters="from=4095" 2>&1 | FileCheck %s --check-prefix=FEW
// RUN: not trainc-opt %S/../AttachOptimizer/invalid.mlir --shard-parameters="from=4096" 2>&1 | FileCheck %s --check-prefix=SYMBOLS

// FEW: error: expected shards of parameters of at least 4096 elements, got 4095
// SYMBOLS: error: expected the symbols of a run, @world and @rank, for shards
// REMARK: remark: {{.*}}Sharded{{.*}}2 parameters of 22016 bytes are shared out, and gathered where they are read

// Codes and floats, but no indices and nothing that is small; what evaluates makes its calls in one order.
// CHECK-LABEL: func.func @eval
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<?x256xf32, #train.dims<16*floordiv(world + 1, world), 256>> {train.name = "w", train.role = "parameter", train.shard = {of = tensor<64x68xf32>, unit = 4096 : i64}, train.trainable}
// CHECK-SAME: %[[CODES:[a-z0-9]+]]: tensor<?x256xi8, {{.*}}train.shard = {of = tensor<4608xi8>, unit = 4096 : i64}
// CHECK-SAME: tensor<4096xi32>
// CHECK-SAME: tensor<64xf32>
// CHECK-SAME: attributes {train.in_step = "eval"}
// CHECK-DAG: train.all_gather %[[W]] units = [4096] : {{.*}} -> tensor<64x68xf32>
// CHECK-DAG: train.all_gather %[[CODES]] units = [4096] : {{.*}} -> tensor<4608xi8>

// The gradient's sum where it is there, the weight once for the only layer; whoever has no batch makes the same calls.
// STEPS-LABEL: func.func @micro
// STEPS: train.all_gather
// STEPS-NOT: train.all_gather
// STEPS: train.reduce_scatter
// STEPS-LABEL: func.func @absent(
// STEPS: train.all_gather %{{.*}} {train.for_others
// STEPS: train.reduce_scatter
// STEPS-LABEL: func.func @absent_step(
// STEPS: train.all_gather %{{.*}} {train.for_others
// STEPS: train.all_reduce %{{.*}} {train.bucket = 0 : i64, train.verdict}
// STEPS: train.reduce_scatter
// STEPS-LABEL: func.func @update
// STEPS-SAME: %[[P:[a-z0-9]+]]: tensor<?x256xf32, {{[^{]*}}{train.name = "w", train.role = "parameter", train.shard
// STEPS-NOT: train.all_gather
// STEPS: return

train.symbol @world min 1 {train.run}
train.symbol @rank min 0 {train.run}
func.func @eval(%w: tensor<64x68xf32> {train.role = "parameter", train.name = "w", train.trainable},
                %codes: tensor<4608xi8> {train.role = "parameter", train.name = "c", train.part_of = "v"},
                %indices: tensor<4096xi32> {train.role = "parameter", train.name = "i"},
                %b: tensor<64xf32> {train.role = "parameter", train.name = "b"})
    -> (tensor<64x68xf32> {train.role = "output", train.name = "y"}, tensor<4608xi8> {train.role = "output", train.name = "z"}) {
  return %w, %codes : tensor<64x68xf32>, tensor<4608xi8>
}
func.func @forward(%w: tensor<64x68xf32> {train.role = "parameter", train.name = "w", train.trainable},
                   %x: tensor<4x64xf32> {train.role = "input", train.name = "x"})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %0 = train.matmul %x, %w : tensor<4x64xf32>, tensor<64x68xf32> -> tensor<4x68xf32>
  %1 = train.reduce sum %0 axes = [0, 1] : tensor<4x68xf32> -> tensor<f32>
  return %1 : tensor<f32>
}
