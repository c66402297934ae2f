// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attention over segments of a model whose rows are [rows, heads, columns]: heads and rows are
// transposed views, and so are results that are read through a transpose.
// RUN: trainc-test-opt %s --split-input-file --verify-diagnostics --test-train-to-plan --mlir-print-op-generic | FileCheck %s

// CHECK-LABEL: sym_name = "step"
// CHECK: %[[QKV:.*]] = "plan.buffer"{{.*}}name = "x"
// CHECK: %[[OFFSETS:.*]] = "plan.buffer"{{.*}}name = "offsets"
// CHECK: %[[POSITIONS:.*]] = "plan.buffer"{{.*}}name = "positions"
// CHECK: %[[SEED:.*]] = "plan.buffer"{{.*}}name = "seed"
// CHECK: name = "dq"
// CHECK: %[[O:.*]] = "plan.buffer"
// CHECK: %[[STATS:.*]] = "plan.buffer"
// CHECK: "plan.attention"(%[[QKV]], %[[QKV]], %[[QKV]], %[[O]], %[[STATS]], %[[SEED]], %[[OFFSETS]], %[[POSITIONS]])
// CHECK-SAME: causal
// CHECK-SAME: k_strides = #train.dims<64*rows, 16, 64>, o_strides = #train.dims<64*rows, 16, 64>
// CHECK-SAME: offsets = #train.dims<0, 0, 0, 0, 0, 0, 0, 0>
// CHECK-SAME: segment_sizes = #train.dims<batch, longest>
// CHECK-SAME: sizes = #train.dims<1, 4, 4, rows, rows, 16, 16>
// CHECK: "plan.attention"(%[[QKV]], %[[QKV]], %[[QKV]], %[[O]], %[[STATS]], %[[SEED]], %[[O]], %{{.*}}, %{{.*}}, %{{.*}}, %[[OFFSETS]], %[[POSITIONS]])
// CHECK-SAME: segment_sizes = #train.dims<batch, longest>
func.func @step(
    %x: tensor<1x?x4x16xf32, #train.dims<1, rows, 4, 16>> {train.role = "input", train.name = "x"},
    %offsets: tensor<?xi32, #train.dims<batch + 1>> {train.role = "input", train.name = "offsets"},
    %positions: tensor<2x?xi32, #train.dims<2, rows>> {train.role = "input", train.name = "positions"},
    %seed: tensor<2xi64> {train.role = "input", train.name = "seed"})
    -> (tensor<1x?x4x16xf32, #train.dims<1, rows, 4, 16>> {train.role = "output", train.name = "o"},
        tensor<1x?x4x16xf32, #train.dims<1, rows, 4, 16>> {train.role = "output", train.name = "dq"}) {
  %q = train.transpose %x permutation = [0, 2, 1, 3] : tensor<1x?x4x16xf32, #train.dims<1, rows, 4, 16>> -> tensor<1x4x?x16xf32, #train.dims<1, 4, rows, 16>>
  %o, %stats = train.attention %q, %q, %q seed %seed segments %offsets longest <longest> positions %positions causal {scale = 0.25 : f64, dropout = 0.1 : f64}
    : (tensor<1x4x?x16xf32, #train.dims<1, 4, rows, 16>>, tensor<1x4x?x16xf32, #train.dims<1, 4, rows, 16>>, tensor<1x4x?x16xf32, #train.dims<1, 4, rows, 16>>, tensor<2xi64>, tensor<?xi32, #train.dims<batch + 1>>, tensor<2x?xi32, #train.dims<2, rows>>)
    -> (tensor<1x4x?x16xf32, #train.dims<1, 4, rows, 16>>, tensor<1x4x?xf32, #train.dims<1, 4, rows>>)
  %dq, %dk, %dv = train.attention_grad %q, %q, %q, %o, %stats, %o seed %seed segments %offsets longest <longest> positions %positions causal {scale = 0.25 : f64, dropout = 0.1 : f64}
    : (tensor<1x4x?x16xf32, #train.dims<1, 4, rows, 16>>, tensor<1x4x?x16xf32, #train.dims<1, 4, rows, 16>>, tensor<1x4x?x16xf32, #train.dims<1, 4, rows, 16>>, tensor<1x4x?x16xf32, #train.dims<1, 4, rows, 16>>, tensor<1x4x?xf32, #train.dims<1, 4, rows>>, tensor<1x4x?x16xf32, #train.dims<1, 4, rows, 16>>, tensor<2xi64>, tensor<?xi32, #train.dims<batch + 1>>, tensor<2x?xi32, #train.dims<2, rows>>)
    -> (tensor<1x4x?x16xf32, #train.dims<1, 4, rows, 16>>, tensor<1x4x?x16xf32, #train.dims<1, 4, rows, 16>>, tensor<1x4x?x16xf32, #train.dims<1, 4, rows, 16>>)
  %ot = train.transpose %o permutation = [0, 2, 1, 3] : tensor<1x4x?x16xf32, #train.dims<1, 4, rows, 16>> -> tensor<1x?x4x16xf32, #train.dims<1, rows, 4, 16>>
  %dqt = train.transpose %dq permutation = [0, 2, 1, 3] : tensor<1x4x?x16xf32, #train.dims<1, 4, rows, 16>> -> tensor<1x?x4x16xf32, #train.dims<1, rows, 4, 16>>
  return %ot, %dqt : tensor<1x?x4x16xf32, #train.dims<1, rows, 4, 16>>, tensor<1x?x4x16xf32, #train.dims<1, rows, 4, 16>>
}

// -----

func.func @stats(
    %q: tensor<1x4x8x16xf32> {train.role = "input", train.name = "q"},
    %offsets: tensor<3xi32> {train.role = "input", train.name = "offsets"})
    -> (tensor<1x4x8xf32> {train.role = "output", train.name = "stats"}) {
  %o, %stats = train.attention %q, %q, %q segments %offsets longest <8> {scale = 0.25 : f64, dropout = 0.0 : f64} : (tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>, tensor<3xi32>) -> (tensor<1x4x8x16xf32>, tensor<1x4x8xf32>)
  // expected-error@+1 {{reads the stats of an attention over segments, which only its gradient may read}}
  return %stats : tensor<1x4x8xf32>
}

// -----

// CHECK-LABEL: sym_name = "window"
// CHECK: "plan.attention"
// CHECK-SAME: after = 2 : i64, before = 3 : i64
func.func @window(
    %q: tensor<2x4x8x16xbf16> {train.role = "input", train.name = "q"})
    -> (tensor<2x4x8x16xbf16> {train.role = "output", train.name = "o"}) {
  %o, %stats = train.attention %q, %q, %q {before = 3 : i64, after = 2 : i64, scale = 0.25 : f64, dropout = 0.0 : f64} : (tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>) -> (tensor<2x4x8x16xbf16>, tensor<2x4x8xf32>)
  return %o : tensor<2x4x8x16xbf16>
}

// -----

// The gradient of a bias is the last operand, of the bias's type.
// CHECK-LABEL: sym_name = "bias"
// CHECK: %[[DBIAS:.*]] = "plan.buffer"{{.*}}name = "dbias"
// CHECK: "plan.attention"({{.*}}, %[[DBIAS]]) <{
// CHECK-SAME: bias_strides = #train.dims<0, 64, 8, 1>, bias_type = bf16
// CHECK-SAME: offsets = #train.dims<0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>
func.func @bias(
    %q: tensor<2x4x8x16xbf16> {train.role = "input", train.name = "q"},
    %stats: tensor<2x4x8xf32> {train.role = "input", train.name = "stats"},
    %bias: tensor<1x4x8x8xbf16> {train.role = "input", train.name = "bias"})
    -> (tensor<1x4x8x8xbf16> {train.role = "output", train.name = "dbias"}) {
  %dq, %dk, %dv, %dbias = train.attention_grad %q, %q, %q, %q, %stats, %q bias %bias {scale = 0.25 : f64, dropout = 0.0 : f64} : (tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8xf32>, tensor<2x4x8x16xbf16>, tensor<1x4x8x8xbf16>) -> (tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<1x4x8x8xbf16>)
  return %dbias : tensor<1x4x8x8xbf16>
}

// -----

// What nothing emits is named.
func.func @call(%x: tensor<4xf32> {train.role = "input", train.name = "x"})
    -> (tensor<4xf32> {train.role = "output", train.name = "y"}) {
  // expected-error@+1 {{op 'testdialect.call' is a library call that nothing emits}}
  %y = testdialect.call %x : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func @silent(%x: tensor<4xf32> {train.role = "input", train.name = "x"})
    -> (tensor<4xf32> {train.role = "output", train.name = "y"}) {
  // expected-error@+1 {{op 'testdialect.silent' gives result 0 no place}}
  %y = testdialect.silent %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
