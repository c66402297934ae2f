// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A recurrence over masked positions gets its rectangle, with zeros at padding, where ranges of its body say that it makes finite
// numbers of them.
// RUN: trainc-opt %s --split-input-file --find-padding --eliminate-padding | FileCheck %s
// RUN: trainc-opt %s --split-input-file --find-padding --eliminate-padding --remarks-filter='eliminate-padding' --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

train.symbol @batch min 1 input "input_ids" axis 0
train.symbol @seq min 1 input "input_ids" axis 1
!ids = tensor<?x?xi64, #train.dims<batch, seq>>
!t = tensor<?x?xf32, #train.dims<batch, seq>>
!rows = tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
!steps = tensor<?x?x4xf32, #train.dims<seq, batch, 4>>
!state = tensor<?x4xf32, #train.dims<batch, 4>>

// A state that grows without a bound, beside one that has one, which is divided by.
// CHECK: module @packed
// CHECK: train.exp %{{.*}} : tensor<1x?x4xf32, #train.dims<1, count_attention_mask, 4>>
// CHECK: train.loop(%{{.*}}) scanned(%{{.*}}) {{.*}} steps <seq>
// REMARK: Packed{{.*}}ops compute the count_attention_mask tokens
func.func @forward(%table: tensor<9x4xf32> {train.role = "parameter", train.name = "table", train.trainable},
    %w: tensor<4x4xf32> {train.role = "parameter", train.name = "w", train.trainable},
    %ids: !ids {train.role = "input", train.name = "input_ids"},
    %mask: !ids {train.role = "input", train.name = "attention_mask"})
    -> (!state {train.role = "loss", train.name = "loss"}) {
  %0 = train.gather %table, %ids axis = 0 : tensor<9x4xf32>, !ids -> !rows
  %1 = train.exp %0 : !rows
  %2 = train.cast %mask : !ids -> !t
  %3 = train.broadcast %2 axes = [0, 1] : !t -> !rows
  %4 = train.mul %1, %3 : !rows
  %5 = train.transpose %4 permutation = [1, 0, 2] : !rows -> !steps
  %6 = train.full 0.0 : f32 : !state
  %7:2 = train.loop(%6, %6) scanned(%5) invariant(%w) steps <seq> : (!state, !state, !steps, tensor<4x4xf32>) -> (!state, !state) {
  ^bb0(%s: !state, %count: !state, %x: !state, %u: tensor<4x4xf32>):
    %p = train.matmul %s, %u : !state, tensor<4x4xf32> -> !state
    %sum = train.add %p, %x : !state
    %n = train.sigmoid %sum : !state
    %three = train.full 3.0 : f32 : !state
    %d = train.add %n, %three : !state
    %q = train.div %x, %d : !state
    %more = train.add %count, %q : !state
    train.loop_yield %n, %more : !state, !state
  }
  %8 = train.add %7#0, %7#1 : !state
  return %8 : !state
}

// -----

train.symbol @batch min 1 input "input_ids" axis 0
train.symbol @seq min 1 input "input_ids" axis 1
!ids = tensor<?x?xi64, #train.dims<batch, seq>>
!t = tensor<?x?xf32, #train.dims<batch, seq>>
!rows = tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
!steps = tensor<?x?x4xf32, #train.dims<seq, batch, 4>>
!state = tensor<?x4xf32, #train.dims<batch, 4>>

// What is carried is 1 at first only.
// CHECK-NOT: module @packed
// REMARK: Declined{{.*}}train.loop may be infinite or no number where padding is 0
func.func @forward(%table: tensor<9x4xf32> {train.role = "parameter", train.name = "table", train.trainable},
    %ids: !ids {train.role = "input", train.name = "input_ids"},
    %mask: !ids {train.role = "input", train.name = "attention_mask"})
    -> (!state {train.role = "loss", train.name = "loss"}) {
  %0 = train.gather %table, %ids axis = 0 : tensor<9x4xf32>, !ids -> !rows
  %1 = train.exp %0 : !rows
  %2 = train.cast %mask : !ids -> !t
  %3 = train.broadcast %2 axes = [0, 1] : !t -> !rows
  %4 = train.mul %1, %3 : !rows
  %5 = train.transpose %4 permutation = [1, 0, 2] : !rows -> !steps
  %6 = train.full 1.0 : f32 : !state
  %7 = train.loop(%6) scanned(%5) invariant() steps <seq> : (!state, !steps) -> !state {
  ^bb0(%s: !state, %x: !state):
    %q = train.div %x, %s : !state
    train.loop_yield %q : !state
  }
  return %7 : !state
}
