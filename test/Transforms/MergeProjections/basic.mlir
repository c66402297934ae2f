// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Projections of one input become one matmul; what is read of it are parts.
// RUN: trainc-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(merge-projections))' --remarks-filter=merge-projections --remark-format=emitRemark 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t

// Three with biases, in other shapes than the matmuls, and attention's casts behind them; one of another input.
// REMARK: Merged{{.*}}train.matmul and 2 others of its input are one matmul: {{[0-9.]+}} us as one, {{[0-9.]+}} apart, forward and backward, at 1024 rows
// CHECK-LABEL: func.func @attention
// CHECK: %[[W:.*]] = train.concat %{{.*}}, %{{.*}}, %{{.*}} axis = 0 : {{.*}} -> tensor<192x64xf32>
// CHECK: %[[Y:.*]] = train.matmul %{{.*}}, %[[W]] transposed : {{.*}} -> tensor<1024x192xf32>
// CHECK: %[[R:.*]] = train.reshape %[[Y]] : tensor<1024x192xf32> -> tensor<8x128x192xf32>
// CHECK: %[[B:.*]] = train.concat %{{.*}}, %{{.*}}, %{{.*}} axis = 0 : {{.*}} -> tensor<192xf32>
// CHECK: %[[BB:.*]] = train.broadcast %[[B]] axes = [2] : tensor<192xf32> -> tensor<8x128x192xf32>
// CHECK: %[[S:.*]] = train.add %[[R]], %[[BB]]
// CHECK: %[[C:.*]] = train.cast %[[S]] : tensor<8x128x192xf32> -> tensor<8x128x192xbf16>
// CHECK: %[[P:.*]]:3 = train.split %[[C]] axis = 2
// CHECK-NOT: train.add
// CHECK: train.reshape %[[P]]#0
// CHECK: train.reshape %[[P]]#1
// CHECK: train.reshape %[[P]]#2
// CHECK: train.matmul %{{.*}} transposed : tensor<512x64xf32>
func.func @attention(%x: tensor<1024x64xf32>, %z: tensor<512x64xf32>,
    %wq: tensor<64x64xf32> {train.role = "parameter", train.name = "wq", train.trainable}, %bq: tensor<64xf32> {train.role = "parameter", train.name = "bq", train.trainable},
    %wk: tensor<64x64xf32> {train.role = "parameter", train.name = "wk", train.trainable}, %bk: tensor<64xf32> {train.role = "parameter", train.name = "bk", train.trainable},
    %wv: tensor<64x64xf32> {train.role = "parameter", train.name = "wv", train.trainable}, %bv: tensor<64xf32> {train.role = "parameter", train.name = "bv", train.trainable},
    %wo: tensor<64x64xf32> {train.role = "parameter", train.name = "wo", train.trainable})
    -> (tensor<8x4x128x16xbf16>, tensor<512x64xf32>) {
  %0 = train.matmul %x, %wq transposed : tensor<1024x64xf32>, tensor<64x64xf32> -> tensor<1024x64xf32>
  %1 = train.reshape %0 : tensor<1024x64xf32> -> tensor<8x128x64xf32>
  %2 = train.broadcast %bq axes = [2] : tensor<64xf32> -> tensor<8x128x64xf32>
  %3 = train.add %1, %2 : tensor<8x128x64xf32>
  %4 = train.cast %3 : tensor<8x128x64xf32> -> tensor<8x128x64xbf16>
  %5 = train.reshape %4 : tensor<8x128x64xbf16> -> tensor<8x128x4x16xbf16>
  %6 = train.transpose %5 permutation = [0, 2, 1, 3] : tensor<8x128x4x16xbf16> -> tensor<8x4x128x16xbf16>
  %7 = train.matmul %x, %wk transposed : tensor<1024x64xf32>, tensor<64x64xf32> -> tensor<1024x64xf32>
  %8 = train.reshape %7 : tensor<1024x64xf32> -> tensor<8x128x64xf32>
  %9 = train.broadcast %bk axes = [2] : tensor<64xf32> -> tensor<8x128x64xf32>
  %10 = train.add %8, %9 : tensor<8x128x64xf32>
  %11 = train.cast %10 : tensor<8x128x64xf32> -> tensor<8x128x64xbf16>
  %12 = train.reshape %11 : tensor<8x128x64xbf16> -> tensor<8x128x4x16xbf16>
  %13 = train.transpose %12 permutation = [0, 2, 1, 3] : tensor<8x128x4x16xbf16> -> tensor<8x4x128x16xbf16>
  %14 = train.matmul %x, %wv transposed : tensor<1024x64xf32>, tensor<64x64xf32> -> tensor<1024x64xf32>
  %15 = train.reshape %14 : tensor<1024x64xf32> -> tensor<8x128x64xf32>
  %16 = train.broadcast %bv axes = [2] : tensor<64xf32> -> tensor<8x128x64xf32>
  %17 = train.add %15, %16 : tensor<8x128x64xf32>
  %18 = train.cast %17 : tensor<8x128x64xf32> -> tensor<8x128x64xbf16>
  %19 = train.reshape %18 : tensor<8x128x64xbf16> -> tensor<8x128x4x16xbf16>
  %20 = train.transpose %19 permutation = [0, 2, 1, 3] : tensor<8x128x4x16xbf16> -> tensor<8x4x128x16xbf16>
  %o, %stats = train.attention %6, %13, %20 {scale = 0.25 : f64, dropout = 0.0 : f64} : (tensor<8x4x128x16xbf16>, tensor<8x4x128x16xbf16>, tensor<8x4x128x16xbf16>) -> (tensor<8x4x128x16xbf16>, tensor<8x4x128xf32>)
  %21 = train.matmul %z, %wo transposed : tensor<512x64xf32>, tensor<64x64xf32> -> tensor<512x64xf32>
  return %o, %21 : tensor<8x4x128x16xbf16>, tensor<512x64xf32>
}

// -----

// Weights [in, out], of other widths; a count of rows that a step knows: up to all positions.
// REMARK: Merged{{.*}}train.matmul and 1 others of its input are one matmul: {{.*}} at up to 2048 rows
// CHECK-LABEL: func.func @counted
// CHECK: train.concat %{{.*}}, %{{.*}} axis = 1 : (tensor<256x256xf32>, tensor<256x128xf32>) -> tensor<256x384xf32>
// CHECK: train.split {{.*}} axis = 1
train.symbol @tokens min 8 divisor 8 input "mask" differs 0
func.func @counted(%mask: tensor<16x128xi64> {train.role = "input", train.name = "mask"}, %x: tensor<?x256xf32, #train.dims<tokens, 256>>,
    %v: tensor<256x256xf32> {train.role = "parameter", train.name = "v", train.trainable}, %w: tensor<256x128xf32> {train.role = "parameter", train.name = "w", train.trainable})
    -> tensor<256x128xf32> {
  %0 = train.matmul %x, %v : tensor<?x256xf32, #train.dims<tokens, 256>>, tensor<256x256xf32> -> tensor<?x256xf32, #train.dims<tokens, 256>>
  %1 = train.matmul %x, %w : tensor<?x256xf32, #train.dims<tokens, 256>>, tensor<256x128xf32> -> tensor<?x128xf32, #train.dims<tokens, 128>>
  %2 = train.matmul %0 transposed, %1 : tensor<?x256xf32, #train.dims<tokens, 256>>, tensor<?x128xf32, #train.dims<tokens, 128>> -> tensor<256x128xf32>
  return %2 : tensor<256x128xf32>
}
