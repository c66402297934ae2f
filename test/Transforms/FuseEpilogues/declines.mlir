// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --fuse-epilogues --remark-format=emitRemark --remarks-filter="fuse-epilogues" 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: trainc-opt %s --fuse-epilogues | FileCheck %s --implicit-check-not=epilogue

// REMARK-DAG: Function=kernel | Reason="a kernel that reads the sum adds it", Remark="train.matmul: no epilogue for the bias"
// CHECK-LABEL: func.func @kernel
func.func @kernel(%x: tensor<4x8xbf16>, %w: tensor<8x16xbf16>, %b: tensor<16xf32>) -> tensor<4x16xf32> {
  %0 = train.matmul %x, %w : tensor<4x8xbf16>, tensor<8x16xbf16> -> tensor<4x16xbf16>
  %1 = train.cast %0 : tensor<4x16xbf16> -> tensor<4x16xf32>
  %2 = train.broadcast %b axes = [1] : tensor<16xf32> -> tensor<4x16xf32>
  %3 = train.add %1, %2 : tensor<4x16xf32>
  %4 = train.relu %3 : tensor<4x16xf32>
  return %4 : tensor<4x16xf32>
}

// REMARK-DAG: Function=columns | Reason="12 columns are no multiple of 8"{{.*}}Suggestion="make the layer a little wider"
// CHECK-LABEL: func.func @columns
func.func @columns(%x: tensor<4x8xbf16>, %w: tensor<8x12xbf16>, %b: tensor<12xbf16>) -> tensor<4x4xbf16> {
  %0 = train.matmul %x, %w : tensor<4x8xbf16>, tensor<8x12xbf16> -> tensor<4x12xbf16>
  %1 = train.broadcast %b axes = [1] : tensor<12xbf16> -> tensor<4x12xbf16>
  %2 = train.add %0, %1 : tensor<4x12xbf16>
  %3 = train.matmul %2, %2 transposed : tensor<4x12xbf16>, tensor<4x12xbf16> -> tensor<4x4xbf16>
  return %3 : tensor<4x4xbf16>
}

// REMARK-DAG: Function=unknown | Reason="the number of columns is not known"{{.*}}Suggestion="give the size a number: trainc --dim NAME=N"
// CHECK-LABEL: func.func @unknown
func.func @unknown(%x: tensor<4x8xbf16>, %w: tensor<8x?xbf16, #train.dims<8, n>>, %b: tensor<?xbf16, #train.dims<n>>) -> tensor<4x4xbf16> {
  %0 = train.matmul %x, %w : tensor<4x8xbf16>, tensor<8x?xbf16, #train.dims<8, n>> -> tensor<4x?xbf16, #train.dims<4, n>>
  %1 = train.broadcast %b axes = [1] : tensor<?xbf16, #train.dims<n>> -> tensor<4x?xbf16, #train.dims<4, n>>
  %2 = train.add %0, %1 : tensor<4x?xbf16, #train.dims<4, n>>
  %3 = train.matmul %2, %2 transposed : tensor<4x?xbf16, #train.dims<4, n>>, tensor<4x?xbf16, #train.dims<4, n>> -> tensor<4x4xbf16>
  return %3 : tensor<4x4xbf16>
}

// REMARK-DAG: Function=batch | Reason="the matmul has a batch"
// CHECK-LABEL: func.func @batch
func.func @batch(%x: tensor<3x4x8xbf16>, %w: tensor<3x8x16xbf16>, %b: tensor<16xbf16>) -> tensor<3x4x4xbf16> {
  %0 = train.matmul %x, %w : tensor<3x4x8xbf16>, tensor<3x8x16xbf16> -> tensor<3x4x16xbf16>
  %1 = train.broadcast %b axes = [2] : tensor<16xbf16> -> tensor<3x4x16xbf16>
  %2 = train.add %0, %1 : tensor<3x4x16xbf16>
  %3 = train.matmul %2, %2 transposed : tensor<3x4x16xbf16>, tensor<3x4x16xbf16> -> tensor<3x4x4xbf16>
  return %3 : tensor<3x4x4xbf16>
}

// REMARK-DAG: Function=inference | Reason="no gradient reads GELU's operand"
// CHECK-LABEL: func.func @inference
func.func @inference(%x: tensor<4x8xbf16>, %w: tensor<8x16xbf16>) -> tensor<4x4xbf16> {
  %0 = train.matmul %x, %w : tensor<4x8xbf16>, tensor<8x16xbf16> -> tensor<4x16xbf16>
  %1 = train.gelu %0 tanh : tensor<4x16xbf16>
  %2 = train.matmul %1, %1 transposed : tensor<4x16xbf16>, tensor<4x16xbf16> -> tensor<4x4xbf16>
  return %2 : tensor<4x4xbf16>
}

// The error function: no library has it, and what was stored is the product.
// REMARK-DAG: Function=erf | Reason="libraries have its tanh form only"{{.*}}Suggestion="export the model with GELU(approximate='tanh'), if it may be another function"
// CHECK-LABEL: func.func @erf
func.func @erf(%g: tensor<4x8xbf16>, %v: tensor<16x8xbf16>, %a: tensor<4x16xbf16>) -> tensor<4x4xbf16> {
  %0 = train.matmul %g, %v transposed : tensor<4x8xbf16>, tensor<16x8xbf16> -> tensor<4x16xbf16>
  %1 = train.gelu_grad %a : tensor<4x16xbf16>
  %2 = train.mul %0, %1 : tensor<4x16xbf16>
  %3 = train.matmul %2, %2 transposed : tensor<4x16xbf16>, tensor<4x16xbf16> -> tensor<4x4xbf16>
  return %3 : tensor<4x4xbf16>
}

// REMARK-DAG: Function=not_stored | Reason="no matmul has stored GELU's operand"
// CHECK-LABEL: func.func @not_stored
func.func @not_stored(%g: tensor<4x8xbf16>, %v: tensor<16x8xbf16>, %a: tensor<4x16xf32>) -> tensor<4x4xbf16> {
  %0 = train.matmul %g, %v transposed : tensor<4x8xbf16>, tensor<16x8xbf16> -> tensor<4x16xbf16>
  %1 = train.cast %0 : tensor<4x16xbf16> -> tensor<4x16xf32>
  %2 = train.gelu_grad %a tanh : tensor<4x16xf32>
  %3 = train.mul %1, %2 : tensor<4x16xf32>
  %4 = train.cast %3 : tensor<4x16xf32> -> tensor<4x16xbf16>
  %5 = train.matmul %4, %4 transposed : tensor<4x16xbf16>, tensor<4x16xbf16> -> tensor<4x4xbf16>
  return %5 : tensor<4x4xbf16>
}

// Near misses without a remark: f32, a bias along the rows.
// REMARK-NOT: Function=others
// CHECK-LABEL: func.func @others
func.func @others(%x: tensor<16x8xf32>, %w: tensor<8x16xf32>, %y: tensor<16x8xbf16>, %v: tensor<8x16xbf16>, %b: tensor<16xf32>, %c: tensor<16xbf16>)
    -> (tensor<16x16xf32>, tensor<16x16xbf16>) {
  %0 = train.matmul %x, %w : tensor<16x8xf32>, tensor<8x16xf32> -> tensor<16x16xf32>
  %1 = train.broadcast %b axes = [1] : tensor<16xf32> -> tensor<16x16xf32>
  %2 = train.add %0, %1 : tensor<16x16xf32>
  %3 = train.matmul %2, %2 : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
  %4 = train.matmul %y, %v : tensor<16x8xbf16>, tensor<8x16xbf16> -> tensor<16x16xbf16>
  %5 = train.broadcast %c axes = [0] : tensor<16xbf16> -> tensor<16x16xbf16>
  %6 = train.add %4, %5 : tensor<16x16xbf16>
  %7 = train.matmul %6, %6 : tensor<16x16xbf16>, tensor<16x16xbf16> -> tensor<16x16xbf16>
  return %3, %7 : tensor<16x16xf32>, tensor<16x16xbf16>
}
