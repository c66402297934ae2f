// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: split-file %s %t
// RUN: trainc-opt %t/raised.mlir --eliminate-padding -o %t/counted.mlir
// RUN: trainc-opt %t/counted.mlir --raise-attention=sequences --canonicalize | FileCheck %s
// RUN: trainc-opt %t/raised.mlir --raise-attention=sequences | FileCheck %s --check-prefix=UNCOUNTED
// RUN: trainc-opt %t/other.mlir --eliminate-padding --raise-attention=sequences | FileCheck %s --check-prefix=OTHER

// What `eliminate-padding` has counted is what the op runs over; the order of positions is that of columns.
// CHECK: train.symbol @sequences_at min 8 divisor 8 input "at" differs 0 counts {{ *}}sequences
// CHECK: train.symbol @longest_sequence_at min 8 divisor 8 input "at" differs 0 counts {{ *}}longest_sequence
// CHECK-LABEL: func.func @forward(
// CHECK: %[[LENGTHS:.*]] = train.scatter_add
// CHECK: %[[SUM:.*]] = train.cumsum
// CHECK: %[[OFFSETS:.*]] = train.concat %{{.*}}, %[[SUM]] axis = 0
// CHECK: train.attention %{{.*}} segments %[[OFFSETS]] longest <longest_sequence_at> causal {{.*}} : (tensor<1x2x?x8xf32, #train.dims<1, 2, batch*seq, 8>>
// CHECK-NOT: train.softmax

// Without counts it stays in parts.
// UNCOUNTED-NOT: train.attention
// UNCOUNTED: train.softmax

// Numbers of something else: steps of two.
// OTHER-NOT: sequences
// OTHER-NOT: train.attention
// OTHER: train.softmax

//--- raised.mlir
module {
  train.symbol @batch min 1 input "at" axis 0
  train.symbol @seq min 1 input "at" axis 1
  func.func @forward(%q: tensor<?x2x?x8xf32, #train.dims<batch, 2, seq, 8>> {train.role = "input", train.name = "q"},
                     %at: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "at"})
      -> (tensor<?x2x?x8xf32, #train.dims<batch, 2, seq, 8>> {train.role = "output", train.name = "y"}) {
    %first = train.slice %at starts = <0, 0> steps = [1, 1] : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x1xi64, #train.dims<batch, 1>>
    %one1 = train.full 1 : i64 : tensor<?x1xi64, #train.dims<batch, 1>>
    %dummy = train.sub %first, %one1 : tensor<?x1xi64, #train.dims<batch, 1>>
    %joined = train.concat %dummy, %at axis = 1 : (tensor<?x1xi64, #train.dims<batch, 1>>, tensor<?x?xi64, #train.dims<batch, seq>>) -> tensor<?x?xi64, #train.dims<batch, seq + 1>>
    %before = train.slice %joined starts = <0, 0> steps = [1, 1] : tensor<?x?xi64, #train.dims<batch, seq + 1>> -> tensor<?x?xi64, #train.dims<batch, seq>>
    %here = train.slice %joined starts = <0, 1> steps = [1, 1] : tensor<?x?xi64, #train.dims<batch, seq + 1>> -> tensor<?x?xi64, #train.dims<batch, seq>>
    %difference = train.sub %here, %before : tensor<?x?xi64, #train.dims<batch, seq>>
    %one = train.full 1 : i64 : tensor<?x?xi64, #train.dims<batch, seq>>
    %begins = train.compare ne %difference, %one : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?xi1, #train.dims<batch, seq>>
    %counted = train.cast %begins : tensor<?x?xi1, #train.dims<batch, seq>> -> tensor<?x?xi64, #train.dims<batch, seq>>
    %number = train.cumsum %counted axis = 1 : tensor<?x?xi64, #train.dims<batch, seq>>
    %row = train.broadcast %number axes = [0, 2] : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x1x?x?xi64, #train.dims<batch, 1, seq, seq>>
    %column = train.broadcast %number axes = [0, 3] : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x1x?x?xi64, #train.dims<batch, 1, seq, seq>>
    %same = train.compare eq %row, %column : tensor<?x1x?x?xi64, #train.dims<batch, 1, seq, seq>> -> tensor<?x1x?x?xi1, #train.dims<batch, 1, seq, seq>>
    %atrow = train.broadcast %at axes = [0, 2] : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x1x?x?xi64, #train.dims<batch, 1, seq, seq>>
    %atcolumn = train.broadcast %at axes = [0, 3] : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x1x?x?xi64, #train.dims<batch, 1, seq, seq>>
    %earlier = train.compare le %atcolumn, %atrow : tensor<?x1x?x?xi64, #train.dims<batch, 1, seq, seq>> -> tensor<?x1x?x?xi1, #train.dims<batch, 1, seq, seq>>
    %visible = train.and %same, %earlier : tensor<?x1x?x?xi1, #train.dims<batch, 1, seq, seq>>
    %none = train.full 0.0 : f32 : tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>
    %least = train.full -3.40282347E+38 : f32 : tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>
    %mask = train.select %visible, %none, %least : tensor<?x1x?x?xi1, #train.dims<batch, 1, seq, seq>>, tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>
    %flat = train.reshape %mask : tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>> -> tensor<?x?x?xf32, #train.dims<batch, seq, seq>>
    %all = train.broadcast %flat axes = [0, 2, 3] : tensor<?x?x?xf32, #train.dims<batch, seq, seq>> -> tensor<?x2x?x?xf32, #train.dims<batch, 2, seq, seq>>
    %scores = train.matmul %q, %q transposed : tensor<?x2x?x8xf32, #train.dims<batch, 2, seq, 8>>, tensor<?x2x?x8xf32, #train.dims<batch, 2, seq, 8>> -> tensor<?x2x?x?xf32, #train.dims<batch, 2, seq, seq>>
    %masked = train.add %scores, %all : tensor<?x2x?x?xf32, #train.dims<batch, 2, seq, seq>>
    %weights = train.softmax %masked axis = 3 : tensor<?x2x?x?xf32, #train.dims<batch, 2, seq, seq>>
    %y = train.matmul %weights, %q : tensor<?x2x?x?xf32, #train.dims<batch, 2, seq, seq>>, tensor<?x2x?x8xf32, #train.dims<batch, 2, seq, 8>> -> tensor<?x2x?x8xf32, #train.dims<batch, 2, seq, 8>>
    return %y : tensor<?x2x?x8xf32, #train.dims<batch, 2, seq, 8>>
  }
}

//--- other.mlir
module {
  train.symbol @batch min 1 input "at" axis 0
  train.symbol @seq min 1 input "at" axis 1
  func.func @forward(%q: tensor<?x2x?x8xf32, #train.dims<batch, 2, seq, 8>> {train.role = "input", train.name = "q"},
                     %at: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "at"})
      -> (tensor<?x2x?x8xf32, #train.dims<batch, 2, seq, 8>> {train.role = "output", train.name = "y"}) {
    %first = train.slice %at starts = <0, 0> steps = [1, 1] : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x1xi64, #train.dims<batch, 1>>
    %one1 = train.full 1 : i64 : tensor<?x1xi64, #train.dims<batch, 1>>
    %dummy = train.sub %first, %one1 : tensor<?x1xi64, #train.dims<batch, 1>>
    %joined = train.concat %dummy, %at axis = 1 : (tensor<?x1xi64, #train.dims<batch, 1>>, tensor<?x?xi64, #train.dims<batch, seq>>) -> tensor<?x?xi64, #train.dims<batch, seq + 1>>
    %before = train.slice %joined starts = <0, 0> steps = [1, 1] : tensor<?x?xi64, #train.dims<batch, seq + 1>> -> tensor<?x?xi64, #train.dims<batch, seq>>
    %here = train.slice %joined starts = <0, 1> steps = [1, 1] : tensor<?x?xi64, #train.dims<batch, seq + 1>> -> tensor<?x?xi64, #train.dims<batch, seq>>
    %difference = train.sub %here, %before : tensor<?x?xi64, #train.dims<batch, seq>>
    %one = train.full 2 : i64 : tensor<?x?xi64, #train.dims<batch, seq>>
    %begins = train.compare ne %difference, %one : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?xi1, #train.dims<batch, seq>>
    %counted = train.cast %begins : tensor<?x?xi1, #train.dims<batch, seq>> -> tensor<?x?xi64, #train.dims<batch, seq>>
    %number = train.cumsum %counted axis = 1 : tensor<?x?xi64, #train.dims<batch, seq>>
    %row = train.broadcast %number axes = [0, 2] : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x1x?x?xi64, #train.dims<batch, 1, seq, seq>>
    %column = train.broadcast %number axes = [0, 3] : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x1x?x?xi64, #train.dims<batch, 1, seq, seq>>
    %same = train.compare eq %row, %column : tensor<?x1x?x?xi64, #train.dims<batch, 1, seq, seq>> -> tensor<?x1x?x?xi1, #train.dims<batch, 1, seq, seq>>
    %atrow = train.broadcast %at axes = [0, 2] : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x1x?x?xi64, #train.dims<batch, 1, seq, seq>>
    %atcolumn = train.broadcast %at axes = [0, 3] : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x1x?x?xi64, #train.dims<batch, 1, seq, seq>>
    %earlier = train.compare le %atcolumn, %atrow : tensor<?x1x?x?xi64, #train.dims<batch, 1, seq, seq>> -> tensor<?x1x?x?xi1, #train.dims<batch, 1, seq, seq>>
    %visible = train.and %same, %earlier : tensor<?x1x?x?xi1, #train.dims<batch, 1, seq, seq>>
    %none = train.full 0.0 : f32 : tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>
    %least = train.full -3.40282347E+38 : f32 : tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>
    %mask = train.select %visible, %none, %least : tensor<?x1x?x?xi1, #train.dims<batch, 1, seq, seq>>, tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>>
    %flat = train.reshape %mask : tensor<?x1x?x?xf32, #train.dims<batch, 1, seq, seq>> -> tensor<?x?x?xf32, #train.dims<batch, seq, seq>>
    %all = train.broadcast %flat axes = [0, 2, 3] : tensor<?x?x?xf32, #train.dims<batch, seq, seq>> -> tensor<?x2x?x?xf32, #train.dims<batch, 2, seq, seq>>
    %scores = train.matmul %q, %q transposed : tensor<?x2x?x8xf32, #train.dims<batch, 2, seq, 8>>, tensor<?x2x?x8xf32, #train.dims<batch, 2, seq, 8>> -> tensor<?x2x?x?xf32, #train.dims<batch, 2, seq, seq>>
    %masked = train.add %scores, %all : tensor<?x2x?x?xf32, #train.dims<batch, 2, seq, seq>>
    %weights = train.softmax %masked axis = 3 : tensor<?x2x?x?xf32, #train.dims<batch, 2, seq, seq>>
    %y = train.matmul %weights, %q : tensor<?x2x?x?xf32, #train.dims<batch, 2, seq, seq>>, tensor<?x2x?x8xf32, #train.dims<batch, 2, seq, 8>> -> tensor<?x2x?x8xf32, #train.dims<batch, 2, seq, 8>>
    return %y : tensor<?x2x?x8xf32, #train.dims<batch, 2, seq, 8>>
  }
}
