// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Formulas behind group normalisation are computed with the groups apart.
// RUN: trainc-opt %s --raise-idioms --canonicalize --cse | FileCheck %s

// Scale and activation; the merge is left to the product, for which it is a view.
// CHECK-LABEL: func.func @scale_and_activation
// CHECK: %[[N:.*]] = train.mul {{.*}} : tensor<2x5x4x3xf32>
// CHECK: %[[G:.*]] = train.reshape %arg2 : tensor<12xf32> -> tensor<4x3xf32>
// CHECK: %[[B:.*]] = train.broadcast %[[G]] axes = [2, 3] : tensor<4x3xf32> -> tensor<2x5x4x3xf32>
// CHECK: %[[S:.*]] = train.mul %[[N]], %[[B]] : tensor<2x5x4x3xf32>
// CHECK: %[[A:.*]] = train.sigmoid %[[S]] : tensor<2x5x4x3xf32>
// CHECK: %[[Y:.*]] = train.mul %[[S]], %[[A]] : tensor<2x5x4x3xf32>
// CHECK: %[[M:.*]] = train.reshape %[[Y]] : tensor<2x5x4x3xf32> -> tensor<10x12xf32>
// CHECK: train.matmul %[[M]]
func.func @scale_and_activation(%x: tensor<2x5x4x3xf32>, %r: tensor<2x4xf32>, %g: tensor<12xf32>, %w: tensor<12x6xf32>) -> tensor<10x6xf32> {
  %0 = train.broadcast %r axes = [0, 2] : tensor<2x4xf32> -> tensor<2x5x4x3xf32>
  %1 = train.mul %x, %0 : tensor<2x5x4x3xf32>
  %2 = train.reshape %1 : tensor<2x5x4x3xf32> -> tensor<2x5x12xf32>
  %3 = train.broadcast %g axes = [2] : tensor<12xf32> -> tensor<2x5x12xf32>
  %4 = train.mul %2, %3 : tensor<2x5x12xf32>
  %5 = train.sigmoid %4 : tensor<2x5x12xf32>
  %6 = train.mul %4, %5 : tensor<2x5x12xf32>
  %7 = train.reshape %6 : tensor<2x5x12xf32> -> tensor<10x12xf32>
  %8 = train.matmul %7, %w : tensor<10x12xf32>, tensor<12x6xf32> -> tensor<10x6xf32>
  return %8 : tensor<10x6xf32>
}

// A reader that needs another tensor with its channels in one axis keeps the merge where it is.
// CHECK-LABEL: func.func @other_tensor
// CHECK: train.reshape {{.*}} -> tensor<2x5x12xf32>
// CHECK: train.add {{.*}} : tensor<2x5x12xf32>
func.func @other_tensor(%x: tensor<2x5x4x3xf32>, %r: tensor<2x4xf32>, %z: tensor<2x5x12xf32>) -> tensor<2x5x12xf32> {
  %0 = train.broadcast %r axes = [0, 2] : tensor<2x4xf32> -> tensor<2x5x4x3xf32>
  %1 = train.mul %x, %0 : tensor<2x5x4x3xf32>
  %2 = train.reshape %1 : tensor<2x5x4x3xf32> -> tensor<2x5x12xf32>
  %3 = train.add %2, %z : tensor<2x5x12xf32>
  return %3 : tensor<2x5x12xf32>
}

// Where all of the merged axes are meant, nothing is in groups.
// CHECK-LABEL: func.func @no_groups
// CHECK: train.sigmoid {{.*}} : tensor<10x12xf32>
func.func @no_groups(%x: tensor<2x5x12xf32>, %r: tensor<2x5xf32>) -> tensor<10x12xf32> {
  %0 = train.broadcast %r axes = [0, 1] : tensor<2x5xf32> -> tensor<2x5x12xf32>
  %1 = train.mul %x, %0 : tensor<2x5x12xf32>
  %2 = train.reshape %1 : tensor<2x5x12xf32> -> tensor<10x12xf32>
  %3 = train.sigmoid %2 : tensor<10x12xf32>
  return %3 : tensor<10x12xf32>
}
