// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Two updates by each optimizer, against the numbers of torch.optim 2.x in f64 (LAMB: of its formula), for the op and for its
// parts.
// RUN: trainc-test-opt %s --test-evaluate --mlir-disable-threading -o /dev/null | FileCheck %s
// RUN: trainc-test-opt %s --decompose --test-evaluate --mlir-disable-threading -o /dev/null | FileCheck %s

// CHECK-LABEL: @sgd
// CHECK-NEXT: [3]: 0.529011 -1.50202 1.96103
func.func @sgd(%p: tensor<3xf64> {testdialect.value = dense<[0.5, -1.5, 2.0]> : tensor<3xf64>},
    %g1: tensor<3xf64> {testdialect.value = dense<[0.1, -0.2, 0.3]> : tensor<3xf64>},
    %g2: tensor<3xf64> {testdialect.value = dense<[-0.4, 0.25, 0.05]> : tensor<3xf64>},
    %lr: tensor<f64> {testdialect.value = dense<0.1> : tensor<f64>}, %wd: tensor<f64> {testdialect.value = dense<0.01> : tensor<f64>})
    -> (tensor<3xf64>) {
  %t1 = train.constant dense<1> : tensor<i64>
  %t2 = train.constant dense<2> : tensor<i64>
  %a = train.sgd %p, %g1, %lr, %wd, %t1 {momentum = 0.0 : f64}
      : (tensor<3xf64>, tensor<3xf64>, tensor<f64>, tensor<f64>, tensor<i64>) -> tensor<3xf64>
  %b = train.sgd %a, %g2, %lr, %wd, %t2 {momentum = 0.0 : f64}
      : (tensor<3xf64>, tensor<3xf64>, tensor<f64>, tensor<f64>, tensor<i64>) -> tensor<3xf64>
  return %b : tensor<3xf64>
}

// CHECK-LABEL: @momentum
// CHECK-NEXT: [3]: 0.51956 -1.48267 1.93223
// CHECK-NEXT: [3]: -0.300605 0.041715 0.35768
func.func @momentum(%p: tensor<3xf64> {testdialect.value = dense<[0.5, -1.5, 2.0]> : tensor<3xf64>},
    %g1: tensor<3xf64> {testdialect.value = dense<[0.1, -0.2, 0.3]> : tensor<3xf64>},
    %g2: tensor<3xf64> {testdialect.value = dense<[-0.4, 0.25, 0.05]> : tensor<3xf64>},
    %lr: tensor<f64> {testdialect.value = dense<0.1> : tensor<f64>}, %wd: tensor<f64> {testdialect.value = dense<0.01> : tensor<f64>})
    -> (tensor<3xf64>, tensor<3xf64>) {
  %t1 = train.constant dense<1> : tensor<i64>
  %t2 = train.constant dense<2> : tensor<i64>
  %zero = train.full 0.0 : f64 : tensor<3xf64>
  %a:2 = train.sgd %p, %g1, %zero, %lr, %wd, %t1 {momentum = 0.9 : f64}
      : (tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<f64>, tensor<f64>, tensor<i64>) -> (tensor<3xf64>, tensor<3xf64>)
  %b:2 = train.sgd %a#0, %g2, %a#1, %lr, %wd, %t2 {momentum = 0.9 : f64}
      : (tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<f64>, tensor<f64>, tensor<i64>) -> (tensor<3xf64>, tensor<3xf64>)
  return %b#0, %b#1 : tensor<3xf64>, tensor<3xf64>
}

// CHECK-LABEL: @nesterov
// CHECK-NEXT: [3]: 0.546633 -1.48646 1.9001
// CHECK-NEXT: [3]: -0.3007 0.0419085 0.357392
func.func @nesterov(%p: tensor<3xf64> {testdialect.value = dense<[0.5, -1.5, 2.0]> : tensor<3xf64>},
    %g1: tensor<3xf64> {testdialect.value = dense<[0.1, -0.2, 0.3]> : tensor<3xf64>},
    %g2: tensor<3xf64> {testdialect.value = dense<[-0.4, 0.25, 0.05]> : tensor<3xf64>},
    %lr: tensor<f64> {testdialect.value = dense<0.1> : tensor<f64>}, %wd: tensor<f64> {testdialect.value = dense<0.01> : tensor<f64>})
    -> (tensor<3xf64>, tensor<3xf64>) {
  %t1 = train.constant dense<1> : tensor<i64>
  %t2 = train.constant dense<2> : tensor<i64>
  %zero = train.full 0.0 : f64 : tensor<3xf64>
  %a:2 = train.sgd %p, %g1, %zero, %lr, %wd, %t1 {momentum = 0.9 : f64, nesterov}
      : (tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<f64>, tensor<f64>, tensor<i64>) -> (tensor<3xf64>, tensor<3xf64>)
  %b:2 = train.sgd %a#0, %g2, %a#1, %lr, %wd, %t2 {momentum = 0.9 : f64, nesterov}
      : (tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<f64>, tensor<f64>, tensor<i64>) -> (tensor<3xf64>, tensor<3xf64>)
  return %b#0, %b#1 : tensor<3xf64>, tensor<3xf64>
}

// CHECK-LABEL: @adam
// CHECK-NEXT: [3]: 0.454765 -1.40991 1.81881
// CHECK-NEXT: [3]: -0.03015 0.00425 0.0357
// CHECK-NEXT: [3]: 0.00016783 0.000101875 0.000107059
func.func @adam(%p: tensor<3xf64> {testdialect.value = dense<[0.5, -1.5, 2.0]> : tensor<3xf64>},
    %g1: tensor<3xf64> {testdialect.value = dense<[0.1, -0.2, 0.3]> : tensor<3xf64>},
    %g2: tensor<3xf64> {testdialect.value = dense<[-0.4, 0.25, 0.05]> : tensor<3xf64>},
    %lr: tensor<f64> {testdialect.value = dense<0.1> : tensor<f64>}, %wd: tensor<f64> {testdialect.value = dense<0.01> : tensor<f64>})
    -> (tensor<3xf64>, tensor<3xf64>, tensor<3xf64>) {
  %t1 = train.constant dense<1> : tensor<i64>
  %t2 = train.constant dense<2> : tensor<i64>
  %zero = train.full 0.0 : f64 : tensor<3xf64>
  %a:3 = train.adam %p, %g1, %zero, %zero, %lr, %wd, %t1 {beta1 = 0.9 : f64, beta2 = 0.999 : f64, epsilon = 1.0e-8 : f64}
      : (tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<f64>, tensor<f64>, tensor<i64>) -> (tensor<3xf64>, tensor<3xf64>, tensor<3xf64>)
  %b:3 = train.adam %a#0, %g2, %a#1, %a#2, %lr, %wd, %t2 {beta1 = 0.9 : f64, beta2 = 0.999 : f64, epsilon = 1.0e-8 : f64}
      : (tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<f64>, tensor<f64>, tensor<i64>) -> (tensor<3xf64>, tensor<3xf64>, tensor<3xf64>)
  return %b#0, %b#1, %b#2 : tensor<3xf64>, tensor<3xf64>, tensor<3xf64>
}

// CHECK-LABEL: @adamw
// CHECK-NEXT: [3]: 0.455051 -1.41337 1.81777
// CHECK-NEXT: [3]: -0.031 0.007 0.032
// CHECK-NEXT: [3]: 0.00016999 0.00010246 9.241e-05
func.func @adamw(%p: tensor<3xf64> {testdialect.value = dense<[0.5, -1.5, 2.0]> : tensor<3xf64>},
    %g1: tensor<3xf64> {testdialect.value = dense<[0.1, -0.2, 0.3]> : tensor<3xf64>},
    %g2: tensor<3xf64> {testdialect.value = dense<[-0.4, 0.25, 0.05]> : tensor<3xf64>},
    %lr: tensor<f64> {testdialect.value = dense<0.1> : tensor<f64>}, %wd: tensor<f64> {testdialect.value = dense<0.01> : tensor<f64>})
    -> (tensor<3xf64>, tensor<3xf64>, tensor<3xf64>) {
  %t1 = train.constant dense<1> : tensor<i64>
  %t2 = train.constant dense<2> : tensor<i64>
  %zero = train.full 0.0 : f64 : tensor<3xf64>
  %a:3 = train.adam %p, %g1, %zero, %zero, %lr, %wd, %t1 {beta1 = 0.9 : f64, beta2 = 0.999 : f64, epsilon = 1.0e-8 : f64, decoupled}
      : (tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<f64>, tensor<f64>, tensor<i64>) -> (tensor<3xf64>, tensor<3xf64>, tensor<3xf64>)
  %b:3 = train.adam %a#0, %g2, %a#1, %a#2, %lr, %wd, %t2 {beta1 = 0.9 : f64, beta2 = 0.999 : f64, epsilon = 1.0e-8 : f64, decoupled}
      : (tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<f64>, tensor<f64>, tensor<i64>) -> (tensor<3xf64>, tensor<3xf64>, tensor<3xf64>)
  return %b#0, %b#1, %b#2 : tensor<3xf64>, tensor<3xf64>, tensor<3xf64>
}

// CHECK-LABEL: @lamb
// CHECK-NEXT: [3]: 0.484711 -1.38764 1.66334
// CHECK-NEXT: [3]: -0.031 0.007 0.032
// CHECK-NEXT: [3]: 0.00016999 0.00010246 9.241e-05
func.func @lamb(%p: tensor<3xf64> {testdialect.value = dense<[0.5, -1.5, 2.0]> : tensor<3xf64>},
    %g1: tensor<3xf64> {testdialect.value = dense<[0.1, -0.2, 0.3]> : tensor<3xf64>},
    %g2: tensor<3xf64> {testdialect.value = dense<[-0.4, 0.25, 0.05]> : tensor<3xf64>},
    %lr: tensor<f64> {testdialect.value = dense<0.1> : tensor<f64>}, %wd: tensor<f64> {testdialect.value = dense<0.01> : tensor<f64>})
    -> (tensor<3xf64>, tensor<3xf64>, tensor<3xf64>) {
  %t1 = train.constant dense<1> : tensor<i64>
  %t2 = train.constant dense<2> : tensor<i64>
  %zero = train.full 0.0 : f64 : tensor<3xf64>
  %a:3 = train.lamb %p, %g1, %zero, %zero, %lr, %wd, %t1 {beta1 = 0.9 : f64, beta2 = 0.999 : f64, epsilon = 1.0e-6 : f64}
      : (tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<f64>, tensor<f64>, tensor<i64>) -> (tensor<3xf64>, tensor<3xf64>, tensor<3xf64>)
  %b:3 = train.lamb %a#0, %g2, %a#1, %a#2, %lr, %wd, %t2 {beta1 = 0.9 : f64, beta2 = 0.999 : f64, epsilon = 1.0e-6 : f64}
      : (tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<f64>, tensor<f64>, tensor<i64>) -> (tensor<3xf64>, tensor<3xf64>, tensor<3xf64>)
  return %b#0, %b#1, %b#2 : tensor<3xf64>, tensor<3xf64>, tensor<3xf64>
}
