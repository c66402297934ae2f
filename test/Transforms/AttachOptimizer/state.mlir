// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --attach-optimizer="state=int8" | FileCheck %s --check-prefix=INT8
// RUN: trainc-opt %s --attach-optimizer="state=bf16 clip" | FileCheck %s --check-prefix=BF16
// RUN: trainc-opt %s --attach-optimizer="state=fp32" | FileCheck %s --check-prefix=FP32
// RUN: trainc-opt %s --attach-optimizer="kind=sgd state=int8" | FileCheck %s --check-prefix=NONE
// RUN: not trainc-opt %s --attach-optimizer="state=int4" 2>&1 | FileCheck %s --check-prefix=BAD
// RUN: trainc-opt %s --attach-optimizer="state=int8 clip" --form-steps --canonicalize --cse --schedule-cuda | FileCheck %s --check-prefix=KERNELS
// RUN: trainc-opt %s --attach-optimizer="state=int8 clip" --form-steps --canonicalize --cse --schedule-cuda | FileCheck %s --check-prefix=CUDA
// RUN: trainc-opt %s --attach-optimizer="state=int8 clip" --form-steps --canonicalize --cse --schedule | FileCheck %s --check-prefix=KERNELS

// Blocks of 256, or of the largest divisor below (9600 = 40 * 240), or with a last one that is not full
// (4099 is prime); few elements stay f32.
// INT8-LABEL: func.func @update(
// INT8-SAME: tensor<32x256xi8> {train.name = "w/exp_avg", train.role = "state"}
// INT8-SAME: tensor<32xf32> {train.name = "w/exp_avg.absmax", train.role = "state"}
// INT8-SAME: tensor<32x256xi8> {train.name = "w/exp_avg_sq", train.role = "state"}
// INT8-SAME: tensor<32xf32> {train.name = "w/exp_avg_sq.absmax", train.role = "state"}
// INT8-SAME: tensor<40x240xi8> {train.name = "v/exp_avg", train.role = "state"}
// INT8-SAME: tensor<17x256xi8> {train.name = "p/exp_avg", train.role = "state"}
// INT8-SAME: tensor<100xf32> {train.name = "few/exp_avg", train.role = "state"}
// INT8-SAME: tensor<i64> {train.name = "step", train.role = "hyper"}
// INT8-SAME: tensor<i64> {train.name = "seed", train.role = "hyper"}
// INT8: train.reshape %{{.*}} : tensor<64x128xf32> -> tensor<32x256xf32>
// INT8: train.adam %{{.*}} : (tensor<32x256xf32>,
// INT8: train.pad %{{.*}} : tensor<4099xf32> -> tensor<4352xf32>
// INT8: train.adam %{{.*}} : (tensor<17x256xf32>,
// INT8: train.slice %{{.*}} : tensor<4352xf32> -> tensor<4099xf32>
// INT8: train.rng_key
// INT8: train.random_bits %{{.*}} -> tensor<32x256xi32>
// INT8: train.reduce max %{{.*}} axes = [1] : tensor<32x256xf32> -> tensor<32xf32>

// BF16-LABEL: func.func @update(
// BF16-SAME: tensor<64x128xbf16> {train.name = "w/exp_avg", train.role = "state"}
// BF16-SAME: tensor<100xbf16> {train.name = "few/exp_avg_sq", train.role = "state"}
// BF16-NOT: absmax
// BF16: train.random_bits %{{.*}} -> tensor<64x128xi32>

// FP32-LABEL: func.func @update(
// FP32-SAME: tensor<64x128xf32> {train.name = "w/exp_avg", train.role = "state"}
// A parameter of 16 bits has averages of 32.
// FP32-SAME: tensor<64x128xf32> {train.name = "h/exp_avg", train.role = "state"}
// FP32-NOT: train.random_bits

// Without state nothing is arranged for it.
// NONE-LABEL: func.func @update(
// NONE-NOT: train.reshape
// NONE-NOT: "seed"

// BAD: error: expected fp32, bf16 or int8 for the state, got 'int4'

// What loads, updates and stores is one kernel a parameter, a cast of its gradient included; a last
// block that is not full takes two more for the gradient and the parameter, and one back.
// KERNELS-LABEL: func.func @step(
// KERNELS: train.fusion({{.*}}tensor<32x256xf32>, tensor<32x256xi8>, tensor<32xf32>, tensor<32x256xi8>, tensor<32xf32>) {
// KERNELS-NEXT: ^bb0
// KERNELS: train.reduce max
// KERNELS: train.reduce max
// KERNELS: train.yield %{{.*}} : tensor<32x256xf32>, tensor<32x256xi8>, tensor<32xf32>, tensor<32x256xi8>, tensor<32xf32>

// CUDA-LABEL: func.func @step(
// CUDA: train.fusion({{.*}}) : (tensor<32x256xbf16>, {{.*}} -> (tensor<32x256xf32>, tensor<32x256xi8>, tensor<32xf32>, tensor<32x256xi8>, tensor<32xf32>) {
func.func @gradients(
    %w: tensor<64x128xf32> {train.role = "parameter", train.name = "w", train.trainable},
    %v: tensor<96x100xf32> {train.role = "parameter", train.name = "v", train.trainable},
    %p: tensor<4099xf32> {train.role = "parameter", train.name = "p", train.trainable},
    %few: tensor<100xf32> {train.role = "parameter", train.name = "few", train.trainable},
    %h: tensor<64x128xbf16> {train.role = "parameter", train.name = "h", train.trainable},
    %x: tensor<8x64xbf16> {train.role = "input", train.name = "x"},
    %y: tensor<8x128xbf16> {train.role = "input", train.name = "y"})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"},
        tensor<64x128xf32> {train.role = "gradient", train.name = "w"},
        tensor<96x100xf32> {train.role = "gradient", train.name = "v"},
        tensor<4099xf32> {train.role = "gradient", train.name = "p"},
        tensor<100xf32> {train.role = "gradient", train.name = "few"},
        tensor<64x128xbf16> {train.role = "gradient", train.name = "h"}) {
  %0 = train.full 0.0 : f32 : tensor<f32>
  %product = train.matmul %x transposed, %y : tensor<8x64xbf16>, tensor<8x128xbf16> -> tensor<64x128xbf16>
  %g = train.cast %product : tensor<64x128xbf16> -> tensor<64x128xf32>
  return %0, %g, %v, %p, %few, %product : tensor<f32>, tensor<64x128xf32>, tensor<96x100xf32>, tensor<4099xf32>, tensor<100xf32>, tensor<64x128xbf16>
}
func.func @forward() {
  return
}
