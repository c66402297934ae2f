// A constant that kernels alone read has no buffer: what reads a view of it through strides gets that view computed.
// RUN: trainc-opt %s --form-kernels | FileCheck %s

// The zero states of a recurrent layer in both directions.
// CHECK-LABEL: func.func @slice
// CHECK: %[[STATE:[0-9]+]] = train.fusion()
// CHECK-NEXT: train.full 0.000000e+00
// CHECK-NEXT: train.slice
// CHECK-NEXT: train.yield
// CHECK: %[[ROWS:[0-9]+]] = train.reshape %[[STATE]]
// CHECK: train.matmul %[[ROWS]], %arg0
func.func @slice(%weight: tensor<4x4xf32>) -> tensor<?x4xf32, #train.dims<batch, 4>> {
  %0 = train.full 0.000000e+00 : f32 : tensor<2x?x4xf32, #train.dims<2, batch, 4>>
  %1 = train.slice %0 starts = <1, 0, 0> steps = [1, 1, 1] : tensor<2x?x4xf32, #train.dims<2, batch, 4>> -> tensor<1x?x4xf32, #train.dims<1, batch, 4>>
  %2 = train.reshape %1 : tensor<1x?x4xf32, #train.dims<1, batch, 4>> -> tensor<?x4xf32, #train.dims<batch, 4>>
  %3 = train.matmul %2, %weight : tensor<?x4xf32, #train.dims<batch, 4>>, tensor<4x4xf32> -> tensor<?x4xf32, #train.dims<batch, 4>>
  return %3 : tensor<?x4xf32, #train.dims<batch, 4>>
}

// Of views in a row the last one is the kernel.
// CHECK-LABEL: func.func @views
// CHECK: %[[COLUMNS:[0-9]+]] = train.fusion()
// CHECK-NEXT: train.full
// CHECK-NEXT: train.transpose
// CHECK-NEXT: train.slice
// CHECK-NEXT: train.yield
// CHECK: train.matmul %[[COLUMNS]], %arg0
func.func @views(%weight: tensor<2x4xf32>) -> tensor<?x4xf32, #train.dims<batch, 4>> {
  %0 = train.full 1.000000e+00 : f32 : tensor<4x?xf32, #train.dims<4, batch>>
  %1 = train.transpose %0 permutation = [1, 0] : tensor<4x?xf32, #train.dims<4, batch>> -> tensor<?x4xf32, #train.dims<batch, 4>>
  %2 = train.slice %1 starts = <0, 1> steps = [1, 2] : tensor<?x4xf32, #train.dims<batch, 4>> -> tensor<?x2xf32, #train.dims<batch, 2>>
  %3 = train.matmul %2, %weight : tensor<?x2xf32, #train.dims<batch, 2>>, tensor<2x4xf32> -> tensor<?x4xf32, #train.dims<batch, 4>>
  return %3 : tensor<?x4xf32, #train.dims<batch, 4>>
}

// One that lies in memory for another reader is read there.
// CHECK-LABEL: func.func @stored
// CHECK: %[[ALL:[0-9]+]] = train.fusion()
// CHECK: %[[PART:[0-9]+]] = train.slice %[[ALL]]
// CHECK-DAG: train.matmul %[[PART]], %arg0
// CHECK-DAG: train.matmul %[[ALL]], %arg1
func.func @stored(%two: tensor<2x4xf32>, %four: tensor<4x4xf32>) -> (tensor<?x4xf32, #train.dims<batch, 4>>, tensor<?x4xf32, #train.dims<batch, 4>>) {
  %0 = train.full 1.000000e+00 : f32 : tensor<?x4xf32, #train.dims<batch, 4>>
  %1 = train.slice %0 starts = <0, 2> steps = [1, 1] : tensor<?x4xf32, #train.dims<batch, 4>> -> tensor<?x2xf32, #train.dims<batch, 2>>
  %2 = train.matmul %1, %two : tensor<?x2xf32, #train.dims<batch, 2>>, tensor<2x4xf32> -> tensor<?x4xf32, #train.dims<batch, 4>>
  %3 = train.matmul %0, %four : tensor<?x4xf32, #train.dims<batch, 4>>, tensor<4x4xf32> -> tensor<?x4xf32, #train.dims<batch, 4>>
  return %2, %3 : tensor<?x4xf32, #train.dims<batch, 4>>, tensor<?x4xf32, #train.dims<batch, 4>>
}
