// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --split-input-file --keep-rounded-weights --remarks-filter=keep-rounded-weights --remark-format=emitRemark 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t
// RUN: trainc-opt %s --split-input-file --keep-rounded-weights | trainc-opt --split-input-file --keep-rounded-weights | FileCheck %s

// REMARK: Kept{{.*}}the weight 'w' is kept in bf16, too, and rounded by its update
// REMARK: Kept{{.*}}the weight 'v' is kept in bf16

// What a library multiplies is read rounded and written by whatever updates it, in the shape that it is computed in.
// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[W:arg0]]: tensor<8x8xf32>
// CHECK-SAME: %[[RW:arg5]]: tensor<8x8xbf16> {train.name = "w", train.role = "derived"}
// CHECK-SAME: %[[RV:arg6]]: tensor<4x16xbf16> {train.name = "v", train.role = "derived"}
// CHECK-SAME: tensor<8x8xbf16> {train.name = "w", train.role = "update", train.updates = "derived"}
// CHECK: train.cast %arg2
// CHECK: train.matmul %arg3, %[[RW]]
// CHECK: %[[VIEW:[0-9]+]] = train.reshape %[[RV]]
// CHECK: train.matmul %{{.*}}, %[[VIEW]]
// CHECK: %[[NEW:[0-9]+]] = train.add %[[W]], %[[W]]
// CHECK: %[[INNER:[0-9]+]] = train.add %{{.*}} : tensor<64xf32>
// CHECK: %[[ROUND:[0-9]+]] = train.cast %[[NEW]] : tensor<8x8xf32> -> tensor<8x8xbf16>
// CHECK: %[[FLAT:[0-9]+]] = train.cast %[[INNER]] : tensor<64xf32> -> tensor<64xbf16>
// CHECK: %[[SHAPED:[0-9]+]] = train.reshape %[[FLAT]]
// CHECK: return %{{.*}}, %[[NEW]], %{{.*}}, %{{.*}}, %[[ROUND]], %[[SHAPED]]
func.func @step(%w: tensor<8x8xf32> {train.role = "parameter", train.name = "w", train.trainable},
    %v: tensor<4x16xf32> {train.role = "parameter", train.name = "v", train.trainable},
    %b: tensor<8xf32> {train.role = "parameter", train.name = "b", train.trainable},
    %x: tensor<4x8xbf16> {train.role = "input", train.name = "x"},
    %lr: tensor<f32> {train.role = "hyper", train.name = "lr"})
    -> (tensor<4x8xbf16> {train.role = "output", train.name = "y"},
        tensor<8x8xf32> {train.role = "update", train.updates = "parameter", train.name = "w"},
        tensor<4x16xf32> {train.role = "update", train.updates = "parameter", train.name = "v"},
        tensor<8xf32> {train.role = "update", train.updates = "parameter", train.name = "b"}) {
  %w0 = train.cast %w : tensor<8x8xf32> -> tensor<8x8xbf16>
  %v0 = train.cast %v : tensor<4x16xf32> -> tensor<4x16xbf16>
  %b0 = train.cast %b : tensor<8xf32> -> tensor<8xbf16>
  %0 = train.matmul %x, %w0 : tensor<4x8xbf16>, tensor<8x8xbf16> -> tensor<4x8xbf16>
  %b1 = train.broadcast %b0 axes = [1] : tensor<8xbf16> -> tensor<4x8xbf16>
  %1 = train.add %0, %b1 : tensor<4x8xbf16>
  %v1 = train.reshape %v0 : tensor<4x16xbf16> -> tensor<8x8xbf16>
  %2 = train.matmul %1, %v1 : tensor<4x8xbf16>, tensor<8x8xbf16> -> tensor<4x8xbf16>
  %nw = train.add %w, %w : tensor<8x8xf32>
  %flat = train.reshape %v : tensor<4x16xf32> -> tensor<64xf32>
  %inner = train.add %flat, %flat : tensor<64xf32>
  %nv = train.reshape %inner : tensor<64xf32> -> tensor<4x16xf32>
  %nb = train.add %b, %b : tensor<8xf32>
  return %2, %nw, %nv, %nb : tensor<4x8xbf16>, tensor<8x8xf32>, tensor<4x16xf32>, tensor<8xf32>
}

// Evaluation rounds for itself, as it has no memory for what is kept.
// CHECK-LABEL: func.func @eval
// CHECK-NOT: derived
// CHECK: train.cast %arg0 : tensor<8x8xf32> -> tensor<8x8xbf16>
func.func @eval(%w: tensor<8x8xf32> {train.role = "parameter", train.name = "w", train.trainable},
    %x: tensor<4x8xbf16> {train.role = "input", train.name = "x"}) -> (tensor<4x8xbf16> {train.role = "output", train.name = "y"}) {
  %w0 = train.cast %w : tensor<8x8xf32> -> tensor<8x8xbf16>
  %0 = train.matmul %x, %w0 : tensor<4x8xbf16>, tensor<8x8xbf16> -> tensor<4x8xbf16>
  return %0 : tensor<4x8xbf16>
}

// CHECK-LABEL: func.func @derive
// CHECK-SAME: train.updates = "derived"
// CHECK-SAME: train.updates = "derived"
// CHECK: train.cast
// CHECK: train.cast
// CHECK-NOT: func.func @derive

// -----

// Rows of zeros are kept with the weight; its update has only its own.
// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[KEPT:arg2]]: tensor<16x8xbf16> {train.name = "w", train.role = "derived"}
// CHECK-SAME: tensor<10x8xbf16> {train.name = "w", train.role = "update", train.updates = "derived"}
// CHECK-NOT: train.pad
// CHECK: train.matmul %{{.*}}, %[[KEPT]] transposed
// CHECK: train.cast %{{.*}} : tensor<10x8xf32> -> tensor<10x8xbf16>
// CHECK-LABEL: func.func @derive
// CHECK: train.cast %arg0 : tensor<10x8xf32> -> tensor<10x8xbf16>
func.func @step(%w: tensor<10x8xf32> {train.role = "parameter", train.name = "w", train.trainable},
    %x: tensor<4x8xbf16> {train.role = "input", train.name = "x"})
    -> (tensor<4x16xbf16> {train.role = "output", train.name = "y"},
        tensor<10x8xf32> {train.role = "update", train.updates = "parameter", train.name = "w"}) {
  %w0 = train.cast %w : tensor<10x8xf32> -> tensor<10x8xbf16>
  %w1 = train.pad %w0 value = 0.0 : bf16 low = <0, 0> : tensor<10x8xbf16> -> tensor<16x8xbf16>
  %0 = train.matmul %x, %w1 transposed : tensor<4x8xbf16>, tensor<16x8xbf16> -> tensor<4x16xbf16>
  %nw = train.add %w, %w : tensor<10x8xf32>
  return %0, %nw : tensor<4x16xbf16>, tensor<10x8xf32>
}
