// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rewrites of several ops, and what is close to them and stays.
// RUN: trainc-opt %s --canonicalize | FileCheck %s

// A bias between a reshape and its inverse is added in the outer shape.
// CHECK-LABEL: func.func @between_reshapes(
// CHECK-SAME: %[[X:.*]]: tensor<2x3x8xf32>, %[[B:.*]]: tensor<8xf32>
func.func @between_reshapes(%x: tensor<2x3x8xf32>, %b: tensor<8xf32>) -> tensor<2x3x8xf32> {
  %0 = train.reshape %x : tensor<2x3x8xf32> -> tensor<6x8xf32>
  %1 = train.broadcast %b axes = [1] : tensor<8xf32> -> tensor<6x8xf32>
  %2 = train.add %0, %1 : tensor<6x8xf32>
  %3 = train.exp %2 : tensor<6x8xf32>
  %4 = train.reshape %3 : tensor<6x8xf32> -> tensor<2x3x8xf32>
  // CHECK-NEXT: %[[R:.*]] = train.broadcast %[[B]] axes = [2] : tensor<8xf32> -> tensor<2x3x8xf32>
  // CHECK-NEXT: %[[S:.*]] = train.add %[[X]], %[[R]] : tensor<2x3x8xf32>
  // CHECK-NEXT: %[[E:.*]] = train.exp %[[S]] : tensor<2x3x8xf32>
  // CHECK-NEXT: return %[[E]]
  return %4 : tensor<2x3x8xf32>
}

// Rows of the inner shape have no axis in the outer one.
// CHECK-LABEL: func.func @joined_axis_repeated(
func.func @joined_axis_repeated(%x: tensor<2x3x8xf32>, %b: tensor<6xf32>) -> tensor<2x3x8xf32> {
  // CHECK: train.reshape
  %0 = train.reshape %x : tensor<2x3x8xf32> -> tensor<6x8xf32>
  // CHECK: train.broadcast %{{.*}} axes = [0] : tensor<6xf32> -> tensor<6x8xf32>
  %1 = train.broadcast %b axes = [0] : tensor<6xf32> -> tensor<6x8xf32>
  // CHECK: train.add {{.*}} : tensor<6x8xf32>
  %2 = train.add %0, %1 : tensor<6x8xf32>
  // CHECK: train.reshape
  %3 = train.reshape %2 : tensor<6x8xf32> -> tensor<2x3x8xf32>
  return %3 : tensor<2x3x8xf32>
}

// The sum is read in the inner shape as well: it would be computed twice.
// CHECK-LABEL: func.func @read_in_between(
func.func @read_in_between(%x: tensor<2x3x8xf32>) -> (tensor<2x3x8xf32>, tensor<6x8xf32>) {
  %0 = train.reshape %x : tensor<2x3x8xf32> -> tensor<6x8xf32>
  // CHECK: %[[E:.*]] = train.exp {{.*}} : tensor<6x8xf32>
  %1 = train.exp %0 : tensor<6x8xf32>
  // CHECK-NEXT: train.reshape %[[E]]
  %2 = train.reshape %1 : tensor<6x8xf32> -> tensor<2x3x8xf32>
  return %2, %1 : tensor<2x3x8xf32>, tensor<6x8xf32>
}

// An operand that was never of the outer shape would need a reshape of its own.
// CHECK-LABEL: func.func @other_operand(
func.func @other_operand(%x: tensor<2x3x8xf32>, %y: tensor<6x8xf32>) -> tensor<2x3x8xf32> {
  %0 = train.reshape %x : tensor<2x3x8xf32> -> tensor<6x8xf32>
  // CHECK: train.add {{.*}} : tensor<6x8xf32>
  %1 = train.add %0, %y : tensor<6x8xf32>
  %2 = train.reshape %1 : tensor<6x8xf32> -> tensor<2x3x8xf32>
  return %2 : tensor<2x3x8xf32>
}

// Rounding comes before elements are moved.
// CHECK-LABEL: func.func @rounded_before_moves(
// CHECK-SAME: %[[X:.*]]: tensor<2x3x4xf32>
func.func @rounded_before_moves(%x: tensor<2x3x4xf32>) -> tensor<4x6xbf16> {
  %0 = train.reshape %x : tensor<2x3x4xf32> -> tensor<6x4xf32>
  %1 = train.transpose %0 permutation = [1, 0] : tensor<6x4xf32> -> tensor<4x6xf32>
  %2 = train.cast %1 : tensor<4x6xf32> -> tensor<4x6xbf16>
  // CHECK-NEXT: %[[C:.*]] = train.cast %[[X]] : tensor<2x3x4xf32> -> tensor<2x3x4xbf16>
  // CHECK-NEXT: %[[R:.*]] = train.reshape %[[C]] : tensor<2x3x4xbf16> -> tensor<6x4xbf16>
  // CHECK-NEXT: %[[T:.*]] = train.transpose %[[R]] permutation = [1, 0] : tensor<6x4xbf16> -> tensor<4x6xbf16>
  // CHECK-NEXT: return %[[T]]
  return %2 : tensor<4x6xbf16>
}

// What surrounds windows with zeros, or cuts them off, moves as well; another border may be no number of the small type.
// CHECK-LABEL: func.func @rounded_before_pads(
// CHECK-SAME: %[[X:.*]]: tensor<4xf32>
func.func @rounded_before_pads(%x: tensor<4xf32>) -> (tensor<2xbf16>, tensor<6xbf16>) {
  %0 = train.pad %x value = 0.0 : f32 low = <-1> : tensor<4xf32> -> tensor<2xf32>
  %1 = train.cast %0 : tensor<2xf32> -> tensor<2xbf16>
  %2 = train.pad %x value = 0.1 : f32 low = <1> : tensor<4xf32> -> tensor<6xf32>
  %3 = train.cast %2 : tensor<6xf32> -> tensor<6xbf16>
  // CHECK-NEXT: %[[C:.*]] = train.cast %[[X]] : tensor<4xf32> -> tensor<4xbf16>
  // CHECK-NEXT: %[[P:.*]] = train.pad %[[C]] value = 0.000000e+00 : bf16 low = <-1> : tensor<4xbf16> -> tensor<2xbf16>
  // CHECK-NEXT: %[[Q:.*]] = train.pad %[[X]] value = 1.000000e-01 : f32
  // CHECK-NEXT: %[[R:.*]] = train.cast %[[Q]]
  // CHECK-NEXT: return %[[P]], %[[R]]
  return %1, %3 : tensor<2xbf16>, tensor<6xbf16>
}

// Widening, conversions to integers and other moves stay where they are.
// CHECK-LABEL: func.func @casts_behind_moves(
func.func @casts_behind_moves(%x: tensor<2x3xbf16>, %y: tensor<2x3xf32>, %z: tensor<3xf32>)
    -> (tensor<3x2xf32>, tensor<3x2xi8>, tensor<2x3xbf16>) {
  // CHECK: %[[A:.*]] = train.transpose {{.*}} -> tensor<3x2xbf16>
  // CHECK: train.cast %[[A]] : tensor<3x2xbf16> -> tensor<3x2xf32>
  %0 = train.transpose %x permutation = [1, 0] : tensor<2x3xbf16> -> tensor<3x2xbf16>
  %1 = train.cast %0 : tensor<3x2xbf16> -> tensor<3x2xf32>
  // CHECK: %[[B:.*]] = train.transpose {{.*}} -> tensor<3x2xf32>
  // CHECK: train.cast %[[B]] : tensor<3x2xf32> -> tensor<3x2xi8>
  %2 = train.transpose %y permutation = [1, 0] : tensor<2x3xf32> -> tensor<3x2xf32>
  %3 = train.cast %2 : tensor<3x2xf32> -> tensor<3x2xi8>
  // CHECK: %[[C:.*]] = train.broadcast {{.*}} -> tensor<2x3xf32>
  // CHECK: train.cast %[[C]] : tensor<2x3xf32> -> tensor<2x3xbf16>
  %4 = train.broadcast %z axes = [1] : tensor<3xf32> -> tensor<2x3xf32>
  %5 = train.cast %4 : tensor<2x3xf32> -> tensor<2x3xbf16>
  return %1, %3, %5 : tensor<3x2xf32>, tensor<3x2xi8>, tensor<2x3xbf16>
}

// A cast that loses nothing is left out of a chain.
// CHECK-LABEL: func.func @exact_casts(
// CHECK-SAME: %[[H:.*]]: tensor<4xf16>, %[[S:.*]]: tensor<4xi8>, %[[P:.*]]: tensor<4xi1>
func.func @exact_casts(%h: tensor<4xf16>, %s: tensor<4xi8>, %p: tensor<4xi1>)
    -> (tensor<4xf16>, tensor<4xbf16>, tensor<4xf32>, tensor<4xf32>) {
  %0 = train.cast %h : tensor<4xf16> -> tensor<4xf32>
  %1 = train.cast %0 : tensor<4xf32> -> tensor<4xf16>
  // CHECK-NEXT: %[[B:.*]] = train.cast %[[H]] : tensor<4xf16> -> tensor<4xbf16>
  %2 = train.cast %0 : tensor<4xf32> -> tensor<4xbf16>
  // CHECK-NEXT: %[[C:.*]] = train.cast %[[S]] : tensor<4xi8> -> tensor<4xf32>
  %3 = train.cast %s : tensor<4xi8> -> tensor<4xbf16>
  %4 = train.cast %3 : tensor<4xbf16> -> tensor<4xf32>
  // CHECK-NEXT: %[[D:.*]] = train.cast %[[P]] : tensor<4xi1> -> tensor<4xf32>
  %5 = train.cast %p : tensor<4xi1> -> tensor<4xi64>
  %6 = train.cast %5 : tensor<4xi64> -> tensor<4xf32>
  // CHECK-NEXT: return %[[H]], %[[B]], %[[C]], %[[D]]
  return %1, %2, %4, %6 : tensor<4xf16>, tensor<4xbf16>, tensor<4xf32>, tensor<4xf32>
}

// bf16 has fewer digits than f16 and f16 a smaller range, i32 has more digits than f32, and a number is not a
// boolean.
// CHECK-LABEL: func.func @lossy_casts(
func.func @lossy_casts(%h: tensor<4xf16>, %b: tensor<4xbf16>, %i: tensor<4xi32>)
    -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf64>, tensor<4xi32>) {
  // CHECK: train.cast {{.*}} : tensor<4xf16> -> tensor<4xbf16>
  %0 = train.cast %h : tensor<4xf16> -> tensor<4xbf16>
  // CHECK: train.cast {{.*}} : tensor<4xbf16> -> tensor<4xf32>
  %1 = train.cast %0 : tensor<4xbf16> -> tensor<4xf32>
  // CHECK: train.cast {{.*}} : tensor<4xbf16> -> tensor<4xf16>
  %2 = train.cast %b : tensor<4xbf16> -> tensor<4xf16>
  // CHECK: train.cast {{.*}} : tensor<4xf16> -> tensor<4xf32>
  %3 = train.cast %2 : tensor<4xf16> -> tensor<4xf32>
  // CHECK: train.cast {{.*}} : tensor<4xi32> -> tensor<4xf32>
  %4 = train.cast %i : tensor<4xi32> -> tensor<4xf32>
  // CHECK: train.cast {{.*}} : tensor<4xf32> -> tensor<4xf64>
  %5 = train.cast %4 : tensor<4xf32> -> tensor<4xf64>
  // CHECK: train.cast {{.*}} : tensor<4xi32> -> tensor<4xi1>
  %6 = train.cast %i : tensor<4xi32> -> tensor<4xi1>
  // CHECK: train.cast {{.*}} : tensor<4xi1> -> tensor<4xi32>
  %7 = train.cast %6 : tensor<4xi1> -> tensor<4xi32>
  return %1, %3, %5, %7 : tensor<4xf32>, tensor<4xf32>, tensor<4xf64>, tensor<4xi32>
}

// A reduction over axes that a reshape joined or cut is one over the axes before.
// CHECK-LABEL: func.func @reduced_before_reshape(
// CHECK-SAME: %[[X:.*]]: tensor<2x3x8xf32>, %[[Y:.*]]: tensor<6x8xf32>
func.func @reduced_before_reshape(%x: tensor<2x3x8xf32>, %y: tensor<6x8xf32>) -> (tensor<8xf32>, tensor<6xf32>) {
  // CHECK-NEXT: %[[A:.*]] = train.reduce sum %[[X]] axes = [0, 1] : tensor<2x3x8xf32> -> tensor<8xf32>
  %0 = train.reshape %x : tensor<2x3x8xf32> -> tensor<6x8xf32>
  %1 = train.reduce sum %0 axes = [0] : tensor<6x8xf32> -> tensor<8xf32>
  // CHECK-NEXT: %[[B:.*]] = train.reduce max %[[Y]] axes = [1] : tensor<6x8xf32> -> tensor<6xf32>
  %2 = train.reshape %y : tensor<6x8xf32> -> tensor<6x2x4xf32>
  %3 = train.reduce max %2 axes = [1, 2] : tensor<6x2x4xf32> -> tensor<6xf32>
  // CHECK-NEXT: return %[[A]], %[[B]]
  return %1, %3 : tensor<8xf32>, tensor<6xf32>
}

// Where a part of a cut axis is kept, or a joined one, the reduction needs the reshape; a sum of all elements is
// left as it is.
// CHECK-LABEL: func.func @reduced_after_reshape(
func.func @reduced_after_reshape(%x: tensor<2x3x8xf32>, %y: tensor<6x8xf32>) -> (tensor<6xf32>, tensor<6x4xf32>, tensor<f32>) {
  // CHECK: train.reduce sum {{.*}} axes = [1] : tensor<6x8xf32> -> tensor<6xf32>
  %0 = train.reshape %x : tensor<2x3x8xf32> -> tensor<6x8xf32>
  %1 = train.reduce sum %0 axes = [1] : tensor<6x8xf32> -> tensor<6xf32>
  // CHECK: train.reduce sum {{.*}} axes = [1] : tensor<6x2x4xf32> -> tensor<6x4xf32>
  %2 = train.reshape %y : tensor<6x8xf32> -> tensor<6x2x4xf32>
  %3 = train.reduce sum %2 axes = [1] : tensor<6x2x4xf32> -> tensor<6x4xf32>
  // CHECK: train.reduce sum {{.*}} axes = [0, 1] : tensor<6x8xf32> -> tensor<f32>
  %4 = train.reduce sum %0 axes = [0, 1] : tensor<6x8xf32> -> tensor<f32>
  return %1, %3, %4 : tensor<6xf32>, tensor<6x4xf32>, tensor<f32>
}

// The sum over taps that windows spread by a stride is a sum of each phase, without gaps: taps 2g and 2g + 1 (the last one
// of these is none) make the even and the odd positions.
// CHECK-LABEL: func.func @strided_sum(
// CHECK-SAME: %[[X:.*]]: tensor<3x2x5xf32>
func.func @strided_sum(%x: tensor<3x2x5xf32>) -> tensor<2x11xf32> {
  // CHECK-NEXT: %[[P:.*]] = train.pad %[[X]] value = 0.000000e+00 : f32 low = <0, 0, 0> : tensor<3x2x5xf32> -> tensor<4x2x5xf32>
  // CHECK-NEXT: %[[B:.*]] = train.broadcast %[[P]] axes = [0, 2, 3] : tensor<4x2x5xf32> -> tensor<4x2x2x5xf32>
  // CHECK-NEXT: %[[W:.*]] = train.window %[[B]] axis = 0 taps = 1 stride = 2 dilation = 1 : tensor<4x2x2x5xf32> -> tensor<2x2x2x5xf32>
  // CHECK-NEXT: %[[S:.*]] = train.spread %[[W]] axis = 3 taps = 0 stride = 1 dilation = 1 : tensor<2x2x2x5xf32> -> tensor<2x2x2x6xf32>
  // CHECK-NEXT: %[[R:.*]] = train.reduce sum %[[S]] axes = [0] : tensor<2x2x2x6xf32> -> tensor<2x2x6xf32>
  // CHECK-NEXT: %[[T:.*]] = train.transpose %[[R]] permutation = [1, 2, 0] : tensor<2x2x6xf32> -> tensor<2x6x2xf32>
  // CHECK-NEXT: %[[J:.*]] = train.reshape %[[T]] : tensor<2x6x2xf32> -> tensor<2x12xf32>
  // CHECK-NEXT: train.pad %[[J]] value = 0.000000e+00 : f32 low = <0, 0> : tensor<2x12xf32> -> tensor<2x11xf32>
  %0 = train.spread %x axis = 2 taps = 0 stride = 2 dilation = 1 : tensor<3x2x5xf32> -> tensor<3x2x11xf32>
  %1 = train.reduce sum %0 axes = [0] : tensor<3x2x11xf32> -> tensor<2x11xf32>
  return %1 : tensor<2x11xf32>
}

// Where the channels are last, phases lie beside their positions at once, and the padding that is cut off is never computed:
// a tap of zeros in front makes the first position that is wanted the first one of a phase.
// CHECK-LABEL: func.func @strided_sum_of_channels(
// CHECK-SAME: %[[X:.*]]: tensor<3x3x2x4x5x8xf32>
func.func @strided_sum_of_channels(%x: tensor<3x3x2x4x5x8xf32>) -> tensor<2x8x10x8xf32> {
  // CHECK-NEXT: %[[P:.*]] = train.pad %[[X]] value = 0.000000e+00 : f32 low = <1, 1, 0, 0, 0, 0> : tensor<3x3x2x4x5x8xf32> -> tensor<4x4x2x4x5x8xf32>
  // CHECK-NEXT: %[[B:.*]] = train.broadcast %[[P]] axes = [0, 1, 2, 3, 5, 7] : tensor<4x4x2x4x5x8xf32> -> tensor<4x4x2x4x2x5x2x8xf32>
  // CHECK-NEXT: %[[V:.*]] = train.window %[[B]] axis = 0 taps = 4 stride = 2 dilation = 1
  // CHECK-NEXT: %[[W:.*]] = train.window %[[V]] axis = 1 taps = 6 stride = 2 dilation = 1 : tensor<2x4x2x4x2x5x2x8xf32> -> tensor<2x2x2x4x2x5x2x8xf32>
  // CHECK-NEXT: %[[S:.*]] = train.spread %[[W]] axis = 5 taps = 1 stride = 1 dilation = 1
  // CHECK-NEXT: %[[R:.*]] = train.spread %[[S]] axis = 3 taps = 0 stride = 1 dilation = 1 : tensor<2x2x2x4x2x6x2x8xf32> -> tensor<2x2x2x6x2x6x2x8xf32>
  // CHECK-NEXT: %[[C:.*]] = train.slice %[[R]] starts = <0, 0, 0, 1, 0, 1, 0, 0> {{.*}} -> tensor<2x2x2x4x2x5x2x8xf32>
  // CHECK-NEXT: %[[Y:.*]] = train.reduce sum %[[C]] axes = [0, 1] : tensor<2x2x2x4x2x5x2x8xf32> -> tensor<2x4x2x5x2x8xf32>
  // CHECK-NEXT: %[[J:.*]] = train.reshape %[[Y]] : tensor<2x4x2x5x2x8xf32> -> tensor<2x8x10x8xf32>
  // CHECK-NEXT: return %[[J]]
  %0 = train.spread %x axis = 4 taps = 1 stride = 2 dilation = 1 : tensor<3x3x2x4x5x8xf32> -> tensor<3x3x2x4x11x8xf32>
  %1 = train.spread %0 axis = 3 taps = 0 stride = 2 dilation = 1 : tensor<3x3x2x4x11x8xf32> -> tensor<3x3x2x10x11x8xf32>
  %2 = train.reduce sum %1 axes = [0, 1] : tensor<3x3x2x10x11x8xf32> -> tensor<2x10x11x8xf32>
  %3 = train.slice %2 starts = <0, 1, 1, 0> steps = [1, 1, 1, 1] : tensor<2x10x11x8xf32> -> tensor<2x8x10x8xf32>
  return %3 : tensor<2x8x10x8xf32>
}

// An odd number of positions is cut off behind the sum; so is what cuts another axis, too, or has readers beside it.
// CHECK-LABEL: func.func @strided_sum_then_part(
func.func @strided_sum_then_part(%x: tensor<3x2x4x8xf32>) -> (tensor<2x9x8xf32>, tensor<2x8x4xf32>, tensor<2x9x8xf32>, tensor<2x8x8xf32>) {
  // CHECK-NOT: low = <1
  // CHECK: train.pad {{.*}} : tensor<2x10x8xf32> -> tensor<2x9x8xf32>
  %0 = train.spread %x axis = 2 taps = 0 stride = 2 dilation = 1 : tensor<3x2x4x8xf32> -> tensor<3x2x9x8xf32>
  %1 = train.reduce sum %0 axes = [0] : tensor<3x2x9x8xf32> -> tensor<2x9x8xf32>
  // CHECK: train.slice {{.*}} -> tensor<2x8x4xf32>
  %2 = train.spread %x axis = 2 taps = 0 stride = 2 dilation = 1 : tensor<3x2x4x8xf32> -> tensor<3x2x9x8xf32>
  %3 = train.reduce sum %2 axes = [0] : tensor<3x2x9x8xf32> -> tensor<2x9x8xf32>
  %4 = train.slice %3 starts = <0, 1, 0> steps = [1, 1, 1] : tensor<2x9x8xf32> -> tensor<2x8x4xf32>
  // CHECK: train.slice {{.*}} -> tensor<2x8x8xf32>
  %5 = train.spread %x axis = 2 taps = 0 stride = 2 dilation = 1 : tensor<3x2x4x8xf32> -> tensor<3x2x9x8xf32>
  %6 = train.reduce sum %5 axes = [0] : tensor<3x2x9x8xf32> -> tensor<2x9x8xf32>
  %7 = train.slice %6 starts = <0, 1, 0> steps = [1, 1, 1] : tensor<2x9x8xf32> -> tensor<2x8x8xf32>
  return %1, %4, %6, %7 : tensor<2x9x8xf32>, tensor<2x8x4xf32>, tensor<2x9x8xf32>, tensor<2x8x8xf32>
}

// Not with dilated taps, where windows move by 1, of what others read as well, of a maximum, or where positions are summed.
// CHECK-LABEL: func.func @spread_stays(
// CHECK-COUNT-5: train.spread {{.*}} -> tensor<3x2x11xf32>
// CHECK-NOT: train.window
// CHECK: return
func.func @spread_stays(%x: tensor<3x2x4xf32>, %y: tensor<3x2x9xf32>)
    -> (tensor<2x11xf32>, tensor<2x11xf32>, tensor<2x11xf32>, tensor<3x2x11xf32>, tensor<2x11xf32>, tensor<2xf32>) {
  %0 = train.spread %x axis = 2 taps = 0 stride = 2 dilation = 2 : tensor<3x2x4xf32> -> tensor<3x2x11xf32>
  %1 = train.reduce sum %0 axes = [0] : tensor<3x2x11xf32> -> tensor<2x11xf32>
  %2 = train.spread %y axis = 2 taps = 0 stride = 1 dilation = 1 : tensor<3x2x9xf32> -> tensor<3x2x11xf32>
  %3 = train.reduce sum %2 axes = [0] : tensor<3x2x11xf32> -> tensor<2x11xf32>
  %4 = train.spread %x axis = 2 taps = 0 stride = 2 dilation = 1 : tensor<3x2x4xf32> -> tensor<3x2x11xf32>
  %5 = train.reduce sum %4 axes = [0] : tensor<3x2x11xf32> -> tensor<2x11xf32>
  %6 = train.spread %x axis = 2 taps = 0 stride = 2 dilation = 1 : tensor<3x2x4xf32> -> tensor<3x2x11xf32>
  %7 = train.reduce max %6 axes = [0] : tensor<3x2x11xf32> -> tensor<2x11xf32>
  %8 = train.spread %x axis = 2 taps = 0 stride = 2 dilation = 1 : tensor<3x2x4xf32> -> tensor<3x2x11xf32>
  %9 = train.reduce sum %8 axes = [0, 2] : tensor<3x2x11xf32> -> tensor<2xf32>
  return %1, %3, %5, %4, %7, %9 : tensor<2x11xf32>, tensor<2x11xf32>, tensor<2x11xf32>, tensor<3x2x11xf32>, tensor<2x11xf32>, tensor<2xf32>
}
