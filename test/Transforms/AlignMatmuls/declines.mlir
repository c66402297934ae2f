// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --align-matmuls --remarks-filter=align-matmuls --remark-format=emitRemark 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t

// Near misses: rows of the result alone, small extents, f32, extents that are not known.
// CHECK-LABEL: func.func @declined
// CHECK-NOT: train.pad
// REMARK: NotPadded{{.*}}it is too small for a copy to pay{{.*}}m, n, k 67, 63, 32 stay{{.*}}Suggestion="choose sizes that are multiples of 8 in the model"
// REMARK-NOT: NotPadded
func.func @declined(%x: tensor<67x32xbf16>, %w: tensor<32x63xbf16>, %f: tensor<4x67xf32>,
                    %s: tensor<?x64xbf16, #train.dims<n, 64>>)
    -> (tensor<67x63xbf16>, tensor<4x4xf32>, tensor<64x64xbf16>) {
  %0 = train.matmul %x, %w : tensor<67x32xbf16>, tensor<32x63xbf16> -> tensor<67x63xbf16>
  %1 = train.matmul %f, %f transposed : tensor<4x67xf32>, tensor<4x67xf32> -> tensor<4x4xf32>
  %2 = train.matmul %s transposed, %s : tensor<?x64xbf16, #train.dims<n, 64>>, tensor<?x64xbf16, #train.dims<n, 64>> -> tensor<64x64xbf16>
  return %0, %1, %2 : tensor<67x63xbf16>, tensor<4x4xf32>, tensor<64x64xbf16>
}
