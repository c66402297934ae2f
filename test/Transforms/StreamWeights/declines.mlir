// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --stream-weights --remarks-filter=stream-weights --remark-format=emitRemark 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t

// CHECK-NOT: streamed
// REMARK: NotStreamed{{.*}}it is not of 16-bit floats alone{{.*}}Suggestion="trainc --precision bf16"
// REMARK: NotStreamed{{.*}}a size is no multiple of the kernel's tiles
// REMARK: NotStreamed{{.*}}a size is no multiple of the kernel's tiles
// REMARK: NotStreamed{{.*}}it is not of 16-bit floats alone
// REMARK: NotStreamed{{.*}}there may be too many rows{{.*}}Suggestion="bound the sizes that rows come of: trainc --dim NAME=MIN..MAX"
// REMARK-NOT: NotStreamed

// Written and read at 16 bits a number anyway: nothing to say.
func.func @stored(%x: tensor<8x64xbf16>, %w: tensor<32x64xbf16>) -> tensor<8x32xbf16> {
  %0 = train.matmul %x, %w transposed : tensor<8x64xbf16>, tensor<32x64xbf16> -> tensor<8x32xbf16>
  return %0 : tensor<8x32xbf16>
}

// f32; 24 columns; 32 to sum over; an f32 result.
func.func @others(%x: tensor<8x64xf32>, %y: tensor<8x64xbf16>, %z: tensor<8x32xbf16>, %w: tensor<32x64xi8>, %v: tensor<24x64xi8>)
    -> (tensor<8x32xf32>, tensor<8x24xbf16>, tensor<8x64xbf16>, tensor<8x32xf32>) {
  %0 = train.cast %w : tensor<32x64xi8> -> tensor<32x64xf32>
  %1 = train.matmul %x, %0 transposed : tensor<8x64xf32>, tensor<32x64xf32> -> tensor<8x32xf32>
  %2 = train.cast %v : tensor<24x64xi8> -> tensor<24x64xbf16>
  %3 = train.matmul %y, %2 transposed : tensor<8x64xbf16>, tensor<24x64xbf16> -> tensor<8x24xbf16>
  %4 = train.cast %w : tensor<32x64xi8> -> tensor<32x64xbf16>
  %5 = train.matmul %z, %4 : tensor<8x32xbf16>, tensor<32x64xbf16> -> tensor<8x64xbf16>
  %6 = train.matmul %y, %4 transposed : tensor<8x64xbf16>, tensor<32x64xbf16> -> tensor<8x32xf32>
  return %1, %3, %5, %6 : tensor<8x32xf32>, tensor<8x24xbf16>, tensor<8x64xbf16>, tensor<8x32xf32>
}

// Its transpose, and a batch.
func.func @shapes(%x: tensor<64x8xbf16>, %y: tensor<2x8x64xbf16>, %w: tensor<32x64xi8>, %v: tensor<2x32x64xi8>) -> (tensor<8x32xbf16>, tensor<2x8x32xbf16>) {
  %0 = train.cast %w : tensor<32x64xi8> -> tensor<32x64xbf16>
  %1 = train.matmul %x transposed, %0 transposed : tensor<64x8xbf16>, tensor<32x64xbf16> -> tensor<8x32xbf16>
  %2 = train.cast %v : tensor<2x32x64xi8> -> tensor<2x32x64xbf16>
  %3 = train.matmul %y, %2 transposed : tensor<2x8x64xbf16>, tensor<2x32x64xbf16> -> tensor<2x8x32xbf16>
  return %1, %3 : tensor<8x32xbf16>, tensor<2x8x32xbf16>
}

// Rows of a size without a bound.
func.func @rows(%x: tensor<?x64xbf16, #train.dims<n, 64>>, %w: tensor<32x64xi8>) -> tensor<?x32xbf16, #train.dims<n, 32>> {
  %0 = train.cast %w : tensor<32x64xi8> -> tensor<32x64xbf16>
  %1 = train.matmul %x, %0 transposed : tensor<?x64xbf16, #train.dims<n, 64>>, tensor<32x64xbf16> -> tensor<?x32xbf16, #train.dims<n, 32>>
  return %1 : tensor<?x32xbf16, #train.dims<n, 32>>
}
