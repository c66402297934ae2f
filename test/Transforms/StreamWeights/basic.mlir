// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --stream-weights="sizes=batch=4,seq=8" --remarks-filter=stream-weights --remark-format=emitRemark 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t
// RUN: trainc-opt %s --stream-weights="sizes=batch=4,seq=9" | FileCheck %s --check-prefix=LONGER
// RUN: trainc-opt %s --stream-weights="sizes=batch=4,seq=9 max-rows=36" | FileCheck %s --check-prefix=MORE
// RUN: trainc-opt %s --stream-weights="sizes=seq=1" | FileCheck %s --check-prefix=LONGER
// RUN: not trainc-opt %s --stream-weights="sizes=seq" 2>&1 | FileCheck %s --check-prefix=SIZES

// REMARK-COUNT-2: Streamed{{.*}} dequantizes its weight as it reads it, for at most 32 rows
// SIZES: error: stream-weights: 'seq' is not name=value

// CHECK-LABEL: @forward
// CHECK: %[[W:.*]] = train.cast
// CHECK: %[[Y:.*]] = train.matmul %arg0, %[[W]] transposed streamed 32 : tensor<?x64xbf16
// CHECK: train.matmul %[[Y]], %[[W]] plus %arg0 streamed 32 : tensor<?x64xbf16
// MORE-COUNT-2: matmul {{.*}} streamed 36
// LONGER-LABEL: @forward
// LONGER-NOT: streamed
func.func @forward(%x: tensor<?x64xbf16, #train.dims<batch*seq, 64>>, %codes: tensor<2048xi8>, %table: tensor<16xf32>,
    %scales: tensor<64xf32>) -> tensor<?x64xbf16, #train.dims<batch*seq, 64>> {
  %0 = train.dequantize %codes, %table, %scales block 64 : (tensor<2048xi8>, tensor<16xf32>, tensor<64xf32>) -> tensor<64x64xf32>
  %1 = train.cast %0 : tensor<64x64xf32> -> tensor<64x64xbf16>
  %2 = train.matmul %x, %1 transposed : tensor<?x64xbf16, #train.dims<batch*seq, 64>>, tensor<64x64xbf16> -> tensor<?x64xbf16, #train.dims<batch*seq, 64>>
  %3 = train.matmul %2, %1 plus %x : tensor<?x64xbf16, #train.dims<batch*seq, 64>>, tensor<64x64xbf16>, tensor<?x64xbf16, #train.dims<batch*seq, 64>> -> tensor<?x64xbf16, #train.dims<batch*seq, 64>>
  return %3 : tensor<?x64xbf16, #train.dims<batch*seq, 64>>
}
