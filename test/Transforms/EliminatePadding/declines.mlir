// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What has no variant, and why.
// RUN: trainc-opt %s --split-input-file --find-padding --eliminate-padding --remarks-filter='find-padding|eliminate-padding' --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s
// RUN: trainc-opt %s --split-input-file --find-padding --eliminate-padding | FileCheck %s --check-prefix=IR
// IR-NOT: module @packed
// IR-NOT: count_

// A span of the tokens: a row whose span is empty weighs padding like tokens.
train.symbol @batch min 1 input "input_ids" axis 0
train.symbol @seq min 1 input "input_ids" axis 1

// CHECK: Declined{{.*}}train.reduce adds what padding holds to tokens
func.func @forward(%table: tensor<9x4xf32> {train.role = "parameter", train.name = "table", train.trainable},
    %ids: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "input_ids"},
    %mask: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "attention_mask"},
    %span: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "span"})
    -> (tensor<?xf32, #train.dims<batch>> {train.role = "loss", train.name = "loss"}) {
  %t = train.gather %table, %ids axis = 0 : tensor<9x4xf32>, tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
  %x = train.reduce sum %t axes = [2] : tensor<?x?x4xf32, #train.dims<batch, seq, 4>> -> tensor<?x?xf32, #train.dims<batch, seq>>
  %both = train.mul %mask, %span : tensor<?x?xi64, #train.dims<batch, seq>>
  %sees = train.cast %both : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?xi1, #train.dims<batch, seq>>
  %least = train.full -1.0e+09 : f32 : tensor<?x?xf32, #train.dims<batch, seq>>
  %s = train.select %sees, %x, %least : tensor<?x?xi1, #train.dims<batch, seq>>, tensor<?x?xf32, #train.dims<batch, seq>>
  %w = train.softmax %s axis = 1 : tensor<?x?xf32, #train.dims<batch, seq>>
  %m = train.mul %w, %x : tensor<?x?xf32, #train.dims<batch, seq>>
  %y = train.reduce sum %m axes = [1] : tensor<?x?xf32, #train.dims<batch, seq>> -> tensor<?xf32, #train.dims<batch>>
  return %y : tensor<?xf32, #train.dims<batch>>
}

// -----

// The same with the mask alone has a variant, but not where scores of any size are taken for masked.
train.symbol @batch min 1 input "input_ids" axis 0
train.symbol @seq min 1 input "input_ids" axis 1

// CHECK: Declined{{.*}}train.reduce adds what padding holds to tokens
func.func @forward(%table: tensor<9x4xf32> {train.role = "parameter", train.name = "table", train.trainable},
    %ids: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "input_ids"},
    %mask: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "attention_mask"})
    -> (tensor<?xf32, #train.dims<batch>> {train.role = "loss", train.name = "loss"}) {
  %t = train.gather %table, %ids axis = 0 : tensor<9x4xf32>, tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
  %x = train.reduce sum %t axes = [2] : tensor<?x?x4xf32, #train.dims<batch, seq, 4>> -> tensor<?x?xf32, #train.dims<batch, seq>>
  %sees = train.cast %mask : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?xi1, #train.dims<batch, seq>>
  %low = train.full -2000.0 : f32 : tensor<?x?xf32, #train.dims<batch, seq>>
  %below = train.min %x, %low : tensor<?x?xf32, #train.dims<batch, seq>>
  %s = train.select %sees, %below, %low : tensor<?x?xi1, #train.dims<batch, seq>>, tensor<?x?xf32, #train.dims<batch, seq>>
  %w = train.softmax %s axis = 1 : tensor<?x?xf32, #train.dims<batch, seq>>
  %m = train.mul %w, %x : tensor<?x?xf32, #train.dims<batch, seq>>
  %y = train.reduce sum %m axes = [1] : tensor<?x?xf32, #train.dims<batch, seq>> -> tensor<?xf32, #train.dims<batch>>
  return %y : tensor<?xf32, #train.dims<batch>>
}

// -----

// Each token divided by the sum of its row of scores: of padding that sum is 0 in a variant, and its gradient no number.
train.symbol @batch min 1 input "input_ids" axis 0
train.symbol @seq min 1 input "input_ids" axis 1

// CHECK: Found{{.*}}padding is where attention_mask is 0
// CHECK: Declined{{.*}}train.div may be infinite or no number where padding is 0
func.func @forward(%table: tensor<9x4xf32> {train.role = "parameter", train.name = "table", train.trainable},
    %ids: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "input_ids"},
    %mask: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "attention_mask"})
    -> (tensor<?x4xf32, #train.dims<batch, 4>> {train.role = "loss", train.name = "loss"}) {
  %x = train.gather %table, %ids axis = 0 : tensor<9x4xf32>, tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
  %s = train.matmul %x, %x transposed : tensor<?x?x4xf32, #train.dims<batch, seq, 4>>, tensor<?x?x4xf32, #train.dims<batch, seq, 4>> -> tensor<?x?x?xf32, #train.dims<batch, seq, seq>>
  %e = train.exp %s : tensor<?x?x?xf32, #train.dims<batch, seq, seq>>
  %m = train.cast %mask : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?xf32, #train.dims<batch, seq>>
  %columns = train.broadcast %m axes = [0, 2] : tensor<?x?xf32, #train.dims<batch, seq>> -> tensor<?x?x?xf32, #train.dims<batch, seq, seq>>
  %p = train.mul %e, %columns : tensor<?x?x?xf32, #train.dims<batch, seq, seq>>
  %total = train.reduce sum %p axes = [2] : tensor<?x?x?xf32, #train.dims<batch, seq, seq>> -> tensor<?x?xf32, #train.dims<batch, seq>>
  %totals = train.broadcast %total axes = [0, 1] : tensor<?x?xf32, #train.dims<batch, seq>> -> tensor<?x?x?xf32, #train.dims<batch, seq, seq>>
  %w = train.div %p, %totals : tensor<?x?x?xf32, #train.dims<batch, seq, seq>>
  %y = train.matmul %w, %x : tensor<?x?x?xf32, #train.dims<batch, seq, seq>>, tensor<?x?x4xf32, #train.dims<batch, seq, 4>> -> tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
  %rows = train.broadcast %m axes = [0, 1] : tensor<?x?xf32, #train.dims<batch, seq>> -> tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
  %z = train.mul %y, %rows : tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
  %loss = train.reduce sum %z axes = [1] : tensor<?x?x4xf32, #train.dims<batch, seq, 4>> -> tensor<?x4xf32, #train.dims<batch, 4>>
  return %loss : tensor<?x4xf32, #train.dims<batch, 4>>
}

// -----

// A result of all tokens.
train.symbol @batch min 1 input "input_ids" axis 0
train.symbol @seq min 1 input "input_ids" axis 1
!ids = tensor<?x?xi64, #train.dims<batch, seq>>
!t = tensor<?x?xf32, #train.dims<batch, seq>>
!rows = tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
!table = tensor<9x4xf32>

// CHECK: Declined{{.*}}Reason="a result holds what padding makes of it"
func.func @forward(%table: !table {train.role = "parameter", train.name = "table", train.trainable},
    %ids: !ids {train.role = "input", train.name = "input_ids"},
    %mask: !ids {train.role = "input", train.name = "attention_mask"},
    %labels: !ids {train.role = "input", train.name = "labels"})
    -> (!t {train.role = "loss", train.name = "loss"}) {
  %e = train.gather %table, %ids axis = 0 : !table, !ids -> !rows
  %x = train.reduce sum %e axes = [2] : !rows -> !t
  %m = train.cast %mask : !ids -> !t
  return %x : !t
}

// -----

// Tokens after samples that are none.
train.symbol @batch min 1 input "input_ids" axis 0
train.symbol @seq min 1 input "input_ids" axis 1
!ids = tensor<?x?xi64, #train.dims<batch, seq>>
!t = tensor<?x?xf32, #train.dims<batch, seq>>
!rows = tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
!table = tensor<9x4xf32>
!loss = tensor<?xf32, #train.dims<batch>>

// CHECK: Declined{{.*}}Reason="train.pad pads the axes of tokens"
func.func @forward(%table: !table {train.role = "parameter", train.name = "table", train.trainable},
    %ids: !ids {train.role = "input", train.name = "input_ids"},
    %mask: !ids {train.role = "input", train.name = "attention_mask"},
    %labels: !ids {train.role = "input", train.name = "labels"})
    -> (!loss {train.role = "loss", train.name = "loss"}) {
  %e = train.gather %table, %ids axis = 0 : !table, !ids -> !rows
  %x = train.reduce sum %e axes = [2] : !rows -> !t
  %m = train.cast %mask : !ids -> !t
  %p = train.pad %x value = 0.0 : f32 low = <1, 0> : !t -> tensor<?x?xf32, #train.dims<batch + 1, seq>>
  %q = train.slice %p starts = <0, 0> steps = [1, 1] : tensor<?x?xf32, #train.dims<batch + 1, seq>> -> !t
  %z = train.mul %q, %m : !t
  %loss = train.reduce sum %z axes = [1] : !t -> !loss
  return %loss : !loss
}

// -----

// Products of tokens with their neighbours.
train.symbol @batch min 1 input "input_ids" axis 0
train.symbol @seq min 1 input "input_ids" axis 1
!ids = tensor<?x?xi64, #train.dims<batch, seq>>
!t = tensor<?x?xf32, #train.dims<batch, seq>>
!rows = tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
!next = tensor<?x?xf32, #train.dims<batch, seq - 1>>
!table = tensor<9x4xf32>
!loss = tensor<?xf32, #train.dims<batch>>

// CHECK: Declined{{.*}}Reason="train.mul combines tokens with their neighbours"
func.func @forward(%table: !table {train.role = "parameter", train.name = "table", train.trainable},
    %ids: !ids {train.role = "input", train.name = "input_ids"},
    %mask: !ids {train.role = "input", train.name = "attention_mask"},
    %labels: !ids {train.role = "input", train.name = "labels"})
    -> (!loss {train.role = "loss", train.name = "loss"}) {
  %e = train.gather %table, %ids axis = 0 : !table, !ids -> !rows
  %x = train.reduce sum %e axes = [2] : !rows -> !t
  %m = train.cast %mask : !ids -> !t
  %a = train.slice %x starts = <0, 1> steps = [1, 1] : !t -> !next
  %b = train.slice %x starts = <0, 0> steps = [1, 1] : !t -> !next
  %c = train.mul %a, %b : !next
  %n = train.slice %m starts = <0, 1> steps = [1, 1] : !t -> !next
  %z = train.mul %c, %n : !next
  %loss = train.reduce sum %z axes = [1] : !next -> !loss
  return %loss : !loss
}

// -----

// Labels of the tokens before: the token behind a label that counts may be padding.
train.symbol @batch min 1 input "input_ids" axis 0
train.symbol @seq min 1 input "input_ids" axis 1
!ids = tensor<?x?xi64, #train.dims<batch, seq>>
!t = tensor<?x?xf32, #train.dims<batch, seq>>
!rows = tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
!nextids = tensor<?x?xi64, #train.dims<batch, seq - 1>>
!table = tensor<9x4xf32>

// CHECK: Declined{{.*}}Reason="train.select needs the label before padding to be ignored, too"
func.func @forward(%table: !table {train.role = "parameter", train.name = "table", train.trainable},
    %ids: !ids {train.role = "input", train.name = "input_ids"},
    %mask: !ids {train.role = "input", train.name = "attention_mask"},
    %labels: !ids {train.role = "input", train.name = "labels"})
    -> (tensor<?xf32, #train.dims<batch*seq-batch>> {train.role = "loss", train.name = "loss"}) {
  %e = train.gather %table, %ids axis = 0 : !table, !ids -> !rows
  %x = train.reduce sum %e axes = [2] : !rows -> !t
  %m = train.cast %mask : !ids -> !t
  %a = train.slice %e starts = <0, 1, 0> steps = [1, 1, 1] : !rows -> tensor<?x?x4xf32, #train.dims<batch, seq - 1, 4>>
  %af = train.reshape %a : tensor<?x?x4xf32, #train.dims<batch, seq - 1, 4>> -> tensor<?x4xf32, #train.dims<batch*seq-batch, 4>>
  %l = train.slice %labels starts = <0, 0> steps = [1, 1] : !ids -> !nextids
  %lf = train.reshape %l : !nextids -> tensor<?xi64, #train.dims<batch*seq-batch>>
  %loss, %lse = train.cross_entropy %af, %lf {ignore_index = -100 : i64} : (tensor<?x4xf32, #train.dims<batch*seq-batch, 4>>, tensor<?xi64, #train.dims<batch*seq-batch>>) -> (tensor<?xf32, #train.dims<batch*seq-batch>>, tensor<?xf32, #train.dims<batch*seq-batch>>)
  return %loss : tensor<?xf32, #train.dims<batch*seq-batch>>
}

// -----

// Rows and columns of one matrix are tokens: what is 0 at columns of padding is summed up over rows, then over both.
train.symbol @batch min 1 input "input_ids" axis 0
train.symbol @seq min 1 input "input_ids" axis 1
!ids = tensor<?x?xi64, #train.dims<batch, seq>>
!t = tensor<?x?xf32, #train.dims<batch, seq>>
!sq = tensor<?x?x?xf32, #train.dims<batch, seq, seq>>
!rows = tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
!table = tensor<9x4xf32>

// CHECK: Declined{{.*}}Reason="train.reduce drops the axes of tokens"
func.func @forward(%table: !table {train.role = "parameter", train.name = "table", train.trainable},
    %ids: !ids {train.role = "input", train.name = "input_ids"},
    %mask: !ids {train.role = "input", train.name = "attention_mask"},
    %labels: !ids {train.role = "input", train.name = "labels"})
    -> (!t {train.role = "loss", train.name = "loss"}) {
  %e = train.gather %table, %ids axis = 0 : !table, !ids -> !rows
  %x = train.reduce sum %e axes = [2] : !rows -> !t
  %m = train.cast %mask : !ids -> !t
  %row = train.broadcast %mask axes = [0, 1] : !ids -> tensor<?x?x?xi64, #train.dims<batch, seq, seq>>
  %column = train.broadcast %mask axes = [0, 2] : !ids -> tensor<?x?x?xi64, #train.dims<batch, seq, seq>>
  %visible = train.compare eq %row, %column : tensor<?x?x?xi64, #train.dims<batch, seq, seq>> -> tensor<?x?x?xi1, #train.dims<batch, seq, seq>>
  %xs = train.broadcast %x axes = [0, 1] : !t -> !sq
  %zero = train.full 0.0 : f32 : !sq
  %s = train.select %visible, %xs, %zero : tensor<?x?x?xi1, #train.dims<batch, seq, seq>>, !sq
  %mr = train.broadcast %m axes = [0, 1] : !t -> !sq
  %z = train.mul %s, %mr : !sq
  %loss = train.reduce sum %z axes = [1] : !sq -> !t
  return %loss : !t
}

// -----

train.symbol @batch min 1 input "input_ids" axis 0
train.symbol @seq min 1 input "input_ids" axis 1
!ids = tensor<?x?xi64, #train.dims<batch, seq>>
!t = tensor<?x?xf32, #train.dims<batch, seq>>
!sq = tensor<?x?x?xf32, #train.dims<batch, seq, seq>>
!rows = tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
!table = tensor<9x4xf32>
!loss = tensor<?xf32, #train.dims<batch>>

// CHECK: Declined{{.*}}Reason="train.reduce takes a part of the axes of tokens"
func.func @forward(%table: !table {train.role = "parameter", train.name = "table", train.trainable},
    %ids: !ids {train.role = "input", train.name = "input_ids"},
    %mask: !ids {train.role = "input", train.name = "attention_mask"},
    %labels: !ids {train.role = "input", train.name = "labels"})
    -> (!loss {train.role = "loss", train.name = "loss"}) {
  %e = train.gather %table, %ids axis = 0 : !table, !ids -> !rows
  %x = train.reduce sum %e axes = [2] : !rows -> !t
  %m = train.cast %mask : !ids -> !t
  %row = train.broadcast %mask axes = [0, 1] : !ids -> tensor<?x?x?xi64, #train.dims<batch, seq, seq>>
  %column = train.broadcast %mask axes = [0, 2] : !ids -> tensor<?x?x?xi64, #train.dims<batch, seq, seq>>
  %visible = train.compare eq %row, %column : tensor<?x?x?xi64, #train.dims<batch, seq, seq>> -> tensor<?x?x?xi1, #train.dims<batch, seq, seq>>
  %xs = train.broadcast %x axes = [0, 1] : !t -> !sq
  %zero = train.full 0.0 : f32 : !sq
  %s = train.select %visible, %xs, %zero : tensor<?x?x?xi1, #train.dims<batch, seq, seq>>, !sq
  %mr = train.broadcast %m axes = [0, 1] : !t -> !sq
  %z = train.mul %s, %mr : !sq
  %loss = train.reduce sum %z axes = [1, 2] : !sq -> !loss
  return %loss : !loss
}
