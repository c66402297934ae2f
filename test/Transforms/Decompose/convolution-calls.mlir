// What a library computes best stays; uneven zeros around the input are added before it, or cut off behind it.
// RUN: trainc-opt %s --decompose="convolutions=true calls=true" | FileCheck %s
// RUN: trainc-opt %s --decompose="convolutions=true calls=true" --decompose=calls=true | FileCheck %s

// Zeros on both sides; of a stride that does not divide the last windows count, for any size.
// CHECK-LABEL: func.func @even
// CHECK-NEXT: train.conv %arg0
// CHECK-NEXT: train.conv_data_grad
// CHECK-NEXT: train.conv_filter_grad
// CHECK-NEXT: return
func.func @even(%x: tensor<2x?x8x4xf32, #train.dims<2, rows, 8, 4>>, %w: tensor<6x3x3x4xf32>)
    -> (tensor<2x?x8x4xf32, #train.dims<2, rows, 8, 4>>, tensor<6x3x3x4xf32>) {
  %y = train.conv %x, %w strides = [2, 2] dilations = [1, 1] low = <1, 1> high = <1, 1> groups = 1
      : (tensor<2x?x8x4xf32, #train.dims<2, rows, 8, 4>>, tensor<6x3x3x4xf32>) -> tensor<2x?x4x6xf32, #train.dims<2, floordiv(rows - 1, 2) + 1, 4, 6>>
  %dx = train.conv_data_grad %y, %w strides = [2, 2] dilations = [1, 1] low = <1, 1> high = <1, 1> groups = 1
      : (tensor<2x?x4x6xf32, #train.dims<2, floordiv(rows - 1, 2) + 1, 4, 6>>, tensor<6x3x3x4xf32>) -> tensor<2x?x8x4xf32, #train.dims<2, rows, 8, 4>>
  %dw = train.conv_filter_grad %x, %y strides = [2, 2] dilations = [1, 1] low = <1, 1> high = <1, 1> groups = 1
      : (tensor<2x?x8x4xf32, #train.dims<2, rows, 8, 4>>, tensor<2x?x4x6xf32, #train.dims<2, floordiv(rows - 1, 2) + 1, 4, 6>>) -> tensor<6x3x3x4xf32>
  return %dx, %dw : tensor<2x?x8x4xf32, #train.dims<2, rows, 8, 4>>, tensor<6x3x3x4xf32>
}

// A filter of two taps that keeps the size, and one that crops.
// CHECK-LABEL: func.func @uneven
// CHECK: %[[X:.*]] = train.pad %arg0 value = 0.000000e+00 : f32 low = <0, 0, -1, 0> : tensor<2x9x9x4xf32> -> tensor<2x10x8x4xf32>
// CHECK: train.conv %[[X]], %arg1 strides = [1, 1] dilations = [1, 1] low = <0, 0> high = <0, 0>
// CHECK: %[[G:.*]] = train.conv_data_grad %{{.*}} low = <0, 0> high = <0, 0> groups = 1 : {{.*}} -> tensor<2x10x8x4xf32>
// CHECK: train.pad %[[G]] value = 0.000000e+00 : f32 low = <0, 0, 1, 0> : tensor<2x10x8x4xf32> -> tensor<2x9x9x4xf32>
// CHECK: train.conv_filter_grad %{{.*}} low = <0, 0> high = <0, 0>
// CHECK-NOT: train.matmul
func.func @uneven(%x: tensor<2x9x9x4xf32>, %w: tensor<6x2x2x4xf32>)
    -> (tensor<2x9x9x4xf32>, tensor<6x2x2x4xf32>) {
  %y = train.conv %x, %w strides = [1, 1] dilations = [1, 1] low = <0, -1> high = <1, 0> groups = 1
      : (tensor<2x9x9x4xf32>, tensor<6x2x2x4xf32>) -> tensor<2x9x7x6xf32>
  %dx = train.conv_data_grad %y, %w strides = [1, 1] dilations = [1, 1] low = <0, -1> high = <1, 0> groups = 1
      : (tensor<2x9x7x6xf32>, tensor<6x2x2x4xf32>) -> tensor<2x9x9x4xf32>
  %dw = train.conv_filter_grad %x, %y strides = [1, 1] dilations = [1, 1] low = <0, -1> high = <1, 0> groups = 1
      : (tensor<2x9x9x4xf32>, tensor<2x9x7x6xf32>) -> tensor<6x2x2x4xf32>
  return %dx, %dw : tensor<2x9x9x4xf32>, tensor<6x2x2x4xf32>
}

// Points and patches are matmuls of rows, so are their gradients.
// CHECK-LABEL: func.func @pieces
// CHECK: %[[X:.*]] = train.reshape %arg0 : tensor<2x8x6x4xf32> -> tensor<96x4xf32>
// CHECK: %[[W:.*]] = train.reshape %arg1 : tensor<6x1x1x4xf32> -> tensor<6x4xf32>
// CHECK: %[[M:.*]] = train.matmul %[[X]], %[[W]] transposed : tensor<96x4xf32>, tensor<6x4xf32> -> tensor<96x6xf32>
// CHECK: train.reshape %[[M]] : tensor<96x6xf32> -> tensor<2x8x6x6xf32>
// CHECK: train.matmul %{{.*}}, %{{.*}} : tensor<96x6xf32>, tensor<6x4xf32> -> tensor<96x4xf32>
// CHECK: train.matmul %{{.*}} transposed, %{{.*}} : tensor<96x6xf32>, tensor<96x4xf32> -> tensor<6x4xf32>
// CHECK: %[[S:.*]] = train.reshape %arg0 : tensor<2x8x6x4xf32> -> tensor<2x4x2x3x2x4xf32>
// CHECK: %[[T:.*]] = train.transpose %[[S]] permutation = [0, 1, 3, 2, 4, 5]
// CHECK: %[[P:.*]] = train.reshape %[[T]] : tensor<2x4x3x2x2x4xf32> -> tensor<24x16xf32>
// CHECK: %[[N:.*]] = train.matmul %[[P]], %{{.*}} transposed : tensor<24x16xf32>, tensor<6x16xf32> -> tensor<24x6xf32>
// CHECK: train.reshape %[[N]] : tensor<24x6xf32> -> tensor<2x4x3x6xf32>
// CHECK: train.transpose %{{.*}} permutation = [0, 1, 3, 2, 4, 5] : tensor<2x4x3x2x2x4xf32> -> tensor<2x4x2x3x2x4xf32>
// CHECK-NOT: train.conv
// CHECK: return
func.func @pieces(%x: tensor<2x8x6x4xf32>, %point: tensor<6x1x1x4xf32>, %patch: tensor<6x2x2x4xf32>)
    -> (tensor<2x8x6x4xf32>, tensor<6x1x1x4xf32>, tensor<2x8x6x4xf32>) {
  %y = train.conv %x, %point strides = [1, 1] dilations = [1, 1] low = <0, 0> high = <0, 0> groups = 1
      : (tensor<2x8x6x4xf32>, tensor<6x1x1x4xf32>) -> tensor<2x8x6x6xf32>
  %dx = train.conv_data_grad %y, %point strides = [1, 1] dilations = [1, 1] low = <0, 0> high = <0, 0> groups = 1
      : (tensor<2x8x6x6xf32>, tensor<6x1x1x4xf32>) -> tensor<2x8x6x4xf32>
  %dw = train.conv_filter_grad %x, %y strides = [1, 1] dilations = [1, 1] low = <0, 0> high = <0, 0> groups = 1
      : (tensor<2x8x6x4xf32>, tensor<2x8x6x6xf32>) -> tensor<6x1x1x4xf32>
  %z = train.conv %x, %patch strides = [2, 2] dilations = [1, 1] low = <0, 0> high = <0, 0> groups = 1
      : (tensor<2x8x6x4xf32>, tensor<6x2x2x4xf32>) -> tensor<2x4x3x6xf32>
  %dz = train.conv_data_grad %z, %patch strides = [2, 2] dilations = [1, 1] low = <0, 0> high = <0, 0> groups = 1
      : (tensor<2x4x3x6xf32>, tensor<6x2x2x4xf32>) -> tensor<2x8x6x4xf32>
  return %dx, %dw, %dz : tensor<2x8x6x4xf32>, tensor<6x1x1x4xf32>, tensor<2x8x6x4xf32>
}

// Pieces of groups are a batch of matmuls, one filter a channel is a call as others are; f64 no library has.
// CHECK-LABEL: func.func @others
// CHECK-NOT: train.conv
// CHECK: train.conv %arg0, %arg3 {{.*}} groups = 4
// CHECK-NOT: train.conv
// CHECK: return
func.func @others(%x: tensor<2x8x8x4xf32>, %point: tensor<6x1x1x2xf32>, %patch: tensor<6x2x2x4xf32>, %channel: tensor<4x3x3x1xf32>,
                  %wide: tensor<2x8x8x4xf64>, %filter: tensor<6x3x3x4xf64>)
    -> (tensor<2x8x8x6xf32>, tensor<2x4x4x6xf32>, tensor<2x6x6x4xf32>, tensor<2x6x6x6xf64>) {
  %a = train.conv %x, %point strides = [1, 1] dilations = [1, 1] low = <0, 0> high = <0, 0> groups = 2
      : (tensor<2x8x8x4xf32>, tensor<6x1x1x2xf32>) -> tensor<2x8x8x6xf32>
  %b = train.conv %x, %patch strides = [2, 2] dilations = [1, 1] low = <0, 0> high = <0, 0> groups = 1
      : (tensor<2x8x8x4xf32>, tensor<6x2x2x4xf32>) -> tensor<2x4x4x6xf32>
  %c = train.conv %x, %channel strides = [1, 1] dilations = [1, 1] low = <0, 0> high = <0, 0> groups = 4
      : (tensor<2x8x8x4xf32>, tensor<4x3x3x1xf32>) -> tensor<2x6x6x4xf32>
  %d = train.conv %wide, %filter strides = [1, 1] dilations = [1, 1] low = <0, 0> high = <0, 0> groups = 1
      : (tensor<2x8x8x4xf64>, tensor<6x3x3x4xf64>) -> tensor<2x6x6x6xf64>
  return %a, %b, %c, %d : tensor<2x8x8x6xf32>, tensor<2x4x4x6xf32>, tensor<2x6x6x4xf32>, tensor<2x6x6x6xf64>
}
