// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the backward loop reads of a forward step.
// RUN: trainc-opt %s --autodiff -canonicalize --split-input-file | FileCheck %s

// The states, and the sum of the product and the input's part: neither term of it.
// CHECK-LABEL: func.func @gradients(
// CHECK: %[[F:.*]]:3 = train.loop(
// CHECK: %[[S:.*]] = train.add
// CHECK: train.loop_yield %{{.*}}, %{{.*}}, %[[S]] :
// CHECK: train.loop(%{{.*}}) scanned(%[[F]]#2) {{.*}} reverse
func.func @forward(%h: tensor<2x4xf32> {train.role = "input", train.name = "h"},
                   %x: tensor<?x2x4xf32, #train.dims<seq, 2, 4>> {train.role = "input", train.name = "x"},
                   %b: tensor<2x4xf32> {train.role = "parameter", train.name = "b"},
                   %w: tensor<4x4xf32> {train.role = "parameter", train.name = "w", train.trainable})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %0 = train.loop(%h) scanned(%x) invariant(%b, %w) steps <seq> : (tensor<2x4xf32>, tensor<?x2x4xf32, #train.dims<seq, 2, 4>>, tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32> {
  ^bb0(%c: tensor<2x4xf32>, %s: tensor<2x4xf32>, %v: tensor<2x4xf32>, %u: tensor<4x4xf32>):
    %p = train.matmul %c, %u : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
    %sum = train.add %p, %s : tensor<2x4xf32>
    %next = train.tanh %sum : tensor<2x4xf32>
    train.loop_yield %next : tensor<2x4xf32>
  }
  %1 = train.reduce sum %0 axes = [0, 1] : tensor<2x4xf32> -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

// In a wider type than the product, as that takes no more than the two terms.
// CHECK-LABEL: func.func @gradients(
// CHECK: %[[F:.*]]:3 = train.loop({{.*}} -> (tensor<2x4xf32>, tensor<?x2x4xf32, {{.*}}>, tensor<?x2x4xf32, {{.*}}>) {
// CHECK: train.loop(%{{.*}}) scanned(%[[F]]#1, %[[F]]#2) {{.*}} reverse
func.func @forward(%h: tensor<2x4xf32> {train.role = "input", train.name = "h"},
                   %x: tensor<?x2x4xf32, #train.dims<seq, 2, 4>> {train.role = "input", train.name = "x"},
                   %b: tensor<2x4xf32> {train.role = "parameter", train.name = "b"},
                   %w: tensor<4x4xf32> {train.role = "parameter", train.name = "w", train.trainable})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %0 = train.loop(%h) scanned(%x) invariant(%b, %w) steps <seq> : (tensor<2x4xf32>, tensor<?x2x4xf32, #train.dims<seq, 2, 4>>, tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32> {
  ^bb0(%c: tensor<2x4xf32>, %s: tensor<2x4xf32>, %v: tensor<2x4xf32>, %u: tensor<4x4xf32>):
    %cl = train.cast %c : tensor<2x4xf32> -> tensor<2x4xbf16>
    %ul = train.cast %u : tensor<4x4xf32> -> tensor<4x4xbf16>
    %p = train.matmul %cl, %ul : tensor<2x4xbf16>, tensor<4x4xbf16> -> tensor<2x4xbf16>
    %wide = train.cast %p : tensor<2x4xbf16> -> tensor<2x4xf32>
    %sum = train.add %wide, %s : tensor<2x4xf32>
    %next = train.tanh %sum : tensor<2x4xf32>
    train.loop_yield %next : tensor<2x4xf32>
  }
  %1 = train.reduce sum %0 axes = [0, 1] : tensor<2x4xf32> -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

// Not where the other term is the same in all steps: it takes no memory for each.
// CHECK-LABEL: func.func @gradients(
// CHECK: %[[F:.*]]:3 = train.loop({{.*}} -> (tensor<2x4xf32>, tensor<?x2x4xf32, {{.*}}>, tensor<?x2x4xbf16, {{.*}}>) {
// CHECK: train.loop(%{{.*}}) scanned(%[[F]]#1, %[[F]]#2) {{.*}} reverse
func.func @forward(%h: tensor<2x4xf32> {train.role = "input", train.name = "h"},
                   %x: tensor<?x2x4xf32, #train.dims<seq, 2, 4>> {train.role = "input", train.name = "x"},
                   %b: tensor<2x4xf32> {train.role = "parameter", train.name = "b"},
                   %w: tensor<4x4xf32> {train.role = "parameter", train.name = "w", train.trainable})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %0 = train.loop(%h) scanned(%x) invariant(%b, %w) steps <seq> : (tensor<2x4xf32>, tensor<?x2x4xf32, #train.dims<seq, 2, 4>>, tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32> {
  ^bb0(%c: tensor<2x4xf32>, %s: tensor<2x4xf32>, %v: tensor<2x4xf32>, %u: tensor<4x4xf32>):
    %cl = train.cast %c : tensor<2x4xf32> -> tensor<2x4xbf16>
    %ul = train.cast %u : tensor<4x4xf32> -> tensor<4x4xbf16>
    %p = train.matmul %cl, %ul : tensor<2x4xbf16>, tensor<4x4xbf16> -> tensor<2x4xbf16>
    %wide = train.cast %p : tensor<2x4xbf16> -> tensor<2x4xf32>
    %sum = train.add %wide, %v : tensor<2x4xf32>
    %next = train.tanh %sum : tensor<2x4xf32>
    train.loop_yield %next : tensor<2x4xf32>
  }
  %1 = train.reduce sum %0 axes = [0, 1] : tensor<2x4xf32> -> tensor<f32>
  return %1 : tensor<f32>
}
