// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Behind convolutions the low type carries on where PyTorch's autocast has it, and is rounded to where it is stored.
// RUN: trainc-opt %s --split-input-file --mixed-precision=type=bf16 --canonicalize --cse | FileCheck %s
// RUN: trainc-opt %s --split-input-file --mixed-precision=type=bf16 --remark-format=emitRemark --remarks-filter="mixed-precision" 2>&1 | FileCheck %s --check-prefix=REMARK

// A residual sum behind batch normalisation: both readers get the number that is stored. What relu gives is rounded before it, so
// that its gradient is of the low type.
// CHECK-LABEL: func.func @residual
// CHECK: %[[S:.*]] = train.add {{.*}}f32>
// CHECK: %[[L:.*]] = train.cast %[[S]] : {{.*}}f32> -> {{.*}}bf16>
// CHECK: %[[Y:.*]] = train.relu %[[L]] : tensor<2x3x3x8xbf16>
// CHECK: %[[W:.*]] = train.cast %[[Y]] : {{.*}}bf16> -> {{.*}}f32>
// CHECK: %[[C:.*]] = train.conv %[[Y]]
// CHECK: %[[D:.*]] = train.cast %[[C]] : {{.*}}bf16> -> {{.*}}f32>
// CHECK: train.add %[[D]], %[[W]]
// REMARK: remark: [Passed] Carried | Category:mixed-precision{{.*}}Function=residual
// REMARK-SAME: Reason="a convolution is among what it is made of, as autocast has it", Remark="train.relu is stored in bf16"
func.func @residual(%x: tensor<2x3x3x8xf32>, %w: tensor<8x3x3x8xf32> {train.role = "parameter"}, %gamma: tensor<8xf32> {train.role = "parameter"}) -> tensor<2x3x3x8xf32> {
  %0 = train.conv %x, %w strides = [1, 1] dilations = [1, 1] low = <1, 1> high = <1, 1> groups = 1 : (tensor<2x3x3x8xf32>, tensor<8x3x3x8xf32>) -> tensor<2x3x3x8xf32>
  %1 = train.reduce sum %0 axes = [0, 1, 2] : tensor<2x3x3x8xf32> -> tensor<8xf32>
  %2 = train.broadcast %1 axes = [3] : tensor<8xf32> -> tensor<2x3x3x8xf32>
  %3 = train.sub %0, %2 : tensor<2x3x3x8xf32>
  %4 = train.broadcast %gamma axes = [3] : tensor<8xf32> -> tensor<2x3x3x8xf32>
  %5 = train.mul %3, %4 : tensor<2x3x3x8xf32>
  %6 = train.add %5, %0 : tensor<2x3x3x8xf32>
  %7 = train.relu %6 : tensor<2x3x3x8xf32>
  %8 = train.conv %7, %w strides = [1, 1] dilations = [1, 1] low = <1, 1> high = <1, 1> groups = 1 : (tensor<2x3x3x8xf32>, tensor<8x3x3x8xf32>) -> tensor<2x3x3x8xf32>
  %9 = train.add %8, %7 : tensor<2x3x3x8xf32>
  return %9 : tensor<2x3x3x8xf32>
}

// -----

// A parameter that multiplies a product makes f32 of it: layer scale. The sum is rounded for the convolution alone.
// CHECK-LABEL: func.func @layer_scale
// CHECK: train.mul
// CHECK: %[[S:.*]] = train.add {{.*}}f32>
// CHECK: %[[L:.*]] = train.cast %[[S]] : {{.*}}f32> -> {{.*}}bf16>
// CHECK: %[[C:.*]] = train.conv %[[L]]
// CHECK: %[[D:.*]] = train.cast %[[C]]
// CHECK: train.add %[[D]], %[[S]]
func.func @layer_scale(%x: tensor<2x3x3x8xf32>, %w: tensor<8x3x3x8xf32> {train.role = "parameter"}, %bias: tensor<8xf32> {train.role = "parameter"}) -> tensor<2x3x3x8xf32> {
  %0 = train.conv %x, %w strides = [1, 1] dilations = [1, 1] low = <1, 1> high = <1, 1> groups = 1 : (tensor<2x3x3x8xf32>, tensor<8x3x3x8xf32>) -> tensor<2x3x3x8xf32>
  %1 = train.broadcast %bias axes = [3] : tensor<8xf32> -> tensor<2x3x3x8xf32>
  %2 = train.add %0, %1 : tensor<2x3x3x8xf32>
  %3 = train.mul %2, %1 : tensor<2x3x3x8xf32>
  %4 = train.add %3, %2 : tensor<2x3x3x8xf32>
  %5 = train.conv %4, %w strides = [1, 1] dilations = [1, 1] low = <1, 1> high = <1, 1> groups = 1 : (tensor<2x3x3x8xf32>, tensor<8x3x3x8xf32>) -> tensor<2x3x3x8xf32>
  %6 = train.add %5, %4 : tensor<2x3x3x8xf32>
  return %6 : tensor<2x3x3x8xf32>
}

// -----

// Statistics of a sample, as layer normalisation has them, give f32, and so does a residual sum with their result.
// CHECK-LABEL: func.func @sample_norm
// CHECK: %[[M:.*]] = train.sub {{.*}}f32>
// CHECK: %[[S:.*]] = train.add %[[M]], {{.*}}f32>
// CHECK: %[[C:.*]] = train.conv
// CHECK: %[[D:.*]] = train.cast %[[C]]
// CHECK: train.add %[[D]], %[[S]]
func.func @sample_norm(%x: tensor<2x3x3x8xf32>, %w: tensor<8x3x3x8xf32> {train.role = "parameter"}) -> tensor<2x3x3x8xf32> {
  %0 = train.conv %x, %w strides = [1, 1] dilations = [1, 1] low = <1, 1> high = <1, 1> groups = 1 : (tensor<2x3x3x8xf32>, tensor<8x3x3x8xf32>) -> tensor<2x3x3x8xf32>
  %1 = train.reduce sum %0 axes = [3] : tensor<2x3x3x8xf32> -> tensor<2x3x3xf32>
  %2 = train.broadcast %1 axes = [0, 1, 2] : tensor<2x3x3xf32> -> tensor<2x3x3x8xf32>
  %3 = train.sub %0, %2 : tensor<2x3x3x8xf32>
  %4 = train.add %3, %0 : tensor<2x3x3x8xf32>
  %5 = train.conv %4, %w strides = [1, 1] dilations = [1, 1] low = <1, 1> high = <1, 1> groups = 1 : (tensor<2x3x3x8xf32>, tensor<8x3x3x8xf32>) -> tensor<2x3x3x8xf32>
  %6 = train.add %5, %4 : tensor<2x3x3x8xf32>
  return %6 : tensor<2x3x3x8xf32>
}

// -----

// A sum over the taps of windows is a pool, not a statistic, and what a pool reads has a gradient of the low type; tensors that
// are put side by side and read twice are stored in it.
// CHECK-LABEL: func.func @pool
// CHECK: %[[A:.*]] = train.abs {{.*}}f32>
// CHECK: %[[L:.*]] = train.cast %[[A]] : {{.*}} -> tensor<2x8x8xbf16>
// CHECK: %[[P:.*]] = train.cast %[[L]] : tensor<2x8x8xbf16> -> tensor<2x8x8xf32>
// CHECK: %[[Q:.*]] = train.pad %[[P]]
// CHECK: %[[R:.*]] = train.broadcast %[[Q]]
// CHECK: %[[W:.*]] = train.window %[[R]]
// CHECK: train.reduce sum %[[W]]
// CHECK: %[[R:.*]] = train.cast {{.*}} -> tensor<2x8x8xbf16>
// CHECK: %[[U:.*]] = train.concat %{{.*}}, %[[R]] {{.*}} -> tensor<2x8x16xbf16>
// CHECK: %[[V:.*]] = train.cast %[[U]] : {{.*}} -> tensor<2x8x16xf32>
// CHECK: train.neg %[[V]]
// CHECK: train.exp %[[V]]
func.func @pool(%x: tensor<2x8x8xf32>, %w: tensor<8x1x8xf32> {train.role = "parameter"}) -> (tensor<2x8x16xf32>, tensor<2x8x16xf32>) {
  %0 = train.conv %x, %w strides = [1] dilations = [1] low = <0> high = <0> groups = 1 : (tensor<2x8x8xf32>, tensor<8x1x8xf32>) -> tensor<2x8x8xf32>
  %1 = train.abs %0 : tensor<2x8x8xf32>
  %2 = train.pad %1 value = 0.0 : f32 low = <0, 1, 0> : tensor<2x8x8xf32> -> tensor<2x9x8xf32>
  %3 = train.broadcast %2 axes = [1, 2, 3] : tensor<2x9x8xf32> -> tensor<2x2x9x8xf32>
  %4 = train.window %3 axis = 2 taps = 0 stride = 1 dilation = 1 : tensor<2x2x9x8xf32> -> tensor<2x2x8x8xf32>
  %5 = train.reduce sum %4 axes = [0] : tensor<2x2x8x8xf32> -> tensor<2x8x8xf32>
  %6 = train.concat %0, %5 axis = 2 : (tensor<2x8x8xf32>, tensor<2x8x8xf32>) -> tensor<2x8x16xf32>
  %7 = train.neg %6 : tensor<2x8x16xf32>
  %8 = train.exp %6 : tensor<2x8x16xf32>
  return %7, %8 : tensor<2x8x16xf32>, tensor<2x8x16xf32>
}

// -----

// What is only moved and repeated from there on is so in the low type: interpolation to the nearest position.
// CHECK-LABEL: func.func @moved
// CHECK: %[[S:.*]] = train.add
// CHECK: %[[L:.*]] = train.cast %[[S]] : {{.*}} -> tensor<2x8x8xbf16>
// CHECK: %[[B:.*]] = train.broadcast %[[L]] axes = [0, 1, 3] : tensor<2x8x8xbf16> -> tensor<2x8x2x8xbf16>
// CHECK: %[[R:.*]] = train.reshape %[[B]]
// CHECK: %[[W:.*]] = train.cast %[[R]] : tensor<2x16x8xbf16> -> tensor<2x16x8xf32>
// CHECK: train.exp %[[W]]
func.func @moved(%x: tensor<2x8x8xf32>, %w: tensor<8x1x8xf32> {train.role = "parameter"}) -> tensor<2x16x8xf32> {
  %0 = train.conv %x, %w strides = [1] dilations = [1] low = <0> high = <0> groups = 1 : (tensor<2x8x8xf32>, tensor<8x1x8xf32>) -> tensor<2x8x8xf32>
  %1 = train.abs %0 : tensor<2x8x8xf32>
  %2 = train.add %0, %1 : tensor<2x8x8xf32>
  %3 = train.broadcast %2 axes = [0, 1, 3] : tensor<2x8x8xf32> -> tensor<2x8x2x8xf32>
  %4 = train.reshape %3 : tensor<2x8x2x8xf32> -> tensor<2x16x8xf32>
  %5 = train.exp %4 : tensor<2x16x8xf32>
  return %5 : tensor<2x16x8xf32>
}

// -----

// No convolution is among what it is made of.
// CHECK-LABEL: func.func @product
// CHECK: %[[S:.*]] = train.add
// CHECK: %[[L:.*]] = train.cast %[[S]]
// CHECK: %[[C:.*]] = train.matmul %[[L]]
// CHECK: %[[D:.*]] = train.cast %[[C]]
// CHECK: train.add %[[D]], %[[S]]
// REMARK-NOT: Carried{{.*}}Function=product
func.func @product(%x: tensor<4x8xf32>, %w: tensor<8x8xf32> {train.role = "parameter"}) -> tensor<4x8xf32> {
  %0 = train.matmul %x, %w : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  %1 = train.relu %0 : tensor<4x8xf32>
  %2 = train.add %0, %1 : tensor<4x8xf32>
  %3 = train.matmul %2, %w : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  %4 = train.add %3, %2 : tensor<4x8xf32>
  return %4 : tensor<4x8xf32>
}
