// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --align-matmuls | FileCheck %s

// The vocabulary of a head: columns of the result.
// CHECK-LABEL: func.func @columns
// CHECK: %[[W:.*]] = train.pad %arg1 value = 0.000000e+00 : bf16 low = <0, 0> : tensor<1003x64xbf16> -> tensor<1008x64xbf16>
// CHECK: %[[Y:.*]] = train.matmul %arg0, %[[W]] transposed : tensor<4x64xbf16>, tensor<1008x64xbf16> -> tensor<4x1008xbf16>
// CHECK: train.slice %[[Y]] starts = <0, 0> steps = [1, 1] : tensor<4x1008xbf16> -> tensor<4x1003xbf16>
func.func @columns(%x: tensor<4x64xbf16>, %w: tensor<1003x64xbf16>) -> tensor<4x1003xbf16> {
  %0 = train.matmul %x, %w transposed : tensor<4x64xbf16>, tensor<1003x64xbf16> -> tensor<4x1003xbf16>
  return %0 : tensor<4x1003xbf16>
}

// From 1024 on to whole tiles; the sum's extent on both sides, without a slice.
// CHECK-LABEL: func.func @inner
// CHECK: train.pad %arg0 {{.*}} -> tensor<8x1088xbf16>
// CHECK: train.pad %arg1 {{.*}} -> tensor<1088x64xbf16>
// CHECK: %[[Y:.*]] = train.matmul
// CHECK: return %[[Y]]
func.func @inner(%x: tensor<8x1025xbf16>, %w: tensor<1025x64xbf16>) -> tensor<8x64xbf16> {
  %0 = train.matmul %x, %w : tensor<8x1025xbf16>, tensor<1025x64xbf16> -> tensor<8x64xbf16>
  return %0 : tensor<8x64xbf16>
}

// Rows of the result lie contiguous in a transposed lhs.
// CHECK-LABEL: func.func @rows
// CHECK: train.pad %arg0 {{.*}} : tensor<8x67xbf16> -> tensor<8x72xbf16>
// CHECK: train.slice {{.*}} : tensor<72x64xbf16> -> tensor<67x64xbf16>
func.func @rows(%x: tensor<8x67xbf16>, %w: tensor<8x64xbf16>) -> tensor<67x64xbf16> {
  %0 = train.matmul %x transposed, %w : tensor<8x67xbf16>, tensor<8x64xbf16> -> tensor<67x64xbf16>
  return %0 : tensor<67x64xbf16>
}

// The few classes of a wide head.
// CHECK-LABEL: func.func @classes
// CHECK: train.pad %arg1 {{.*}} : tensor<10x256xbf16> -> tensor<16x256xbf16>
// CHECK: train.slice {{.*}} -> tensor<?x10xbf16
func.func @classes(%x: tensor<?x256xbf16, #train.dims<n, 256>>, %w: tensor<10x256xbf16>) -> tensor<?x10xbf16, #train.dims<n, 10>> {
  %0 = train.matmul %x, %w transposed : tensor<?x256xbf16, #train.dims<n, 256>>, tensor<10x256xbf16> -> tensor<?x10xbf16, #train.dims<n, 10>>
  return %0 : tensor<?x10xbf16, #train.dims<n, 10>>
}

// Channels and filters of a convolution: its result and its gradients are cut off again.
// CHECK-LABEL: func.func @convolution
// CHECK: %[[X:.*]] = train.pad %arg0 {{.*}} : tensor<2x9x9x3xbf16> -> tensor<2x9x9x8xbf16>
// CHECK: %[[W:.*]] = train.pad %arg1 {{.*}} : tensor<21x3x3x3xbf16> -> tensor<24x3x3x8xbf16>
// CHECK: %[[Y:.*]] = train.conv %[[X]], %[[W]] {{.*}} -> tensor<2x9x9x24xbf16>
// CHECK: %[[S:.*]] = train.slice %[[Y]] {{.*}} -> tensor<2x9x9x21xbf16>
// CHECK: train.conv_data_grad %{{.*}} -> tensor<2x9x9x8xbf16>
// CHECK: train.slice {{.*}} -> tensor<2x9x9x3xbf16>
// CHECK: train.conv_filter_grad %{{.*}} -> tensor<24x3x3x8xbf16>
// CHECK: train.slice {{.*}} -> tensor<21x3x3x3xbf16>
func.func @convolution(%x: tensor<2x9x9x3xbf16>, %w: tensor<21x3x3x3xbf16>) -> (tensor<2x9x9x3xbf16>, tensor<21x3x3x3xbf16>) {
  %y = train.conv %x, %w strides = [1, 1] dilations = [1, 1] low = <1, 1> high = <1, 1> groups = 1
      : (tensor<2x9x9x3xbf16>, tensor<21x3x3x3xbf16>) -> tensor<2x9x9x21xbf16>
  %dx = train.conv_data_grad %y, %w strides = [1, 1] dilations = [1, 1] low = <1, 1> high = <1, 1> groups = 1
      : (tensor<2x9x9x21xbf16>, tensor<21x3x3x3xbf16>) -> tensor<2x9x9x3xbf16>
  %dw = train.conv_filter_grad %x, %y strides = [1, 1] dilations = [1, 1] low = <1, 1> high = <1, 1> groups = 1
      : (tensor<2x9x9x3xbf16>, tensor<2x9x9x21xbf16>) -> tensor<21x3x3x3xbf16>
  return %dx, %dw : tensor<2x9x9x3xbf16>, tensor<21x3x3x3xbf16>
}
