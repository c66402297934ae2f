// Sums of accumulators are made in the order in which the backward pass makes gradients, although what is added to
// accumulators stands behind all of it; ranks without a batch make them in the same order.
// RUN: trainc-opt %s --align-collectives | FileCheck %s

// CHECK-LABEL: func.func @micro
// CHECK: train.all_reduce {{.*}} {train.bucket = 1 : i64}
// CHECK: train.all_reduce {{.*}} {train.bucket = 0 : i64}
func.func @micro(%a: tensor<4x4xf32> {train.role = "gradient", train.name = "a"}, %b: tensor<4x4xf32> {train.role = "gradient", train.name = "b"},
                 %x: tensor<4x4xf32> {train.role = "input", train.name = "x"})
    -> (tensor<4x4xf32> {train.role = "update", train.updates = "gradient", train.name = "a"},
        tensor<4x4xf32> {train.role = "update", train.updates = "gradient", train.name = "b"})
    attributes {train.in_step = "micro"} {
  %first = train.matmul %x, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %second = train.matmul %first, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %sum_a = train.add %a, %second : tensor<4x4xf32>
  %sum_b = train.add %b, %first : tensor<4x4xf32>
  %all_a = train.all_reduce %sum_a {train.bucket = 0 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %all_b = train.all_reduce %sum_b {train.bucket = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %all_a, %all_b : tensor<4x4xf32>, tensor<4x4xf32>
}

// CHECK-LABEL: func.func @absent
// CHECK: train.all_reduce {{.*}} {train.bucket = 1 : i64}
// CHECK: train.all_reduce {{.*}} {train.bucket = 0 : i64}
func.func @absent(%a: tensor<4x4xf32> {train.role = "gradient", train.name = "a"}, %b: tensor<4x4xf32> {train.role = "gradient", train.name = "b"})
    -> (tensor<4x4xf32> {train.role = "update", train.updates = "gradient", train.name = "a"},
        tensor<4x4xf32> {train.role = "update", train.updates = "gradient", train.name = "b"})
    attributes {train.in_step = "micro"} {
  %all_a = train.all_reduce %a {train.bucket = 0 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %all_b = train.all_reduce %b {train.bucket = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %all_a, %all_b : tensor<4x4xf32>, tensor<4x4xf32>
}
