// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Documents that share a row, told apart by an input of their numbers: it is the mask of the tokens, and attention runs
// over each document.
// RUN: trainc-opt %s --split-input-file --pass-pipeline='builtin.module(find-padding,eliminate-padding,builtin.module(func.func(raise-attention{segments=true}),canonicalize,cse))' | FileCheck %s
// RUN: trainc-opt %s --split-input-file --pass-pipeline='builtin.module(find-padding,eliminate-padding,builtin.module(func.func(raise-attention{segments=true})))' --remarks-filter="find-padding|raise-attention" --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// Equal numbers alone make a column visible: padding sees padding, but no token does.
train.symbol @batch min 1 input "input_ids" axis 0
train.symbol @seq min 1 input "input_ids" axis 1

// CHECK-DAG: train.symbol @count_segment_ids min 8 divisor 8 input "segment_ids" differs 0
// CHECK-DAG: train.symbol @runs_segment_ids min 8 divisor 8 input "segment_ids" differs 0 counts runs
// CHECK-DAG: train.symbol @longest_run_segment_ids min 8 divisor 8 input "segment_ids" differs 0 counts longest_run
// CHECK: module @packed attributes {train.conditions = [{kind = "contiguous", mask = "segment_ids", padding = 0 : i64}, {index = -2 : i64, kind = "real_at", mask = "segment_ids", padding = 0 : i64}]}
// CHECK: %[[LENGTHS:.*]] = train.scatter_add {{.*}} -> tensor<?xf64, #train.dims<runs_segment_ids>>
// CHECK: train.attention {{.*}} segments %{{.*}} longest <longest_run_segment_ids>
// CHECK-SAME: tensor<1x1x?x8xf32, #train.dims<1, 1, count_segment_ids, 8>>
// CHECK-SAME: tensor<?xi32, #train.dims<runs_segment_ids + 1>>
// REMARK: Found{{.*}}padding is where segment_ids is 0; it reaches no token
// REMARK: Raised{{.*}}all columns, packed documents
func.func @forward(%table: tensor<9x8xf32> {train.role = "parameter", train.name = "table", train.trainable},
    %w: tensor<8x8xf32> {train.role = "parameter", train.name = "w", train.trainable},
    %ids: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "input_ids"},
    %segment_ids: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "segment_ids"})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %x = train.gather %table, %ids axis = 0 : tensor<9x8xf32>, tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?x8xf32, #train.dims<batch, seq, 8>>
  %h = train.reshape %x : tensor<?x?x8xf32, #train.dims<batch, seq, 8>> -> tensor<?x?x1x8xf32, #train.dims<batch, seq, 1, 8>>
  %q = train.transpose %h permutation = [0, 2, 1, 3] : tensor<?x?x1x8xf32, #train.dims<batch, seq, 1, 8>> -> tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>>
  %scores = train.matmul %q, %q transposed : tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>>, tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>> -> tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>
  %number = train.reshape %segment_ids : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x1x?xi64, #train.dims<batch, 1, seq>>
  %row = train.broadcast %number axes = [0, 1, 2] : tensor<?x1x?xi64, #train.dims<batch, 1, seq>> -> tensor<?x1x?x?xi64, #train.dims<batch, 1, seq, seq>>
  %column = train.broadcast %number axes = [0, 1, 3] : tensor<?x1x?xi64, #train.dims<batch, 1, seq>> -> tensor<?x1x?x?xi64, #train.dims<batch, 1, seq, seq>>
  %visible = train.compare eq %row, %column : tensor<?x1x?x?xi64, #train.dims<batch, 1, seq, seq>> -> tensor<?x1x?x?xi1, #train.dims<batch, 1, seq, seq>>
  %least = train.full -3.40282347E+38 : f32 : tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>
  %masked = train.select %visible, %scores, %least : tensor<?x1x?x?xi1, #train.dims<batch, 1, seq, seq>>, tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>
  %weights = train.softmax %masked axis = 3 : tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>
  %mixed = train.matmul %weights, %q : tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>, tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>> -> tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>>
  %back = train.transpose %mixed permutation = [0, 2, 1, 3] : tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>> -> tensor<?x?x1x8xf32, #train.dims<batch, seq, 1, 8>>
  %rows = train.reshape %back : tensor<?x?x1x8xf32, #train.dims<batch, seq, 1, 8>> -> tensor<?x8xf32, #train.dims<batch*seq, 8>>
  %y = train.matmul %rows, %w : tensor<?x8xf32, #train.dims<batch*seq, 8>>, tensor<8x8xf32> -> tensor<?x8xf32, #train.dims<batch*seq, 8>>
  %padding = train.full 0 : i64 : tensor<?x?xi64, #train.dims<batch, seq>>
  %counts = train.compare ne %segment_ids, %padding : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?xi1, #train.dims<batch, seq>>
  %factor = train.cast %counts : tensor<?x?xi1, #train.dims<batch, seq>> -> tensor<?x?xf32, #train.dims<batch, seq>>
  %factors = train.reshape %factor : tensor<?x?xf32, #train.dims<batch, seq>> -> tensor<?xf32, #train.dims<batch*seq>>
  %all = train.broadcast %factors axes = [0] : tensor<?xf32, #train.dims<batch*seq>> -> tensor<?x8xf32, #train.dims<batch*seq, 8>>
  %z = train.mul %y, %all : tensor<?x8xf32, #train.dims<batch*seq, 8>>
  %loss = train.reduce sum %z axes = [0, 1] : tensor<?x8xf32, #train.dims<batch*seq, 8>> -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// A row that sees the other documents sees padding.
train.symbol @batch min 1 input "input_ids" axis 0
train.symbol @seq min 1 input "input_ids" axis 1

// CHECK-NOT: module @packed
// REMARK: Declined{{.*}}Reason="no input masks it: where segment_ids is 0, train.softmax may find nothing in a row but padding and what is masked"{{.*}}Suggestion="say what pads: trainc --pad-token INPUT=ID, or INPUT=MASK"
func.func @forward(%table: tensor<9x8xf32> {train.role = "parameter", train.name = "table", train.trainable},
    %w: tensor<8x8xf32> {train.role = "parameter", train.name = "w", train.trainable},
    %ids: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "input_ids"},
    %segment_ids: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "segment_ids"})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %x = train.gather %table, %ids axis = 0 : tensor<9x8xf32>, tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?x8xf32, #train.dims<batch, seq, 8>>
  %h = train.reshape %x : tensor<?x?x8xf32, #train.dims<batch, seq, 8>> -> tensor<?x?x1x8xf32, #train.dims<batch, seq, 1, 8>>
  %q = train.transpose %h permutation = [0, 2, 1, 3] : tensor<?x?x1x8xf32, #train.dims<batch, seq, 1, 8>> -> tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>>
  %scores = train.matmul %q, %q transposed : tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>>, tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>> -> tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>
  %number = train.reshape %segment_ids : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x1x?xi64, #train.dims<batch, 1, seq>>
  %row = train.broadcast %number axes = [0, 1, 2] : tensor<?x1x?xi64, #train.dims<batch, 1, seq>> -> tensor<?x1x?x?xi64, #train.dims<batch, 1, seq, seq>>
  %column = train.broadcast %number axes = [0, 1, 3] : tensor<?x1x?xi64, #train.dims<batch, 1, seq>> -> tensor<?x1x?x?xi64, #train.dims<batch, 1, seq, seq>>
  %visible = train.compare ne %row, %column : tensor<?x1x?x?xi64, #train.dims<batch, 1, seq, seq>> -> tensor<?x1x?x?xi1, #train.dims<batch, 1, seq, seq>>
  %least = train.full -3.40282347E+38 : f32 : tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>
  %masked = train.select %visible, %scores, %least : tensor<?x1x?x?xi1, #train.dims<batch, 1, seq, seq>>, tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>
  %weights = train.softmax %masked axis = 3 : tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>
  %mixed = train.matmul %weights, %q : tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>, tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>> -> tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>>
  %back = train.transpose %mixed permutation = [0, 2, 1, 3] : tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>> -> tensor<?x?x1x8xf32, #train.dims<batch, seq, 1, 8>>
  %rows = train.reshape %back : tensor<?x?x1x8xf32, #train.dims<batch, seq, 1, 8>> -> tensor<?x8xf32, #train.dims<batch*seq, 8>>
  %y = train.matmul %rows, %w : tensor<?x8xf32, #train.dims<batch*seq, 8>>, tensor<8x8xf32> -> tensor<?x8xf32, #train.dims<batch*seq, 8>>
  %padding = train.full 0 : i64 : tensor<?x?xi64, #train.dims<batch, seq>>
  %counts = train.compare ne %segment_ids, %padding : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?xi1, #train.dims<batch, seq>>
  %factor = train.cast %counts : tensor<?x?xi1, #train.dims<batch, seq>> -> tensor<?x?xf32, #train.dims<batch, seq>>
  %factors = train.reshape %factor : tensor<?x?xf32, #train.dims<batch, seq>> -> tensor<?xf32, #train.dims<batch*seq>>
  %all = train.broadcast %factors axes = [0] : tensor<?xf32, #train.dims<batch*seq>> -> tensor<?x8xf32, #train.dims<batch*seq, 8>>
  %z = train.mul %y, %all : tensor<?x8xf32, #train.dims<batch*seq, 8>>
  %loss = train.reduce sum %z axes = [0, 1] : tensor<?x8xf32, #train.dims<batch*seq, 8>> -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// Only the second document is seen: a token of the first sees nothing, and so all columns alike.
train.symbol @batch min 1 input "input_ids" axis 0
train.symbol @seq min 1 input "input_ids" axis 1

// CHECK-NOT: module @packed
// REMARK: Declined{{.*}}Reason="no input masks it"{{.*}}Suggestion="say what pads: trainc --pad-token INPUT=ID, or INPUT=MASK"
func.func @forward(%table: tensor<9x8xf32> {train.role = "parameter", train.name = "table", train.trainable},
    %w: tensor<8x8xf32> {train.role = "parameter", train.name = "w", train.trainable},
    %ids: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "input_ids"},
    %segment_ids: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "segment_ids"})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %x = train.gather %table, %ids axis = 0 : tensor<9x8xf32>, tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?x8xf32, #train.dims<batch, seq, 8>>
  %h = train.reshape %x : tensor<?x?x8xf32, #train.dims<batch, seq, 8>> -> tensor<?x?x1x8xf32, #train.dims<batch, seq, 1, 8>>
  %q = train.transpose %h permutation = [0, 2, 1, 3] : tensor<?x?x1x8xf32, #train.dims<batch, seq, 1, 8>> -> tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>>
  %scores = train.matmul %q, %q transposed : tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>>, tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>> -> tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>
  %number = train.full 2 : i64 : tensor<?x?xi64, #train.dims<batch, seq>>
  %test = train.compare eq %segment_ids, %number : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?xi1, #train.dims<batch, seq>>
  %token = train.reshape %test : tensor<?x?xi1, #train.dims<batch, seq>> -> tensor<?x1x?xi1, #train.dims<batch, 1, seq>>
  %visible = train.broadcast %token axes = [0, 1, 3] : tensor<?x1x?xi1, #train.dims<batch, 1, seq>> -> tensor<?x1x?x?xi1, #train.dims<batch, 1, seq, seq>>
  %least = train.full -3.40282347E+38 : f32 : tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>
  %masked = train.select %visible, %scores, %least : tensor<?x1x?x?xi1, #train.dims<batch, 1, seq, seq>>, tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>
  %weights = train.softmax %masked axis = 3 : tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>
  %mixed = train.matmul %weights, %q : tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>, tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>> -> tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>>
  %back = train.transpose %mixed permutation = [0, 2, 1, 3] : tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>> -> tensor<?x?x1x8xf32, #train.dims<batch, seq, 1, 8>>
  %rows = train.reshape %back : tensor<?x?x1x8xf32, #train.dims<batch, seq, 1, 8>> -> tensor<?x8xf32, #train.dims<batch*seq, 8>>
  %y = train.matmul %rows, %w : tensor<?x8xf32, #train.dims<batch*seq, 8>>, tensor<8x8xf32> -> tensor<?x8xf32, #train.dims<batch*seq, 8>>
  %padding = train.full 0 : i64 : tensor<?x?xi64, #train.dims<batch, seq>>
  %counts = train.compare ne %segment_ids, %padding : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?xi1, #train.dims<batch, seq>>
  %factor = train.cast %counts : tensor<?x?xi1, #train.dims<batch, seq>> -> tensor<?x?xf32, #train.dims<batch, seq>>
  %factors = train.reshape %factor : tensor<?x?xf32, #train.dims<batch, seq>> -> tensor<?xf32, #train.dims<batch*seq>>
  %all = train.broadcast %factors axes = [0] : tensor<?xf32, #train.dims<batch*seq>> -> tensor<?x8xf32, #train.dims<batch*seq, 8>>
  %z = train.mul %y, %all : tensor<?x8xf32, #train.dims<batch*seq, 8>>
  %loss = train.reduce sum %z axes = [0, 1] : tensor<?x8xf32, #train.dims<batch*seq, 8>> -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// Told by their sign; the runtime checks that no number is below it.
train.symbol @batch min 1 input "input_ids" axis 0
train.symbol @seq min 1 input "input_ids" axis 1

// CHECK: module @packed attributes {train.conditions = [{kind = "above", mask = "segment_ids", padding = 0 : i64}, {{.*}}]}
// CHECK: train.attention {{.*}} longest <seq>
// REMARK: Found{{.*}}padding is where segment_ids is 0; it reaches no token
// REMARK: Raised{{.*}}all columns, packed tokens
func.func @forward(%table: tensor<9x8xf32> {train.role = "parameter", train.name = "table", train.trainable},
    %w: tensor<8x8xf32> {train.role = "parameter", train.name = "w", train.trainable},
    %ids: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "input_ids"},
    %segment_ids: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "segment_ids"})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %x = train.gather %table, %ids axis = 0 : tensor<9x8xf32>, tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?x8xf32, #train.dims<batch, seq, 8>>
  %h = train.reshape %x : tensor<?x?x8xf32, #train.dims<batch, seq, 8>> -> tensor<?x?x1x8xf32, #train.dims<batch, seq, 1, 8>>
  %q = train.transpose %h permutation = [0, 2, 1, 3] : tensor<?x?x1x8xf32, #train.dims<batch, seq, 1, 8>> -> tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>>
  %scores = train.matmul %q, %q transposed : tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>>, tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>> -> tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>
  %number = train.full 0 : i64 : tensor<?x?xi64, #train.dims<batch, seq>>
  %test = train.compare gt %segment_ids, %number : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?xi1, #train.dims<batch, seq>>
  %token = train.reshape %test : tensor<?x?xi1, #train.dims<batch, seq>> -> tensor<?x1x?xi1, #train.dims<batch, 1, seq>>
  %visible = train.broadcast %token axes = [0, 1, 3] : tensor<?x1x?xi1, #train.dims<batch, 1, seq>> -> tensor<?x1x?x?xi1, #train.dims<batch, 1, seq, seq>>
  %least = train.full -3.40282347E+38 : f32 : tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>
  %masked = train.select %visible, %scores, %least : tensor<?x1x?x?xi1, #train.dims<batch, 1, seq, seq>>, tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>
  %weights = train.softmax %masked axis = 3 : tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>
  %mixed = train.matmul %weights, %q : tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>, tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>> -> tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>>
  %back = train.transpose %mixed permutation = [0, 2, 1, 3] : tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>> -> tensor<?x?x1x8xf32, #train.dims<batch, seq, 1, 8>>
  %rows = train.reshape %back : tensor<?x?x1x8xf32, #train.dims<batch, seq, 1, 8>> -> tensor<?x8xf32, #train.dims<batch*seq, 8>>
  %y = train.matmul %rows, %w : tensor<?x8xf32, #train.dims<batch*seq, 8>>, tensor<8x8xf32> -> tensor<?x8xf32, #train.dims<batch*seq, 8>>
  %padding = train.full 0 : i64 : tensor<?x?xi64, #train.dims<batch, seq>>
  %counts = train.compare gt %segment_ids, %padding : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?xi1, #train.dims<batch, seq>>
  %factor = train.cast %counts : tensor<?x?xi1, #train.dims<batch, seq>> -> tensor<?x?xf32, #train.dims<batch, seq>>
  %factors = train.reshape %factor : tensor<?x?xf32, #train.dims<batch, seq>> -> tensor<?xf32, #train.dims<batch*seq>>
  %all = train.broadcast %factors axes = [0] : tensor<?xf32, #train.dims<batch*seq>> -> tensor<?x8xf32, #train.dims<batch*seq, 8>>
  %z = train.mul %y, %all : tensor<?x8xf32, #train.dims<batch*seq, 8>>
  %loss = train.reduce sum %z axes = [0, 1] : tensor<?x8xf32, #train.dims<batch*seq, 8>> -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// Documents beside a mask by its name: batches where both are 0 in the same places run over each document.
train.symbol @batch min 1 input "input_ids" axis 0
train.symbol @seq min 1 input "input_ids" axis 1

// CHECK: module @packed attributes {train.conditions = [{kind = "contiguous", mask = "document_ids", padding = 0 : i64}
// CHECK-SAME: {input = "document_ids", kind = "fixed_where_padded", mask = "attention_mask", padding = 0 : i64, shift = 0 : i64, value = 0 : i64}
// CHECK: train.attention {{.*}} segments %{{.*}} longest <longest_run_document_ids>
// REMARK: Found{{.*}}padding is where document_ids is 0; it reaches no token
// REMARK: Raised{{.*}}all columns, packed documents
func.func @forward(%table: tensor<9x8xf32> {train.role = "parameter", train.name = "table", train.trainable},
    %w: tensor<8x8xf32> {train.role = "parameter", train.name = "w", train.trainable},
    %ids: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "input_ids"},
    %attention_mask: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "attention_mask"},
    %document_ids: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "document_ids"})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %x = train.gather %table, %ids axis = 0 : tensor<9x8xf32>, tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?x8xf32, #train.dims<batch, seq, 8>>
  %h = train.reshape %x : tensor<?x?x8xf32, #train.dims<batch, seq, 8>> -> tensor<?x?x1x8xf32, #train.dims<batch, seq, 1, 8>>
  %q = train.transpose %h permutation = [0, 2, 1, 3] : tensor<?x?x1x8xf32, #train.dims<batch, seq, 1, 8>> -> tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>>
  %scores = train.matmul %q, %q transposed : tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>>, tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>> -> tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>
  %number = train.reshape %document_ids : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x1x?xi64, #train.dims<batch, 1, seq>>
  %row = train.broadcast %number axes = [0, 1, 2] : tensor<?x1x?xi64, #train.dims<batch, 1, seq>> -> tensor<?x1x?x?xi64, #train.dims<batch, 1, seq, seq>>
  %column = train.broadcast %number axes = [0, 1, 3] : tensor<?x1x?xi64, #train.dims<batch, 1, seq>> -> tensor<?x1x?x?xi64, #train.dims<batch, 1, seq, seq>>
  %same = train.compare eq %row, %column : tensor<?x1x?x?xi64, #train.dims<batch, 1, seq, seq>> -> tensor<?x1x?x?xi1, #train.dims<batch, 1, seq, seq>>
  %zero = train.full 0 : i64 : tensor<?x?xi64, #train.dims<batch, seq>>
  %test = train.compare ne %attention_mask, %zero : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?xi1, #train.dims<batch, seq>>
  %token = train.reshape %test : tensor<?x?xi1, #train.dims<batch, seq>> -> tensor<?x1x?xi1, #train.dims<batch, 1, seq>>
  %token4 = train.broadcast %token axes = [0, 1, 3] : tensor<?x1x?xi1, #train.dims<batch, 1, seq>> -> tensor<?x1x?x?xi1, #train.dims<batch, 1, seq, seq>>
  %visible = train.and %same, %token4 : tensor<?x1x?x?xi1, #train.dims<batch, 1, seq, seq>>
  %least = train.full -3.40282347E+38 : f32 : tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>
  %masked = train.select %visible, %scores, %least : tensor<?x1x?x?xi1, #train.dims<batch, 1, seq, seq>>, tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>
  %weights = train.softmax %masked axis = 3 : tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>
  %mixed = train.matmul %weights, %q : tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>, tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>> -> tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>>
  %back = train.transpose %mixed permutation = [0, 2, 1, 3] : tensor<?x1x?x8xf32, #train.dims<batch, 1, seq, 8>> -> tensor<?x?x1x8xf32, #train.dims<batch, seq, 1, 8>>
  %rows = train.reshape %back : tensor<?x?x1x8xf32, #train.dims<batch, seq, 1, 8>> -> tensor<?x8xf32, #train.dims<batch*seq, 8>>
  %y = train.matmul %rows, %w : tensor<?x8xf32, #train.dims<batch*seq, 8>>, tensor<8x8xf32> -> tensor<?x8xf32, #train.dims<batch*seq, 8>>
  %padding = train.full 0 : i64 : tensor<?x?xi64, #train.dims<batch, seq>>
  %counts = train.compare ne %attention_mask, %padding : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?xi1, #train.dims<batch, seq>>
  %factor = train.cast %counts : tensor<?x?xi1, #train.dims<batch, seq>> -> tensor<?x?xf32, #train.dims<batch, seq>>
  %factors = train.reshape %factor : tensor<?x?xf32, #train.dims<batch, seq>> -> tensor<?xf32, #train.dims<batch*seq>>
  %all = train.broadcast %factors axes = [0] : tensor<?xf32, #train.dims<batch*seq>> -> tensor<?x8xf32, #train.dims<batch*seq, 8>>
  %z = train.mul %y, %all : tensor<?x8xf32, #train.dims<batch*seq, 8>>
  %loss = train.reduce sum %z axes = [0, 1] : tensor<?x8xf32, #train.dims<batch*seq, 8>> -> tensor<f32>
  return %loss : tensor<f32>
}
