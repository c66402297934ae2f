// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --move-transposes | FileCheck %s
// A second run changes nothing.
// RUN: trainc-opt %s --move-transposes > %t.once
// RUN: trainc-opt %t.once --move-transposes | diff %t.once -
// RUN: trainc-opt %s --canonicalize -o /dev/null

!first = tensor<?x8x6x6xf32, #train.dims<batch, 8, 6, 6>>
!last = tensor<?x6x6x8xf32, #train.dims<batch, 6, 6, 8>>

train.symbol @batch min 1 input "x" axis 0

// Normalised, added to what went around, and a convolution again: transposed at its ends.
// CHECK-LABEL: func.func @residual
// CHECK: train.transpose %arg0 permutation = [0, 2, 3, 1]
// CHECK: train.conv
// CHECK: train.reduce sum %{{.*}} axes = [0, 1, 2]
// CHECK: train.broadcast %{{.*}} axes = [3] : tensor<8xf32> -> [[LAST:.*]]
// CHECK: train.sub %{{.*}} : [[LAST]]
// CHECK: train.relu %{{.*}} : [[LAST]]
// CHECK-NEXT: train.conv
// CHECK-NEXT: train.add %{{.*}} : [[LAST]]
// CHECK-NEXT: %[[END:.*]] = train.transpose %{{.*}} permutation = [0, 3, 1, 2]
// CHECK-NEXT: return %[[END]]
func.func @residual(%x: !first, %w: tensor<8x3x3x8xf32>) -> !first {
  %0 = train.transpose %x permutation = [0, 2, 3, 1] : !first -> !last
  %1 = train.conv %0, %w strides = [1, 1] dilations = [1, 1] low = <1, 1> high = <1, 1> groups = 1 : (!last, tensor<8x3x3x8xf32>) -> !last
  %2 = train.transpose %1 permutation = [0, 3, 1, 2] : !last -> !first
  %3 = train.reduce sum %2 axes = [0, 2, 3] : !first -> tensor<8xf32>
  %4 = train.broadcast %3 axes = [1] : tensor<8xf32> -> !first
  %5 = train.sub %2, %4 : !first
  %6 = train.relu %5 : !first
  %7 = train.transpose %6 permutation = [0, 2, 3, 1] : !first -> !last
  %8 = train.conv %7, %w strides = [1, 1] dilations = [1, 1] low = <1, 1> high = <1, 1> groups = 1 : (!last, tensor<8x3x3x8xf32>) -> !last
  %9 = train.transpose %8 permutation = [0, 3, 1, 2] : !last -> !first
  %10 = train.add %9, %6 : !first
  return %10 : !first
}

// Dropout keeps the coordinates that its numbers depend on.
// CHECK-LABEL: func.func @dropout
// CHECK-NEXT: %[[KEPT:.*]] = train.relu %arg0 : [[LAST:.*]]
// CHECK-NEXT: %[[IN:.*]] = train.transpose %[[KEPT]] permutation = [0, 3, 1, 2]
// CHECK-NEXT: %[[OUT:.*]] = train.dropout %[[IN]], %arg1
// CHECK-NEXT: %[[BACK:.*]] = train.transpose %[[OUT]] permutation = [0, 2, 3, 1]
// CHECK-NEXT: return %[[BACK]]
func.func @dropout(%x: !last, %key: tensor<i64>) -> !last {
  %0 = train.transpose %x permutation = [0, 3, 1, 2] : !last -> !first
  %1 = train.relu %0 : !first
  %2 = train.dropout %1, %key {ratio = 0.5 : f64} : !first, tensor<i64>
  %3 = train.transpose %2 permutation = [0, 2, 3, 1] : !first -> !last
  return %3 : !last
}

// The rows of attention are the positions of an image: merged axes stay neighbours.
// CHECK-LABEL: func.func @tokens
// CHECK-NEXT: %[[ROWS:.*]] = train.reshape %arg0 : {{.*}} -> tensor<?x36x8xf32
// CHECK-NEXT: return %[[ROWS]]
func.func @tokens(%x: !last) -> tensor<?x36x8xf32, #train.dims<batch, 36, 8>> {
  %0 = train.transpose %x permutation = [0, 3, 1, 2] : !last -> !first
  %1 = train.reshape %0 : !first -> tensor<?x8x36xf32, #train.dims<batch, 8, 36>>
  %2 = train.transpose %1 permutation = [0, 2, 1] : tensor<?x8x36xf32, #train.dims<batch, 8, 36>> -> tensor<?x36x8xf32, #train.dims<batch, 36, 8>>
  return %2 : tensor<?x36x8xf32, #train.dims<batch, 36, 8>>
}

// A pool, and images beside each other along the channels.
// CHECK-LABEL: func.func @pool
// CHECK-NOT: train.transpose
// CHECK: train.concat %arg0, %arg0 axis = 3
// CHECK: train.pad %{{.*}} low = <0, 1, 1, 0>
// CHECK: train.broadcast %{{.*}} axes = [1, 2, 3, 4]
// CHECK: train.window %{{.*}} axis = 2 taps = 0
// CHECK: train.reduce max %{{.*}} axes = [0]
// CHECK-NOT: train.transpose
// CHECK: return
func.func @pool(%x: tensor<2x6x6x8xf32>) -> tensor<2x3x8x16xf32> {
  %0 = train.transpose %x permutation = [0, 3, 1, 2] : tensor<2x6x6x8xf32> -> tensor<2x8x6x6xf32>
  %1 = train.concat %0, %0 axis = 1 : (tensor<2x8x6x6xf32>, tensor<2x8x6x6xf32>) -> tensor<2x16x6x6xf32>
  %2 = train.pad %1 value = 0.0 : f32 low = <0, 0, 1, 1> : tensor<2x16x6x6xf32> -> tensor<2x16x8x8xf32>
  %3 = train.broadcast %2 axes = [1, 2, 3, 4] : tensor<2x16x8x8xf32> -> tensor<3x2x16x8x8xf32>
  %4 = train.window %3 axis = 3 taps = 0 stride = 2 dilation = 1 : tensor<3x2x16x8x8xf32> -> tensor<3x2x16x3x8xf32>
  %5 = train.reduce max %4 axes = [0] : tensor<3x2x16x3x8xf32> -> tensor<2x16x3x8xf32>
  %6 = train.transpose %5 permutation = [0, 2, 3, 1] : tensor<2x16x3x8xf32> -> tensor<2x3x8x16xf32>
  return %6 : tensor<2x3x8x16xf32>
}

// Squeeze and excite: axes of one element move for free.
// CHECK-LABEL: func.func @squeeze
// CHECK-NOT: train.transpose
// CHECK: return
func.func @squeeze(%x: tensor<2x6x6x8xf32>) -> (tensor<2x6x6x8xf32>, tensor<2x1x1x8xf32>) {
  %0 = train.transpose %x permutation = [0, 3, 1, 2] : tensor<2x6x6x8xf32> -> tensor<2x8x6x6xf32>
  %1 = train.reduce sum %0 axes = [2, 3] : tensor<2x8x6x6xf32> -> tensor<2x8xf32>
  %2 = train.reshape %1 : tensor<2x8xf32> -> tensor<2x8x1x1xf32>
  %3 = train.transpose %2 permutation = [0, 2, 3, 1] : tensor<2x8x1x1xf32> -> tensor<2x1x1x8xf32>
  %4 = train.broadcast %1 axes = [0, 1] : tensor<2x8xf32> -> tensor<2x8x6x6xf32>
  %5 = train.mul %0, %4 : tensor<2x8x6x6xf32>
  %6 = train.transpose %5 permutation = [0, 2, 3, 1] : tensor<2x8x6x6xf32> -> tensor<2x6x6x8xf32>
  return %6, %3 : tensor<2x6x6x8xf32>, tensor<2x1x1x8xf32>
}

// The documented example: the bias is repeated along the axes where they are then.
// CHECK-LABEL: func.func @bias
// CHECK-NEXT: train.broadcast %arg1 axes = [3]
// CHECK-NEXT: train.add
// CHECK-NEXT: return
func.func @bias(%x: tensor<2x9x9x4xf32>, %b: tensor<4xf32>) -> tensor<2x9x9x4xf32> {
  %0 = train.transpose %x permutation = [0, 3, 1, 2] : tensor<2x9x9x4xf32> -> tensor<2x4x9x9xf32>
  %1 = train.broadcast %b axes = [1] : tensor<4xf32> -> tensor<2x4x9x9xf32>
  %2 = train.add %0, %1 : tensor<2x4x9x9xf32>
  %3 = train.transpose %2 permutation = [0, 2, 3, 1] : tensor<2x4x9x9xf32> -> tensor<2x9x9x4xf32>
  return %3 : tensor<2x9x9x4xf32>
}

// A constant is made in both orders.
// CHECK-LABEL: func.func @constant
// CHECK-NOT: train.transpose
// CHECK: return
func.func @constant(%x: tensor<2x9x9x4xf32>, %y: tensor<2x4x9x9xf32>) -> (tensor<2x9x9x4xf32>, tensor<2x4x9x9xf32>) {
  %c = train.full 2.0 : f32 : tensor<2x4x9x9xf32>
  %0 = train.transpose %x permutation = [0, 3, 1, 2] : tensor<2x9x9x4xf32> -> tensor<2x4x9x9xf32>
  %1 = train.mul %0, %c : tensor<2x4x9x9xf32>
  %2 = train.transpose %1 permutation = [0, 2, 3, 1] : tensor<2x4x9x9xf32> -> tensor<2x9x9x4xf32>
  %3 = train.mul %y, %c : tensor<2x4x9x9xf32>
  return %2, %3 : tensor<2x9x9x4xf32>, tensor<2x4x9x9xf32>
}

// What multiplies and adds behind a sum moves even though the sum could move as well.
// CHECK-LABEL: func.func @behind_a_sum
// CHECK-NOT: train.transpose
// CHECK: return
func.func @behind_a_sum(%x: !last, %bias: tensor<8xf32>, %scale: tensor<8xf32>, %skip: !last) -> !last {
  %1 = train.broadcast %bias axes = [3] : tensor<8xf32> -> !last
  %2 = train.add %x, %1 : !last
  %3 = train.transpose %2 permutation = [0, 3, 1, 2] : !last -> !first
  %4 = train.broadcast %scale axes = [1] : tensor<8xf32> -> !first
  %5 = train.mul %3, %4 : !first
  %6 = train.transpose %skip permutation = [0, 3, 1, 2] : !last -> !first
  %7 = train.add %5, %6 : !first
  %8 = train.transpose %7 permutation = [0, 2, 3, 1] : !first -> !last
  return %8 : !last
}
