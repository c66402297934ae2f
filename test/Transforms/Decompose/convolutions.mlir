// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Convolutions are matmuls of the filter with the windows of the input, whatever the padding and the groups; their
// parts have the channels first.
// RUN: trainc-opt %s --decompose=convolutions=true | FileCheck %s
// RUN: trainc-opt %s --decompose="convolutions=true keep=train.conv" | FileCheck %s --check-prefix=KEEP

// One axis after the other, taps in front; batch and positions are the columns of one matrix.
// CHECK-LABEL: func.func @dense
// CHECK: train.transpose %arg1 permutation = [0, 3, 1, 2]
// CHECK: %[[X:.*]] = train.transpose %arg0 permutation = [0, 3, 1, 2]
// CHECK: %[[P:.*]] = train.pad %[[X]] value = 0.000000e+00 : f32 low = <0, 0, 1, 1> : {{.*}} -> tensor<?x4x11x11xf32, {{.*}}>
// CHECK: %[[B:.*]] = train.broadcast %[[P]] axes = [2, 3, 4, 5] : {{.*}} -> tensor<3x3x?x4x11x11xf32, {{.*}}>
// CHECK: %[[W2:.*]] = train.window %[[B]] axis = 4 taps = 0 stride = 2 dilation = 1
// CHECK: %[[W4:.*]] = train.window %[[W2]] axis = 5 taps = 1 stride = 2 dilation = 1 : {{.*}} -> tensor<3x3x?x4x5x5xf32, {{.*}}>
// CHECK: %[[T:.*]] = train.transpose %[[W4]] permutation = [3, 0, 1, 2, 4, 5]
// CHECK: %[[M:.*]] = train.reshape %[[T]] : {{.*}} -> tensor<36x?xf32, #train.dims<36, 25*batch>>
// CHECK: train.matmul %{{.*}} : tensor<6x36xf32>, {{.*}} -> tensor<6x?xf32, #train.dims<6, 25*batch>>
// CHECK: train.transpose %{{.*}} permutation = [1, 2, 3, 0] : {{.*}} -> tensor<?x5x5x6xf32, #train.dims<batch, 5, 5, 6>>
// KEEP: train.conv %
func.func @dense(%x: tensor<?x9x9x4xf32, #train.dims<batch, 9, 9, 4>>, %w: tensor<6x3x3x4xf32>)
    -> tensor<?x5x5x6xf32, #train.dims<batch, 5, 5, 6>> {
  %y = train.conv %x, %w strides = [2, 2] dilations = [1, 1] low = <1, 1> high = <1, 1> groups = 1
      : (tensor<?x9x9x4xf32, #train.dims<batch, 9, 9, 4>>, tensor<6x3x3x4xf32>) -> tensor<?x5x5x6xf32, #train.dims<batch, 5, 5, 6>>
  return %y : tensor<?x5x5x6xf32, #train.dims<batch, 5, 5, 6>>
}

// Groups are a batch axis of the product. Other composites stay.
// CHECK-LABEL: func.func @groups
// CHECK: train.matmul %{{.*}} : tensor<2x3x12xf32>, tensor<2x12x144xf32> -> tensor<2x3x144xf32>
// CHECK: train.softmax
// KEEP-LABEL: func.func @groups
// KEEP: train.conv %
func.func @groups(%x: tensor<2x9x9x4xf32>, %w: tensor<6x3x2x2xf32>) -> tensor<2x8x9x6xf32> {
  %y = train.conv %x, %w strides = [1, 1] dilations = [1, 1] low = <0, 1> high = <1, 0> groups = 2
      : (tensor<2x9x9x4xf32>, tensor<6x3x2x2xf32>) -> tensor<2x8x9x6xf32>
  %z = train.softmax %y axis = 3 : tensor<2x8x9x6xf32>
  return %z : tensor<2x8x9x6xf32>
}

// One filter a channel is a sum of products; no matmul in any of the gradients either.
// CHECK-LABEL: func.func @depthwise
// CHECK: train.mul %{{.*}} : tensor<3x3x2x4x9x9xf32>
// CHECK: train.reduce sum %{{.*}} axes = [0, 1] : {{.*}} -> tensor<2x4x9x9xf32>
// CHECK: train.spread
// CHECK: train.spread
// CHECK: train.reduce sum %{{.*}} axes = [0, 1] : {{.*}} -> tensor<2x4x11x11xf32>
// CHECK: train.reduce sum %{{.*}} axes = [3, 4, 5] : {{.*}} -> tensor<4x3x3xf32>
// CHECK-NOT: train.matmul
// CHECK: return
// KEEP-LABEL: func.func @depthwise
// KEEP-NOT: train.conv_
func.func @depthwise(%x: tensor<2x9x9x4xf32>, %w: tensor<4x3x3x1xf32>)
    -> (tensor<2x9x9x4xf32>, tensor<2x9x9x4xf32>, tensor<4x3x3x1xf32>) {
  %y = train.conv %x, %w strides = [1, 1] dilations = [1, 1] low = <1, 1> high = <1, 1> groups = 4
      : (tensor<2x9x9x4xf32>, tensor<4x3x3x1xf32>) -> tensor<2x9x9x4xf32>
  %dx = train.conv_data_grad %y, %w strides = [1, 1] dilations = [1, 1] low = <1, 1> high = <1, 1> groups = 4
      : (tensor<2x9x9x4xf32>, tensor<4x3x3x1xf32>) -> tensor<2x9x9x4xf32>
  %dw = train.conv_filter_grad %x, %y strides = [1, 1] dilations = [1, 1] low = <1, 1> high = <1, 1> groups = 4
      : (tensor<2x9x9x4xf32>, tensor<2x9x9x4xf32>) -> tensor<4x3x3x1xf32>
  return %y, %dx, %dw : tensor<2x9x9x4xf32>, tensor<2x9x9x4xf32>, tensor<4x3x3x1xf32>
}

// Windows that do not overlap are a reshape, backward as well: nothing is added up.
// CHECK-LABEL: func.func @pieces
// CHECK: train.reshape %{{.*}} : tensor<2x4x9x9xf32> -> tensor<2x4x3x3x3x3xf32>
// CHECK: train.matmul
// CHECK: train.reshape %{{.*}} : tensor<2x4x3x3x3x3xf32> -> tensor<2x4x9x9xf32>
// CHECK-NOT: train.spread
// CHECK-NOT: train.reduce
// CHECK: return
func.func @pieces(%x: tensor<2x9x9x4xf32>, %w: tensor<5x3x3x4xf32>) -> (tensor<2x3x3x5xf32>, tensor<2x9x9x4xf32>) {
  %y = train.conv %x, %w strides = [3, 3] dilations = [1, 1] low = <0, 0> high = <0, 0> groups = 1
      : (tensor<2x9x9x4xf32>, tensor<5x3x3x4xf32>) -> tensor<2x3x3x5xf32>
  %dx = train.conv_data_grad %y, %w strides = [3, 3] dilations = [1, 1] low = <0, 0> high = <0, 0> groups = 1
      : (tensor<2x3x3x5xf32>, tensor<5x3x3x4xf32>) -> tensor<2x9x9x4xf32>
  return %y, %dx : tensor<2x3x3x5xf32>, tensor<2x9x9x4xf32>
}

// The gradients: elements of the product go where the windows are, and what surrounds the input is cut off; that of the
// filter is one product with all windows.
// CHECK-LABEL: func.func @gradients
// CHECK: train.matmul %{{.*}} transposed, %{{.*}} : tensor<2x2x27xf32>, tensor<2x2x162xf32> -> tensor<2x27x162xf32>
// CHECK: train.spread %{{.*}} axis = 5 taps = 1 stride = 2 dilation = 1
// CHECK: train.spread %{{.*}} axis = 4 taps = 0 stride = 2 dilation = 1 : {{.*}} -> tensor<3x3x2x6x19x19xf32>
// CHECK: train.reduce sum %{{.*}} axes = [0, 1]
// CHECK: train.pad %{{.*}} low = <0, 0, -1, -1> : {{.*}} -> tensor<2x6x17x17xf32>
// CHECK: train.matmul %{{.*}}, %{{.*}} transposed : tensor<2x2x162xf32>, tensor<2x27x162xf32> -> tensor<2x2x27xf32>
func.func @gradients(%x: tensor<2x17x17x6xf32>, %y: tensor<2x9x9x4xf32>, %w: tensor<4x3x3x3xf32>)
    -> (tensor<2x17x17x6xf32>, tensor<4x3x3x3xf32>) {
  %dx = train.conv_data_grad %y, %w strides = [2, 2] dilations = [1, 1] low = <1, 1> high = <1, 1> groups = 2
      : (tensor<2x9x9x4xf32>, tensor<4x3x3x3xf32>) -> tensor<2x17x17x6xf32>
  %dw = train.conv_filter_grad %x, %y strides = [2, 2] dilations = [1, 1] low = <1, 1> high = <1, 1> groups = 2
      : (tensor<2x17x17x6xf32>, tensor<2x9x9x4xf32>) -> tensor<4x3x3x3xf32>
  return %dx, %dw : tensor<2x17x17x6xf32>, tensor<4x3x3x3xf32>
}
