// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --raise-choices --canonicalize --cse | FileCheck %s
// RUN: trainc-opt %s --raise-choices --remarks-filter=raise-choices --remark-format=emitRemark 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// REMARK: [Passed] Sorted{{.*}}"train.matmul has 3 copies of matrices, one for each block of vectors"

// Blocks of a third of the vectors: the first three are of the three matrices, which are copied for three more. Both products share them.
// CHECK-LABEL: func.func @experts
// CHECK-DAG: train.matmul %{{.*}}, %arg0 transposed : tensor<3x?x4xf32, #train.dims<3, floordiv(rows + 2, 3), 4>>
// CHECK-DAG: %[[UP:.*]] = train.gather %arg0, %[[B:.*]] axis = 0 : tensor<3x8x4xf32>, tensor<3xi32> -> tensor<3x8x4xf32>
// CHECK-DAG: train.matmul %{{.*}}, %[[UP]] transposed : tensor<3x?x4xf32, #train.dims<3, floordiv(rows + 2, 3), 4>>
// CHECK-DAG: train.matmul %{{.*}}, %arg1 transposed
// CHECK-DAG: %[[DOWN:.*]] = train.gather %arg1, %[[B]] axis = 0
// CHECK-DAG: train.matmul %{{.*}}, %[[DOWN]] transposed
// CHECK-NOT: #train.dims<rows, 8, 4>
func.func @experts(%up: tensor<3x8x4xf32>, %down: tensor<3x4x8xf32>, %x: tensor<?x4xf32, #train.dims<rows, 4>>, %chosen: tensor<?xi64, #train.dims<rows>>) -> tensor<?x4xf32, #train.dims<rows, 4>> {
  %0 = train.gather %up, %chosen axis = 0 : tensor<3x8x4xf32>, tensor<?xi64, #train.dims<rows>> -> tensor<?x8x4xf32, #train.dims<rows, 8, 4>>
  %1 = train.reshape %x : tensor<?x4xf32, #train.dims<rows, 4>> -> tensor<?x4x1xf32, #train.dims<rows, 4, 1>>
  %2 = train.matmul %0, %1 : tensor<?x8x4xf32, #train.dims<rows, 8, 4>>, tensor<?x4x1xf32, #train.dims<rows, 4, 1>> -> tensor<?x8x1xf32, #train.dims<rows, 8, 1>>
  %3 = train.relu %2 : tensor<?x8x1xf32, #train.dims<rows, 8, 1>>
  %4 = train.gather %down, %chosen axis = 0 : tensor<3x4x8xf32>, tensor<?xi64, #train.dims<rows>> -> tensor<?x4x8xf32, #train.dims<rows, 4, 8>>
  %5 = train.matmul %4, %3 : tensor<?x4x8xf32, #train.dims<rows, 4, 8>>, tensor<?x8x1xf32, #train.dims<rows, 8, 1>> -> tensor<?x4x1xf32, #train.dims<rows, 4, 1>>
  %6 = train.reshape %5 : tensor<?x4x1xf32, #train.dims<rows, 4, 1>> -> tensor<?x4xf32, #train.dims<rows, 4>>
  return %6 : tensor<?x4xf32, #train.dims<rows, 4>>
}

// Of the tokens that labels select: their numbers are selected, and no matrices.
// CHECK-LABEL: func.func @selected
// CHECK: %[[N:.*]] = train.select_rows %{{.*}}, %{{.*}} inverse %arg4 axis = 0 : (tensor<16x2xi64>, tensor<10xi32>, tensor<16xi32>) -> tensor<10x2xi64>
// CHECK-NOT: tensor<16x2x8x4xf32>
// CHECK: return
func.func @selected(%up: tensor<3x8x4xf32>, %x: tensor<20x4x1xf32>, %chosen: tensor<32xi64>, %rows: tensor<10xi32>, %slots: tensor<16xi32>) -> tensor<20x8x1xf32> {
  %zero = train.full 0 : i32 : tensor<10xi32>
  %0 = train.gather %up, %chosen axis = 0 : tensor<3x8x4xf32>, tensor<32xi64> -> tensor<32x8x4xf32>
  %1 = train.reshape %0 : tensor<32x8x4xf32> -> tensor<16x2x8x4xf32>
  %2 = train.max %rows, %zero : tensor<10xi32>
  %3 = train.select_rows %1, %2 inverse %slots axis = 0 : (tensor<16x2x8x4xf32>, tensor<10xi32>, tensor<16xi32>) -> tensor<10x2x8x4xf32>
  %4 = train.reshape %3 : tensor<10x2x8x4xf32> -> tensor<20x8x4xf32>
  %5 = train.matmul %4, %x : tensor<20x8x4xf32>, tensor<20x4x1xf32> -> tensor<20x8x1xf32>
  return %5 : tensor<20x8x1xf32>
}
