// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What stays apart, and why.
// RUN: trainc-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(merge-projections))' --remarks-filter=merge-projections --remark-format=emitRemark 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t

// CHECK-NOT: train.concat

// A kernel reads one; two calls read the other.
// REMARK-COUNT-2: NotMerged{{.*}}not one library call alone reads it: its gradient would be copied to those of the others
func.func @kernel(%x: tensor<256x64xf32>, %v: tensor<64x64xf32> {train.role = "parameter", train.name = "v", train.trainable},
    %w: tensor<64x64xf32> {train.role = "parameter", train.name = "w", train.trainable}) -> (tensor<64x64xf32>, tensor<256x256xf32>) {
  %0 = train.matmul %x, %v transposed : tensor<256x64xf32>, tensor<64x64xf32> -> tensor<256x64xf32>
  %1 = train.matmul %x, %w transposed : tensor<256x64xf32>, tensor<64x64xf32> -> tensor<256x64xf32>
  %2 = train.exp %0 : tensor<256x64xf32>
  %3 = train.matmul %2 transposed, %1 : tensor<256x64xf32>, tensor<256x64xf32> -> tensor<64x64xf32>
  %4 = train.matmul %1, %x transposed : tensor<256x64xf32>, tensor<256x64xf32> -> tensor<256x256xf32>
  return %3, %4 : tensor<64x64xf32>, tensor<256x256xf32>
}

// -----

// Frozen; read by others; in 16 bits; of 10 columns; the left factor; a bias that is not trained.
// REMARK: its weight is not trained
// REMARK: others read its weight, too
// REMARK-COUNT-2: its weight is not rounded in each step, and would be copied to be beside others
// REMARK: its columns are no multiple of 8, which parts begin at
// REMARK: its bias is not trained, or others read it, too
func.func @weights(%x: tensor<256x64xf32>, %y: tensor<256x64xbf16>, %a: tensor<64x64xf32> {train.role = "parameter", train.name = "a"},
    %b: tensor<64x64xf32> {train.role = "parameter", train.name = "b", train.trainable}, %c: tensor<64x64xbf16> {train.role = "parameter", train.name = "c", train.trainable},
    %d: tensor<64x10xf32> {train.role = "parameter", train.name = "d", train.trainable}, %e: tensor<64x64xf32> {train.role = "parameter", train.name = "e", train.trainable},
    %f: tensor<64xf32> {train.role = "parameter", train.name = "f"}, %g: tensor<64x64xf32> {train.role = "parameter", train.name = "g", train.trainable})
    -> (tensor<64x64xf32>, tensor<64x64xbf16>, tensor<64x10xf32>, tensor<64x64xf32>, tensor<64x64xf32>) {
  %0 = train.matmul %x, %a : tensor<256x64xf32>, tensor<64x64xf32> -> tensor<256x64xf32>
  %1 = train.matmul %x, %b : tensor<256x64xf32>, tensor<64x64xf32> -> tensor<256x64xf32>
  %2 = train.matmul %0 transposed, %1 : tensor<256x64xf32>, tensor<256x64xf32> -> tensor<64x64xf32>
  %3 = train.matmul %y, %c : tensor<256x64xbf16>, tensor<64x64xbf16> -> tensor<256x64xbf16>
  %4 = train.matmul %y transposed, %3 : tensor<256x64xbf16>, tensor<256x64xbf16> -> tensor<64x64xbf16>
  %5 = train.matmul %y, %c transposed : tensor<256x64xbf16>, tensor<64x64xbf16> -> tensor<256x64xbf16>
  %6 = train.matmul %y transposed, %5 : tensor<256x64xbf16>, tensor<256x64xbf16> -> tensor<64x64xbf16>
  %7 = train.add %4, %6 : tensor<64x64xbf16>
  %8 = train.matmul %x, %d : tensor<256x64xf32>, tensor<64x10xf32> -> tensor<256x10xf32>
  %9 = train.matmul %x transposed, %8 : tensor<256x64xf32>, tensor<256x10xf32> -> tensor<64x10xf32>
  %10 = train.matmul %x, %e : tensor<256x64xf32>, tensor<64x64xf32> -> tensor<256x64xf32>
  %11 = train.broadcast %f axes = [1] : tensor<64xf32> -> tensor<256x64xf32>
  %12 = train.add %10, %11 : tensor<256x64xf32>
  %13 = train.matmul %x transposed, %12 : tensor<256x64xf32>, tensor<256x64xf32> -> tensor<64x64xf32>
  %14 = train.matmul %x, %g : tensor<256x64xf32>, tensor<64x64xf32> -> tensor<256x64xf32>
  %15 = train.matmul %x transposed, %14 : tensor<256x64xf32>, tensor<256x64xf32> -> tensor<64x64xf32>
  %16 = train.add %b, %15 : tensor<64x64xf32>
  return %2, %7, %9, %13, %16 : tensor<64x64xf32>, tensor<64x64xbf16>, tensor<64x10xf32>, tensor<64x64xf32>, tensor<64x64xf32>
}

// -----

// Beside the first one: weights of another orientation, without a bias, with another formula, in another shape.
// REMARK: weights are stored with other axes first
// REMARK: only some have a bias
// REMARK: their biases enter by other formulas
// REMARK: they are read in other shapes or types
func.func @unlike(%x: tensor<256x64xf32>, %a: tensor<64x64xf32> {train.role = "parameter", train.name = "a", train.trainable}, %ab: tensor<64xf32> {train.role = "parameter", train.name = "ab", train.trainable},
    %b: tensor<64x64xf32> {train.role = "parameter", train.name = "b", train.trainable}, %c: tensor<64x64xf32> {train.role = "parameter", train.name = "c", train.trainable},
    %d: tensor<64x64xf32> {train.role = "parameter", train.name = "d", train.trainable}, %db: tensor<64xf32> {train.role = "parameter", train.name = "db", train.trainable},
    %e: tensor<64x64xf32> {train.role = "parameter", train.name = "e", train.trainable}, %eb: tensor<64xf32> {train.role = "parameter", train.name = "eb", train.trainable})
    -> (tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>, tensor<2x64x64xf32>) {
  %0 = train.matmul %x, %a : tensor<256x64xf32>, tensor<64x64xf32> -> tensor<256x64xf32>
  %1 = train.broadcast %ab axes = [1] : tensor<64xf32> -> tensor<256x64xf32>
  %2 = train.add %0, %1 : tensor<256x64xf32>
  %3 = train.matmul %x transposed, %2 : tensor<256x64xf32>, tensor<256x64xf32> -> tensor<64x64xf32>
  %4 = train.matmul %x, %b transposed : tensor<256x64xf32>, tensor<64x64xf32> -> tensor<256x64xf32>
  %5 = train.matmul %x transposed, %4 : tensor<256x64xf32>, tensor<256x64xf32> -> tensor<64x64xf32>
  %6 = train.matmul %x, %c : tensor<256x64xf32>, tensor<64x64xf32> -> tensor<256x64xf32>
  %7 = train.matmul %x transposed, %6 : tensor<256x64xf32>, tensor<256x64xf32> -> tensor<64x64xf32>
  %8 = train.matmul %x, %d : tensor<256x64xf32>, tensor<64x64xf32> -> tensor<256x64xf32>
  %9 = train.broadcast %db axes = [1] : tensor<64xf32> -> tensor<256x64xf32>
  %10 = train.mul %8, %9 : tensor<256x64xf32>
  %11 = train.matmul %x transposed, %10 : tensor<256x64xf32>, tensor<256x64xf32> -> tensor<64x64xf32>
  %12 = train.matmul %x, %e : tensor<256x64xf32>, tensor<64x64xf32> -> tensor<256x64xf32>
  %13 = train.reshape %12 : tensor<256x64xf32> -> tensor<2x128x64xf32>
  %14 = train.broadcast %eb axes = [2] : tensor<64xf32> -> tensor<2x128x64xf32>
  %15 = train.add %13, %14 : tensor<2x128x64xf32>
  %17 = train.reshape %x : tensor<256x64xf32> -> tensor<2x128x64xf32>
  %18 = train.matmul %17 transposed, %15 : tensor<2x128x64xf32>, tensor<2x128x64xf32> -> tensor<2x64x64xf32>
  return %3, %5, %7, %11, %18 : tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>, tensor<2x64x64xf32>
}

// -----

// A transposed weight; parts of rows that are read as whole rows of another width.
// REMARK: its weight is no right factor as it is stored
// REMARK: what reads it does not take a part of a larger matrix
func.func @read(%x: tensor<256x64xf32>, %u: tensor<64x64xf32> {train.role = "parameter", train.name = "u", train.trainable}, %v: tensor<64x64xf32> {train.role = "parameter", train.name = "v", train.trainable},
    %w: tensor<64x64xf32> {train.role = "parameter", train.name = "w", train.trainable}) -> (tensor<64x64xf32>, tensor<64x64xf32>) {
  %0 = train.transpose %u permutation = [1, 0] : tensor<64x64xf32> -> tensor<64x64xf32>
  %1 = train.matmul %x, %0 : tensor<256x64xf32>, tensor<64x64xf32> -> tensor<256x64xf32>
  %2 = train.matmul %1 transposed, %x : tensor<256x64xf32>, tensor<256x64xf32> -> tensor<64x64xf32>
  %3 = train.matmul %x, %v : tensor<256x64xf32>, tensor<64x64xf32> -> tensor<256x64xf32>
  %4 = train.reshape %3 : tensor<256x64xf32> -> tensor<64x256xf32>
  %5 = train.matmul %x, %w : tensor<256x64xf32>, tensor<64x64xf32> -> tensor<256x64xf32>
  %6 = train.matmul %4, %5 : tensor<64x256xf32>, tensor<256x64xf32> -> tensor<64x64xf32>
  return %2, %6 : tensor<64x64xf32>, tensor<64x64xf32>
}

// -----

// A size without a maximum.
// REMARK: how many rows there are is not known{{.*}}give sizes numbers or maxima: trainc --dim NAME=N or NAME=1..N
train.symbol @rows min 1 input "x" axis 0
func.func @unknown(%x: tensor<?x64xf32, #train.dims<rows, 64>> {train.role = "input", train.name = "x"}, %v: tensor<64x64xf32> {train.role = "parameter", train.name = "v", train.trainable},
    %w: tensor<64x64xf32> {train.role = "parameter", train.name = "w", train.trainable}) -> tensor<64x64xf32> {
  %0 = train.matmul %x, %v transposed : tensor<?x64xf32, #train.dims<rows, 64>>, tensor<64x64xf32> -> tensor<?x64xf32, #train.dims<rows, 64>>
  %1 = train.matmul %x, %w transposed : tensor<?x64xf32, #train.dims<rows, 64>>, tensor<64x64xf32> -> tensor<?x64xf32, #train.dims<rows, 64>>
  %2 = train.matmul %0 transposed, %1 : tensor<?x64xf32, #train.dims<rows, 64>>, tensor<?x64xf32, #train.dims<rows, 64>> -> tensor<64x64xf32>
  return %2 : tensor<64x64xf32>
}
