// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Values by the reference evaluator, at the places where definitions differ between frameworks.
// RUN: trainc-test-opt %s --mlir-disable-threading --test-evaluate -o /dev/null | FileCheck %s

// Rows of -inf: NaN, or zeros where guarded; rows masked by the type's minimum stay uniform.
// CHECK-LABEL: @softmax
// CHECK-NEXT: [3, 2]: nan nan 0.5 0.5 1 0
// CHECK-NEXT: [3, 2]: 0 0 0.5 0.5 1 0
func.func @softmax(%x: tensor<3x2xf32> {testdialect.value = dense<[[0xFF800000, 0xFF800000], [0xFF7FFFFF, 0xFF7FFFFF], [0.0, 0xFF800000]]> : tensor<3x2xf32>}) -> (tensor<3x2xf32>, tensor<3x2xf32>) {
  %0 = train.softmax %x axis = 1 : tensor<3x2xf32>
  %1 = train.softmax %x axis = 1 guarded : tensor<3x2xf32>
  return %0, %1 : tensor<3x2xf32>, tensor<3x2xf32>
}

// Division truncates, modulo has the divisor's sign, rounding is to even.
// CHECK-LABEL: @integers
// CHECK-NEXT: [4]: -2 -2 2 2
// CHECK-NEXT: [4]: 2 -2 -1 1
// CHECK-NEXT: [4]: 0 2 -2 -2
func.func @integers(%x: tensor<4xi32> {testdialect.value = dense<[-7, 7, -7, 7]> : tensor<4xi32>},
                    %y: tensor<4xi32> {testdialect.value = dense<[3, -3, -3, 3]> : tensor<4xi32>},
                    %z: tensor<4xf32> {testdialect.value = dense<[0.5, 1.5, -1.5, -2.5]> : tensor<4xf32>}) -> (tensor<4xi32>, tensor<4xi32>, tensor<4xf32>) {
  %0 = train.div %x, %y : tensor<4xi32>
  %1 = train.mod %x, %y : tensor<4xi32>
  %2 = train.round %z : tensor<4xf32>
  return %0, %1, %2 : tensor<4xi32>, tensor<4xi32>, tensor<4xf32>
}

// Negative indices count from the end; duplicates add up. Unique ones do neither.
// CHECK-LABEL: @indices
// CHECK-NEXT: [3]: 30 10 30
// CHECK-NEXT: [3]: 2 0 4
// CHECK-NEXT: [3]: 2 0 3
func.func @indices(%d: tensor<3xf32> {testdialect.value = dense<[10.0, 20.0, 30.0]> : tensor<3xf32>},
                   %i: tensor<3xi64> {testdialect.value = dense<[-1, 0, 2]> : tensor<3xi64>},
                   %u: tensor<3xf32> {testdialect.value = dense<[1.0, 2.0, 3.0]> : tensor<3xf32>}) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) {
  %0 = train.gather %d, %i axis = 0 : tensor<3xf32>, tensor<3xi64> -> tensor<3xf32>
  %1 = train.scatter_add %i, %u axis = 0 : tensor<3xi64>, tensor<3xf32> -> tensor<3xf32>
  %2 = train.scatter_add %i, %u axis = 0 unique : tensor<3xi64>, tensor<3xf32> -> tensor<3xf32>
  return %0, %1, %2 : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
}

// An ignored label costs nothing; lse is that of the row all the same.
// CHECK-LABEL: @cross_entropy
// CHECK-NEXT: [2]: 0.693147 0
// CHECK-NEXT: [2]: 0.693147 1.69315
func.func @cross_entropy(%x: tensor<2x2xf32> {testdialect.value = dense<[[0.0, 0.0], [1.0, 1.0]]> : tensor<2x2xf32>},
                         %l: tensor<2xi64> {testdialect.value = dense<[1, -100]> : tensor<2xi64>}) -> (tensor<2xf32>, tensor<2xf32>) {
  %0:2 = train.cross_entropy %x, %l {ignore_index = -100 : i64} : (tensor<2x2xf32>, tensor<2xi64>) -> (tensor<2xf32>, tensor<2xf32>)
  return %0#0, %0#1 : tensor<2xf32>, tensor<2xf32>
}

// torch.optim.SGD(lr=0.1, momentum=0.9, weight_decay=0.01), AdamW and Adam (lr=0.1, weight_decay=0.01),
// second step, parameter 1, gradient 0.5.
// CHECK-LABEL: @optimizers
// CHECK-NEXT: [1]: 0.931
// CHECK-NEXT: [1]: 0.69
// CHECK-NEXT: [1]: 0.944137
// CHECK-NEXT: [1]: 0.944928
func.func @optimizers(%p: tensor<1xf32> {testdialect.value = dense<1.0> : tensor<1xf32>},
                      %g: tensor<1xf32> {testdialect.value = dense<0.5> : tensor<1xf32>},
                      %m: tensor<1xf32> {testdialect.value = dense<0.2> : tensor<1xf32>},
                      %v: tensor<1xf32> {testdialect.value = dense<1.0> : tensor<1xf32>},
                      %lr: tensor<f32> {testdialect.value = dense<0.1> : tensor<f32>},
                      %wd: tensor<f32> {testdialect.value = dense<0.01> : tensor<f32>},
                      %t: tensor<i64> {testdialect.value = dense<2> : tensor<i64>}) -> (tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) {
  %0:2 = train.sgd %p, %g, %m, %lr, %wd, %t {momentum = 0.9 : f64} : (tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<f32>, tensor<f32>, tensor<i64>) -> (tensor<1xf32>, tensor<1xf32>)
  %1:3 = train.adam %p, %g, %m, %v, %lr, %wd, %t {beta1 = 0.9 : f64, beta2 = 0.9 : f64, epsilon = 1.0e-8 : f64, decoupled} : (tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<f32>, tensor<f32>, tensor<i64>) -> (tensor<1xf32>, tensor<1xf32>, tensor<1xf32>)
  %2:3 = train.adam %p, %g, %m, %v, %lr, %wd, %t {beta1 = 0.9 : f64, beta2 = 0.9 : f64, epsilon = 1.0e-8 : f64} : (tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<f32>, tensor<f32>, tensor<i64>) -> (tensor<1xf32>, tensor<1xf32>, tensor<1xf32>)
  return %0#0, %0#1, %1#0, %2#0 : tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>
}
