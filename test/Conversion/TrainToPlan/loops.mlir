// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a step carries on is written over what it began with, as soon as nothing reads that.
// RUN: trainc-test-opt %s --split-input-file --test-train-to-plan | FileCheck %s

// The state before is stacked: its copy stands in front of the step, and does not keep its buffer.
// CHECK-LABEL: plan.function @states
// CHECK: plan.loop scanned(%[[X:.*]]) by(%[[XS:.*]]) stacked(%{{.*}}, %{{.*}}) by(%[[OLD:.*]], %[[NEW:.*]]) kept(%[[H:.*]], %[[W:.*]]) steps <seq>
// CHECK-NEXT: plan.copy %[[H]] to %[[OLD]]
// CHECK-NEXT: %[[P:.*]] = plan.buffer
// CHECK-NEXT: plan.gemm %[[H]], %[[W]], %[[P]]
// CHECK-NEXT: plan.launch "first"(%[[XS]], %[[P]], %[[H]])
// CHECK-NEXT: plan.launch "second"(%[[XS]], %[[P]], %[[H]])
// CHECK-NEXT: plan.copy %[[H]] to %[[NEW]]
// CHECK-NEXT: plan.loop end
func.func @states(%h: tensor<2x4xf32> {train.role = "input", train.name = "h"},
    %x: tensor<?x2x4xf32, #train.dims<seq, 2, 4>> {train.role = "input", train.name = "x"},
    %w: tensor<4x4xf32> {train.role = "parameter", train.name = "w"})
    -> (tensor<?x2x4xf32, #train.dims<seq, 2, 4>> {train.role = "output", train.name = "old"},
        tensor<?x2x4xf32, #train.dims<seq, 2, 4>> {train.role = "output", train.name = "new"}) {
  %0:3 = train.loop(%h) scanned(%x) invariant(%w) steps <seq> : (tensor<2x4xf32>, tensor<?x2x4xf32, #train.dims<seq, 2, 4>>, tensor<4x4xf32>) -> (tensor<2x4xf32>, tensor<?x2x4xf32, #train.dims<seq, 2, 4>>, tensor<?x2x4xf32, #train.dims<seq, 2, 4>>) {
  ^bb0(%state: tensor<2x4xf32>, %slice: tensor<2x4xf32>, %weight: tensor<4x4xf32>):
    %1 = train.matmul %state, %weight : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
    %2 = train.fusion(%slice, %1) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32> {
    ^bb0(%a: tensor<2x4xf32>, %b: tensor<2x4xf32>):
      %3 = train.add %a, %b : tensor<2x4xf32>
      train.yield %3 : tensor<2x4xf32>
    }
    train.loop_yield %2, %state, %2 : tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>
  }
  return %0#1, %0#2 : tensor<?x2x4xf32, #train.dims<seq, 2, 4>>, tensor<?x2x4xf32, #train.dims<seq, 2, 4>>
}

// -----

// A product may lie over what is read in front of it, but not over its own operand.
// CHECK-LABEL: plan.function @products
// CHECK: plan.loop scanned() by() stacked() by() kept(%[[A:.*]], %[[B:.*]], %[[W:.*]]) steps <3>
// CHECK-NEXT: %[[P:.*]] = plan.buffer
// CHECK-NEXT: plan.gemm %[[A]], %[[W]], %[[P]]
// CHECK-NEXT: plan.gemm %[[B]], %[[W]], %[[A]]
// CHECK-NEXT: plan.copy %[[P]] to %[[B]]
// CHECK-NEXT: plan.loop end
func.func @products(%h: tensor<4x4xf32> {train.role = "input", train.name = "h"},
    %g: tensor<4x4xf32> {train.role = "input", train.name = "g"},
    %w: tensor<4x4xf32> {train.role = "parameter", train.name = "w"})
    -> (tensor<4x4xf32> {train.role = "output", train.name = "y"}, tensor<4x4xf32> {train.role = "output", train.name = "z"}) {
  %0:2 = train.loop(%h, %g) scanned() invariant(%w) steps <3> : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  ^bb0(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>, %weight: tensor<4x4xf32>):
    %1 = train.matmul %a, %weight : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
    %2 = train.matmul %b, %weight : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
    train.loop_yield %2, %1 : tensor<4x4xf32>, tensor<4x4xf32>
  }
  return %0#0, %0#1 : tensor<4x4xf32>, tensor<4x4xf32>
}
