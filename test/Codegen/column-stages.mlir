// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sums of columns on the CPU: parts of many rows are work items, and a second launch adds up what they leave.
// RUN: trainc-test-opt %s --split-input-file --test-codegen --verify-diagnostics

// However few columns there are. The mean is made once, behind the sums; the second pass reads it.
func.func @norm(%x: tensor<?x64x24xf32, #train.dims<batch, 64, 24>>) {
  // expected-remark @below {{kernel_0_column_pass0 work floordiv(batch + 3, 4) grain 2 scratch 512 kernel_0_column_totals0 work 1 grain 2 scratch 0 kernel_0_column_pass1 work floordiv(batch + 3, 4) grain 2 scratch 0 temporary}}
  %0 = train.fusion(%x) : (tensor<?x64x24xf32, #train.dims<batch, 64, 24>>) -> tensor<?x64x24xf32, #train.dims<batch, 64, 24>> {
  ^bb0(%a: tensor<?x64x24xf32, #train.dims<batch, 64, 24>>):
    %1 = train.reduce sum %a axes = [0, 1] : tensor<?x64x24xf32, #train.dims<batch, 64, 24>> -> tensor<24xf32>
    %2 = train.broadcast %1 axes = [2] : tensor<24xf32> -> tensor<?x64x24xf32, #train.dims<batch, 64, 24>>
    %3 = train.sub %a, %2 : tensor<?x64x24xf32, #train.dims<batch, 64, 24>>
    train.yield %3 : tensor<?x64x24xf32, #train.dims<batch, 64, 24>>
  }
  return
}

// -----

// Few rows, and sums for each of many positions, are one launch.
func.func @few(%x: tensor<?x16x24xf32, #train.dims<batch, 16, 24>>, %y: tensor<?x2048x24xf32, #train.dims<batch, 2048, 24>>) {
  // expected-remark @below {{kernel_0_column dims [batch] work 1 }}
  %0 = train.fusion(%x) : (tensor<?x16x24xf32, #train.dims<batch, 16, 24>>) -> tensor<24xf32> {
  ^bb0(%a: tensor<?x16x24xf32, #train.dims<batch, 16, 24>>):
    %1 = train.reduce sum %a axes = [0, 1] : tensor<?x16x24xf32, #train.dims<batch, 16, 24>> -> tensor<24xf32>
    train.yield %1 : tensor<24xf32>
  }
  // expected-remark @below {{kernel_1_column dims [batch] work batch }}
  %2 = train.fusion(%y) : (tensor<?x2048x24xf32, #train.dims<batch, 2048, 24>>) -> tensor<?x24xf32, #train.dims<batch, 24>> {
  ^bb0(%a: tensor<?x2048x24xf32, #train.dims<batch, 2048, 24>>):
    %1 = train.reduce sum %a axes = [1] : tensor<?x2048x24xf32, #train.dims<batch, 2048, 24>> -> tensor<?x24xf32, #train.dims<batch, 24>>
    train.yield %1 : tensor<?x24xf32, #train.dims<batch, 24>>
  }
  return
}
