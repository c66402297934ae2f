// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the values of inputs must satisfy.
// RUN: trainc-test-opt %s --pass-pipeline='builtin.module(func.func(test-input-rules))' --verify-diagnostics

!ids = tensor<?xi64, #train.dims<batch>>
!rows = tensor<?x64xf32, #train.dims<batch, 64>>
!shard = tensor<?x64xf32, #train.dims<64*floordiv(world + 1, world), 64>>

train.symbol @batch min 1 input "ids" axis 0
train.symbol @seq min 1 input "x" axis 0
train.symbol @world min 1 {train.run}
train.symbol @rank min 0 {train.run}

// Rows of a parameter are not counted from its end, also where it is converted or gathered first; those of anything else are.
// expected-remark @+3 {{values of ids from 0, below 100}}
// expected-remark @+2 {{values of ids from 0, below 128}}
// expected-remark @+1 {{values of ids from -100, below 100}}
func.func @rows(%table: tensor<100x64xf32> {train.role = "parameter", train.name = "t"},
                %part: !shard {train.role = "parameter", train.name = "p", train.shard = {of = tensor<128x64xf32>, unit = 4096 : i64}},
                %values: tensor<100x64xf32> {train.role = "input", train.name = "v"},
                %ids: !ids {train.role = "input", train.name = "ids"})
    -> (tensor<?x64xbf16, #train.dims<batch, 64>>, !rows, !rows) {
  %narrow = train.cast %table : tensor<100x64xf32> -> tensor<100x64xbf16>
  %0 = train.gather %narrow, %ids axis = 0 : tensor<100x64xbf16>, !ids -> tensor<?x64xbf16, #train.dims<batch, 64>>
  %held = train.barrier %part : !shard
  %whole = train.all_gather %held units = [4096] : (!shard) -> tensor<128x64xf32>
  %1 = train.gather %whole, %ids axis = 0 : tensor<128x64xf32>, !ids -> !rows
  %2 = train.gather %values, %ids axis = 0 : tensor<100x64xf32>, !ids -> !rows
  return %0, %1, %2 : tensor<?x64xbf16, #train.dims<batch, 64>>, !rows, !rows
}

// A rule is about the elements that are read, as far as these are a part of each axis; of others the kernel knows.
!pairs = tensor<?x3xi64, #train.dims<batch, 3>>
// Labels are moved by a pad and a slice.
// expected-remark @+4 {{values of ids at [1, 0] to [batch, 3] from 0, below 6}}
// expected-remark @+3 {{values of ids at [0, 1] to [batch, 2] from -5, below 5}}
// expected-remark @+2 {{values of ids at [0, 0] to [batch - 1, 3] from -7, below 7}}
// expected-remark @+1 {{values of ids at [0, 2] to [batch, 3] from 0, below 4}}
func.func @parts(%t: tensor<5xf32>, %u: tensor<7xf32>, %ids: !pairs {train.role = "input", train.name = "ids"}) {
  %0 = train.slice %ids starts = <0, 1> steps = [1, 1] : !pairs -> tensor<?x1xi64, #train.dims<batch, 1>>
  %1 = train.reshape %0 : tensor<?x1xi64, #train.dims<batch, 1>> -> !ids
  %2 = train.gather %t, %1 axis = 0 : tensor<5xf32>, !ids -> tensor<?xf32, #train.dims<batch>>
  %3 = train.slice %ids starts = <0, 0> steps = [1, 1] : !pairs -> tensor<?x3xi64, #train.dims<batch - 1, 3>>
  %4 = train.gather %u, %3 axis = 0 : tensor<7xf32>, tensor<?x3xi64, #train.dims<batch - 1, 3>> -> tensor<?x3xf32, #train.dims<batch - 1, 3>>
  %5:2 = train.split %ids axis = 1 : (!pairs) -> (tensor<?x2xi64, #train.dims<batch, 2>>, tensor<?x1xi64, #train.dims<batch, 1>>)
  %6 = train.within %5#1 to <3> : tensor<?x1xi64, #train.dims<batch, 1>>
  %7 = train.slice %ids starts = <0, 0> steps = [1, 2] : !pairs -> tensor<?x2xi64, #train.dims<batch, 2>>
  %8 = train.gather %t, %7 axis = 0 : tensor<5xf32>, tensor<?x2xi64, #train.dims<batch, 2>> -> tensor<?x2xf32, #train.dims<batch, 2>>
  %9 = train.transpose %ids permutation = [1, 0] : !pairs -> tensor<3x?xi64, #train.dims<3, batch>>
  %10 = train.slice %9 starts = <0, 0> steps = [1, 1] : tensor<3x?xi64, #train.dims<3, batch>> -> tensor<1x?xi64, #train.dims<1, batch>>
  %11 = train.gather %t, %10 axis = 0 : tensor<5xf32>, tensor<1x?xi64, #train.dims<1, batch>> -> tensor<1x?xf32, #train.dims<1, batch>>
  %fill = train.pad %ids value = -100 : i64 low = <0, 0> : !pairs -> tensor<?x3xi64, #train.dims<batch + 1, 3>>
  %12 = train.slice %fill starts = <1, 0> steps = [1, 1] : tensor<?x3xi64, #train.dims<batch + 1, 3>> -> !pairs
  %13 = train.within %12 to <5> : !pairs
  return
}

// Scatters say it of their indices; of unique ones a negative one means nowhere.
// expected-remark @+2 {{values of ids from -9, below 9}}
// expected-remark @+1 {{values of at from -3, below 3}}
func.func @scatters(%x: !rows, %ids: !ids {train.role = "input", train.name = "ids"}, %y: tensor<2x4xf32>,
                    %at: tensor<2x4xi32> {train.role = "input", train.name = "at"}) {
  %0 = train.scatter_add %ids, %x axis = 0 : !ids, !rows -> tensor<9x64xf32>
  %1 = train.scatter_add %ids, %x axis = 0 unique : !ids, !rows -> tensor<8x64xf32>
  %2 = train.scatter_elements_add %at, %y axis = 0 : tensor<2x4xi32>, tensor<2x4xf32> -> tensor<3x4xf32>
  return
}

// The arguments of a loop's body are not the function's: %step is no input "x", and %at is none of three.
func.func @loop(%x: tensor<?xi64, #train.dims<seq>> {train.role = "input", train.name = "x"},
                %table: tensor<100x4xf32> {train.role = "parameter", train.name = "t"},
                %h: tensor<4xf32> {train.role = "input", train.name = "h"}) -> tensor<4xf32> {
  %steps = train.iota 0 : tensor<?xi64, #train.dims<seq>>
  %0 = train.loop(%h) scanned(%steps, %x, %x) invariant(%table) steps <seq> : (tensor<4xf32>, tensor<?xi64, #train.dims<seq>>, tensor<?xi64, #train.dims<seq>>, tensor<?xi64, #train.dims<seq>>, tensor<100x4xf32>) -> tensor<4xf32> {
  ^bb0(%state: tensor<4xf32>, %number: tensor<i64>, %step: tensor<i64>, %at: tensor<i64>, %rows: tensor<100x4xf32>):
    %1 = train.gather %rows, %number axis = 0 : tensor<100x4xf32>, tensor<i64> -> tensor<4xf32>
    %2 = train.gather %rows, %step axis = 0 : tensor<100x4xf32>, tensor<i64> -> tensor<4xf32>
    %3 = train.gather %rows, %at axis = 0 : tensor<100x4xf32>, tensor<i64> -> tensor<4xf32>
    %4 = train.add %1, %2 : tensor<4xf32>
    %5 = train.add %4, %3 : tensor<4xf32>
    train.loop_yield %5 : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}
