// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is done before a call, and instead of one, changes no value.
// RUN: trainc-test-opt %s --mlir-disable-threading --test-evaluate -o /dev/null >%t.whole
// RUN: trainc-opt %s --decompose="convolutions=true calls=true" | trainc-test-opt --mlir-disable-threading --test-evaluate -o /dev/null | diff %t.whole -

// Uneven zeros, a crop, and a rest that no window reaches.
func.func @uneven(%x: tensor<1x4x5x1xf32> {testdialect.value = dense<[[[[1.0], [2.0], [-3.0], [4.0], [5.0]], [[6.0], [-7.0], [8.0], [9.0], [1.0]], [[2.0], [3.0], [-1.0], [2.0], [4.0]], [[-5.0], [1.0], [7.0], [3.0], [2.0]]]]> : tensor<1x4x5x1xf32>},
                  %w: tensor<2x2x2x1xf32> {testdialect.value = dense<[[[[1.0], [2.0]], [[3.0], [4.0]]], [[[-1.0], [1.0]], [[2.0], [-2.0]]]]> : tensor<2x2x2x1xf32>})
    -> (tensor<1x3x2x2xf32>, tensor<1x4x5x1xf32>, tensor<2x2x2x1xf32>) {
  %y = train.conv %x, %w strides = [2, 2] dilations = [1, 1] low = <0, -1> high = <2, 0> groups = 1
      : (tensor<1x4x5x1xf32>, tensor<2x2x2x1xf32>) -> tensor<1x3x2x2xf32>
  %dx = train.conv_data_grad %y, %w strides = [2, 2] dilations = [1, 1] low = <0, -1> high = <2, 0> groups = 1
      : (tensor<1x3x2x2xf32>, tensor<2x2x2x1xf32>) -> tensor<1x4x5x1xf32>
  %dw = train.conv_filter_grad %x, %y strides = [2, 2] dilations = [1, 1] low = <0, -1> high = <2, 0> groups = 1
      : (tensor<1x4x5x1xf32>, tensor<1x3x2x2xf32>) -> tensor<2x2x2x1xf32>
  return %y, %dx, %dw : tensor<1x3x2x2xf32>, tensor<1x4x5x1xf32>, tensor<2x2x2x1xf32>
}

// Patches of 2 x 1.
func.func @patches(%x: tensor<1x4x2x2xf32> {testdialect.value = dense<[[[[1.0, 2.0], [-3.0, 4.0]], [[5.0, 6.0], [-7.0, 8.0]], [[9.0, 1.0], [2.0, 3.0]], [[-1.0, 2.0], [4.0, -5.0]]]]> : tensor<1x4x2x2xf32>},
                   %w: tensor<2x2x1x2xf32> {testdialect.value = dense<[[[[1.0, 2.0]], [[3.0, 4.0]]], [[[-1.0, 1.0]], [[2.0, -2.0]]]]> : tensor<2x2x1x2xf32>})
    -> (tensor<1x2x2x2xf32>, tensor<1x4x2x2xf32>, tensor<2x2x1x2xf32>) {
  %y = train.conv %x, %w strides = [2, 1] dilations = [1, 1] low = <0, 0> high = <0, 0> groups = 1
      : (tensor<1x4x2x2xf32>, tensor<2x2x1x2xf32>) -> tensor<1x2x2x2xf32>
  %dx = train.conv_data_grad %y, %w strides = [2, 1] dilations = [1, 1] low = <0, 0> high = <0, 0> groups = 1
      : (tensor<1x2x2x2xf32>, tensor<2x2x1x2xf32>) -> tensor<1x4x2x2xf32>
  %dw = train.conv_filter_grad %x, %y strides = [2, 1] dilations = [1, 1] low = <0, 0> high = <0, 0> groups = 1
      : (tensor<1x4x2x2xf32>, tensor<1x2x2x2xf32>) -> tensor<2x2x1x2xf32>
  return %y, %dx, %dw : tensor<1x2x2x2xf32>, tensor<1x4x2x2xf32>, tensor<2x2x1x2xf32>
}
