// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the values of inputs must satisfy.
// RUN: trainc-test-opt %s --pass-pipeline='builtin.module(func.func(test-input-rules))' --verify-diagnostics

!ids = tensor<?xi64, #train.dims<batch>>
!rows = tensor<?x64xf32, #train.dims<batch, 64>>
!shard = tensor<?x64xf32, #train.dims<64*floordiv(world + 1, world), 64>>

train.symbol @batch min 1 input "ids" axis 0
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
