// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --pass-pipeline='builtin.module(func.func(widen-products))' --remarks-filter=widen-products --remark-format=emitRemark 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t

// Something reads the narrow one; neither side is short; no side is known; the type is wider than f32; one side is tokens;
// a side that is short, but not beside the axis that is summed over.
// CHECK-LABEL: func.func @kept
// CHECK-NOT: xbf16> -> tensor<{{.*}}xf32
// CHECK-COUNT-6: train.cast
// The first, which the function returns too, and the one that is read in f64.
// REMARK-COUNT-2: NotWidened{{.*}}not only casts to f32 read it{{.*}}train.matmul is rounded before it is read
// REMARK-NOT: NotWidened
func.func @kept(%g: tensor<?x4xbf16, #train.dims<t, 4>>, %x: tensor<?x512xbf16, #train.dims<t, 512>>, %y: tensor<?x?xbf16, #train.dims<t, n>>, %w: tensor<512x4xbf16>, %v: tensor<128x512xbf16>)
    -> (tensor<4x512xf32>, tensor<4x512xbf16>, tensor<512x512xf32>, tensor<?x?xf32, #train.dims<n, n>>, tensor<4x512xf64>, tensor<?x4xf32, #train.dims<t, 4>>, tensor<128x512xf32>) {
  %0 = train.matmul %g transposed, %x : tensor<?x4xbf16, #train.dims<t, 4>>, tensor<?x512xbf16, #train.dims<t, 512>> -> tensor<4x512xbf16>
  %1 = train.cast %0 : tensor<4x512xbf16> -> tensor<4x512xf32>
  %2 = train.matmul %x transposed, %x : tensor<?x512xbf16, #train.dims<t, 512>>, tensor<?x512xbf16, #train.dims<t, 512>> -> tensor<512x512xbf16>
  %3 = train.cast %2 : tensor<512x512xbf16> -> tensor<512x512xf32>
  %4 = train.matmul %y transposed, %y : tensor<?x?xbf16, #train.dims<t, n>>, tensor<?x?xbf16, #train.dims<t, n>> -> tensor<?x?xbf16, #train.dims<n, n>>
  %5 = train.cast %4 : tensor<?x?xbf16, #train.dims<n, n>> -> tensor<?x?xf32, #train.dims<n, n>>
  %6 = train.matmul %g transposed, %x : tensor<?x4xbf16, #train.dims<t, 4>>, tensor<?x512xbf16, #train.dims<t, 512>> -> tensor<4x512xbf16>
  %7 = train.cast %6 : tensor<4x512xbf16> -> tensor<4x512xf64>
  %8 = train.matmul %x, %w : tensor<?x512xbf16, #train.dims<t, 512>>, tensor<512x4xbf16> -> tensor<?x4xbf16, #train.dims<t, 4>>
  %9 = train.cast %8 : tensor<?x4xbf16, #train.dims<t, 4>> -> tensor<?x4xf32, #train.dims<t, 4>>
  %10 = train.matmul %v, %2 : tensor<128x512xbf16>, tensor<512x512xbf16> -> tensor<128x512xbf16>
  %11 = train.cast %10 : tensor<128x512xbf16> -> tensor<128x512xf32>
  return %1, %0, %3, %5, %7, %9, %11 : tensor<4x512xf32>, tensor<4x512xbf16>, tensor<512x512xf32>, tensor<?x?xf32, #train.dims<n, n>>, tensor<4x512xf64>, tensor<?x4xf32, #train.dims<t, 4>>, tensor<128x512xf32>
}
