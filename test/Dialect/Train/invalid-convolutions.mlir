// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the verifier of convolutions refuses, each with its message.
// RUN: trainc-opt %s --split-input-file --verify-diagnostics

func.func @f(%x: tensor<2x9x4xf32>, %w: tensor<6x4xf32>) {
  // expected-error@+1 {{expected input, filter and output of one rank of at least 3, got 3, 2 and 3}}
  %0 = train.conv %x, %w strides = [1] dilations = [1] low = <0> high = <0> groups = 1 : (tensor<2x9x4xf32>, tensor<6x4xf32>) -> tensor<2x9x6xf32>
  return
}

// -----
func.func @f(%x: tensor<2x9x4xf32>, %w: tensor<6x3x4xf64>) {
  // expected-error@+1 {{expected input, filter and output of one element type, got 'f32' and 'f64'}}
  %0 = train.conv %x, %w strides = [1] dilations = [1] low = <0> high = <0> groups = 1 : (tensor<2x9x4xf32>, tensor<6x3x4xf64>) -> tensor<2x7x6xf32>
  return
}

// -----
func.func @f(%x: tensor<2x9x4xf32>, %w: tensor<6x3x4xf32>) {
  // expected-error@+1 {{expected strides, dilations, low and high for 1 axes, got 2}}
  %0 = train.conv %x, %w strides = [1] dilations = [1] low = <0> high = <0, 0> groups = 1 : (tensor<2x9x4xf32>, tensor<6x3x4xf32>) -> tensor<2x7x6xf32>
  return
}

// -----
func.func @f(%x: tensor<2x9x4xf32>, %w: tensor<6x3x4xf32>) {
  // expected-error@+1 {{expected strides and dilations of at least 1, got 0}}
  %0 = train.conv %x, %w strides = [1] dilations = [0] low = <0> high = <0> groups = 1 : (tensor<2x9x4xf32>, tensor<6x3x4xf32>) -> tensor<2x7x6xf32>
  return
}

// -----
func.func @f(%x: tensor<2x9x4xf32>, %w: tensor<6x3x4xf32>) {
  // expected-error@+1 {{expected one batch, got 2 and 3}}
  %0 = train.conv %x, %w strides = [1] dilations = [1] low = <0> high = <0> groups = 1 : (tensor<2x9x4xf32>, tensor<6x3x4xf32>) -> tensor<3x7x6xf32>
  return
}

// -----
func.func @f(%x: tensor<2x9x4xf32>, %w: tensor<6x3x4xf32>) {
  // expected-error@+1 {{expected an output of as many channels as there are filters, 6, got 5}}
  %0 = train.conv %x, %w strides = [1] dilations = [1] low = <0> high = <0> groups = 1 : (tensor<2x9x4xf32>, tensor<6x3x4xf32>) -> tensor<2x7x5xf32>
  return
}

// -----
func.func @f(%x: tensor<2x9x4xf32>, %w: tensor<6x3x4xf32>) {
  // expected-error@+1 {{expected a group at least, got 0}}
  %0 = train.conv %x, %w strides = [1] dilations = [1] low = <0> high = <0> groups = 0 : (tensor<2x9x4xf32>, tensor<6x3x4xf32>) -> tensor<2x7x6xf32>
  return
}

// -----
func.func @f(%x: tensor<2x9x4xf32>, %w: tensor<6x3x1xf32>) {
  // expected-error@+1 {{expected 4 groups of 1 channels that divide the filters, got 4 channels and 6 filters}}
  %0 = train.conv %x, %w strides = [1] dilations = [1] low = <0> high = <0> groups = 4 : (tensor<2x9x4xf32>, tensor<6x3x1xf32>) -> tensor<2x7x6xf32>
  return
}

// -----
func.func @f(%x: tensor<2x9x4xf32>, %w: tensor<6x?x4xf32, #train.dims<6, taps, 4>>) {
  // expected-error@+1 {{expected a constant number of taps, at least 1, got taps}}
  %0 = train.conv %x, %w strides = [1] dilations = [1] low = <0> high = <0> groups = 1 : (tensor<2x9x4xf32>, tensor<6x?x4xf32, #train.dims<6, taps, 4>>) -> tensor<2x7x6xf32>
  return
}

// -----
func.func @f(%x: tensor<2x9x4xf32>, %w: tensor<6x3x4xf32>) {
  // expected-error@+1 {{expected windows within the 10 positions of an axis and what surrounds it, got 5 windows that end at 11}}
  %0 = train.conv %x, %w strides = [2] dilations = [1] low = <1> high = <0> groups = 1 : (tensor<2x9x4xf32>, tensor<6x3x4xf32>) -> tensor<2x5x6xf32>
  return
}
