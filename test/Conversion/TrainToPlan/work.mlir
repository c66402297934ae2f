// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Launches tell what they must move at least, and how the kernel goes over its elements.
// RUN: trainc-test-opt %s --split-input-file --test-train-to-plan | FileCheck %s

// Of a table only the rows that are gathered, but never more than it has: 32 bytes for each of the
// indices, 8 for the index, 32 for the result.
// CHECK-LABEL: plan.function @gathered
// CHECK: plan.launch "first"{{.*}} form pointwise moves <{{.*}}> flops <0>
// The second stage finishes what the first has left.
// CHECK-NEXT: plan.launch "second"{{.*}} form pointwise moves <0> flops <0>
func.func @gathered(%t: tensor<100x8xf32> {train.role = "parameter", train.name = "t"},
    %i: tensor<?xi64, #train.dims<n>> {train.role = "input", train.name = "i"})
    -> (tensor<?x8xf32, #train.dims<n, 8>> {train.role = "output", train.name = "o"}) {
  %0 = train.fusion(%t, %i) : (tensor<100x8xf32>, tensor<?xi64, #train.dims<n>>) -> tensor<?x8xf32, #train.dims<n, 8>> {
  ^bb0(%a: tensor<100x8xf32>, %b: tensor<?xi64, #train.dims<n>>):
    %1 = train.gather %a, %b axis = 0 : tensor<100x8xf32>, tensor<?xi64, #train.dims<n>> -> tensor<?x8xf32, #train.dims<n, 8>>
    %2 = train.exp %1 : tensor<?x8xf32, #train.dims<n, 8>>
    train.yield %2 : tensor<?x8xf32, #train.dims<n, 8>>
  }
  return %0 : tensor<?x8xf32, #train.dims<n, 8>>
}

// -----

// A slice, what is computed of it, and a tensor that is read twice: each once.
// CHECK-LABEL: plan.function @sliced
// CHECK: plan.launch "first"{{.*}} form pointwise moves <384> flops <0>
func.func @sliced(%x: tensor<8x16xf32> {train.role = "input", train.name = "x"}, %y: tensor<2x16xf32> {train.role = "input", train.name = "y"})
    -> (tensor<2x16xf32> {train.role = "output", train.name = "o"}) {
  %0 = train.fusion(%x, %y) : (tensor<8x16xf32>, tensor<2x16xf32>) -> tensor<2x16xf32> {
  ^bb0(%a: tensor<8x16xf32>, %b: tensor<2x16xf32>):
    %1 = train.exp %a : tensor<8x16xf32>
    %2 = train.slice %1 starts = <2, 0> steps = [1, 1] : tensor<8x16xf32> -> tensor<2x16xf32>
    %3 = train.mul %b, %b : tensor<2x16xf32>
    %4 = train.add %2, %3 : tensor<2x16xf32>
    train.yield %4 : tensor<2x16xf32>
  }
  return %0 : tensor<2x16xf32>
}

// -----

// A sum reads all of its operand.
// CHECK-LABEL: plan.function @summed
// CHECK: plan.launch "first"{{.*}} form row moves <16*n + 16> flops <0>
func.func @summed(%x: tensor<4x?xf32, #train.dims<4, n>> {train.role = "input", train.name = "x"})
    -> (tensor<4xf32> {train.role = "output", train.name = "o"}) {
  %0 = train.fusion(%x) : (tensor<4x?xf32, #train.dims<4, n>>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4x?xf32, #train.dims<4, n>>):
    %1 = train.reduce sum %a axes = [1] : tensor<4x?xf32, #train.dims<4, n>> -> tensor<4xf32>
    train.yield %1 : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}
