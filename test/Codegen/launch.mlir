// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which template a fusion gets, and how its kernel is launched.
// RUN: trainc-test-opt %s --split-input-file --test-codegen --verify-diagnostics

// Flat: one axis whatever the rank. Every operand may be updated in place.
func.func @flat(%x: tensor<?x?x64xf32, #train.dims<batch, seq, 64>>, %y: tensor<?x?x64xf32, #train.dims<batch, seq, 64>>) {
  // expected-remark @below {{kernel_0_pointwise dims [batch, seq] work floordiv(batch*seq + 31, 32) grain 9 scratch 0 in place [0->0, 1->0]}}
  %0 = train.fusion(%x, %y) : (tensor<?x?x64xf32, #train.dims<batch, seq, 64>>, tensor<?x?x64xf32, #train.dims<batch, seq, 64>>) -> tensor<?x?x64xf32, #train.dims<batch, seq, 64>> {
  ^bb0(%a: tensor<?x?x64xf32, #train.dims<batch, seq, 64>>, %b: tensor<?x?x64xf32, #train.dims<batch, seq, 64>>):
    %1 = train.add %a, %b : tensor<?x?x64xf32, #train.dims<batch, seq, 64>>
    %2 = train.mul %1, %b : tensor<?x?x64xf32, #train.dims<batch, seq, 64>>
    train.yield %2 : tensor<?x?x64xf32, #train.dims<batch, seq, 64>>
  }
  return
}

// -----

// A row of the softmax keeps e^(x - max) in scratch between the passes; equal structure, other symbols: the same kernel.
func.func @softmax(%x: tensor<?x128xf32, #train.dims<rows, 128>>, %y: tensor<?x128xf32, #train.dims<lines, 128>>) {
  // expected-remark @below {{kernel_0_row dims [rows] work rows grain 85 scratch 512 in place [0->0]}}
  %0 = train.fusion(%x) : (tensor<?x128xf32, #train.dims<rows, 128>>) -> tensor<?x128xf32, #train.dims<rows, 128>> {
  ^bb0(%a: tensor<?x128xf32, #train.dims<rows, 128>>):
    %1 = train.reduce max %a axes = [1] : tensor<?x128xf32, #train.dims<rows, 128>> -> tensor<?xf32, #train.dims<rows>>
    %2 = train.broadcast %1 axes = [0] : tensor<?xf32, #train.dims<rows>> -> tensor<?x128xf32, #train.dims<rows, 128>>
    %3 = train.sub %a, %2 : tensor<?x128xf32, #train.dims<rows, 128>>
    %4 = train.exp %3 : tensor<?x128xf32, #train.dims<rows, 128>>
    %5 = train.reduce sum %4 axes = [1] : tensor<?x128xf32, #train.dims<rows, 128>> -> tensor<?xf32, #train.dims<rows>>
    %6 = train.broadcast %5 axes = [0] : tensor<?xf32, #train.dims<rows>> -> tensor<?x128xf32, #train.dims<rows, 128>>
    %7 = train.div %4, %6 : tensor<?x128xf32, #train.dims<rows, 128>>
    train.yield %7 : tensor<?x128xf32, #train.dims<rows, 128>>
  }
  // expected-remark @below {{kernel_0_row dims [lines] work lines}}
  %8 = train.fusion(%y) : (tensor<?x128xf32, #train.dims<lines, 128>>) -> tensor<?x128xf32, #train.dims<lines, 128>> {
  ^bb0(%a: tensor<?x128xf32, #train.dims<lines, 128>>):
    %1 = train.reduce max %a axes = [1] : tensor<?x128xf32, #train.dims<lines, 128>> -> tensor<?xf32, #train.dims<lines>>
    %2 = train.broadcast %1 axes = [0] : tensor<?xf32, #train.dims<lines>> -> tensor<?x128xf32, #train.dims<lines, 128>>
    %3 = train.sub %a, %2 : tensor<?x128xf32, #train.dims<lines, 128>>
    %4 = train.exp %3 : tensor<?x128xf32, #train.dims<lines, 128>>
    %5 = train.reduce sum %4 axes = [1] : tensor<?x128xf32, #train.dims<lines, 128>> -> tensor<?xf32, #train.dims<lines>>
    %6 = train.broadcast %5 axes = [0] : tensor<?xf32, #train.dims<lines>> -> tensor<?x128xf32, #train.dims<lines, 128>>
    %7 = train.div %4, %6 : tensor<?x128xf32, #train.dims<lines, 128>>
    train.yield %7 : tensor<?x128xf32, #train.dims<lines, 128>>
  }
  return
}

// -----

// The innermost axis stays: blocks of 64 columns.
func.func @columns(%x: tensor<?x384xf32, #train.dims<rows, 384>>) {
  // expected-remark @below {{kernel_0_column dims [rows] work 6 grain 1 scratch 2560 in place []}}
  %0 = train.fusion(%x) : (tensor<?x384xf32, #train.dims<rows, 384>>) -> tensor<384xf32> {
  ^bb0(%a: tensor<?x384xf32, #train.dims<rows, 384>>):
    %1 = train.reduce sum %a axes = [0] : tensor<?x384xf32, #train.dims<rows, 384>> -> tensor<384xf32>
    train.yield %1 : tensor<384xf32>
  }
  return
}

// -----

func.func @scatter(%i: tensor<?xi64, #train.dims<n>>, %u: tensor<?x384xf32, #train.dims<n, 384>>) {
  // expected-remark @below {{kernel_0_scatter dims [n] work 6 grain 3 scratch 8*n + 800 in place []}}
  %0 = train.fusion(%i, %u) : (tensor<?xi64, #train.dims<n>>, tensor<?x384xf32, #train.dims<n, 384>>) -> tensor<100x384xf32> {
  ^bb0(%a: tensor<?xi64, #train.dims<n>>, %b: tensor<?x384xf32, #train.dims<n, 384>>):
    %1 = train.scatter_add %a, %b axis = 0 : tensor<?xi64, #train.dims<n>>, tensor<?x384xf32, #train.dims<n, 384>> -> tensor<100x384xf32>
    train.yield %1 : tensor<100x384xf32>
  }
  return
}

// -----

// What the rows' sums are added to may be where the result is; indices and updates may not.
func.func @scatter_into(%i: tensor<100xi64>, %u: tensor<100x384xf32>, %x: tensor<100x384xf32>) {
  // expected-remark @below {{kernel_0_scatter dims [] work 6 grain 2 scratch 1600 in place [2->0]}}
  %0 = train.fusion(%i, %u, %x) : (tensor<100xi64>, tensor<100x384xf32>, tensor<100x384xf32>) -> tensor<100x384xf32> {
  ^bb0(%a: tensor<100xi64>, %b: tensor<100x384xf32>, %c: tensor<100x384xf32>):
    %1 = train.scatter_add %a, %b axis = 0 : tensor<100xi64>, tensor<100x384xf32> -> tensor<100x384xf32>
    %2 = train.add %c, %1 : tensor<100x384xf32>
    train.yield %2 : tensor<100x384xf32>
  }
  return
}
