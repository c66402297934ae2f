// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --split-input-file --verify-diagnostics

// expected-note@+1 {{the operand is argument 0 of @reduce_axis, of type 'tensor<4x8xf32>'}}
func.func @reduce_axis(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{'train.reduce' op expected axes below the rank 2, got 2}}
  %0 = train.reduce sum %x axes = [2] : tensor<4x8xf32> -> tensor<4xf32>
  return
}

// -----

func.func @reduce_order(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{expected the axes in ascending order, each once}}
  %0 = train.reduce sum %x axes = [1, 0] : tensor<4x8xf32> -> tensor<f32>
  return
}

// -----

// expected-note@+1 {{the operand is argument 0 of @reduce_result, of type 'tensor<4x?xf32, #train.dims<4, n>>'}}
func.func @reduce_result(%x: tensor<4x?xf32, #train.dims<4, n>>) {
  // expected-error@+1 {{expected a result of type 'tensor<?xf32, #train.dims<n>>', got 'tensor<4xf32>'}}
  %0 = train.reduce sum %x axes = [0] : tensor<4x?xf32, #train.dims<4, n>> -> tensor<4xf32>
  return
}

// -----

// expected-note@+1 {{the operand is argument 0 of @reduce_booleans, of type 'tensor<4xi1>'}}
func.func @reduce_booleans(%x: tensor<4xi1>) {
  // expected-error@+1 {{expected numbers for sum; booleans have max (any) and min (all)}}
  %0 = train.reduce sum %x axes = [0] : tensor<4xi1> -> tensor<i1>
  return
}

// -----

// expected-note@+2 {{lhs is argument 0 of @matmul_rank, of type 'tensor<4xf32>'}}
// expected-note@+1 {{rhs is argument 1 of @matmul_rank, of type 'tensor<4xf32>'}}
func.func @matmul_rank(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // expected-error@+1 {{expected operands of one rank of at least 2, got 1 and 1}}
  %0 = train.matmul %x, %y : tensor<4xf32>, tensor<4xf32> -> tensor<f32>
  return
}

// -----

// expected-note@+2 {{lhs is argument 0 of @matmul_batch, of type 'tensor<2x4x4xf32>'}}
// expected-note@+1 {{rhs is argument 1 of @matmul_batch, of type 'tensor<?x4x4xf32, #train.dims<n, 4, 4>>'}}
func.func @matmul_batch(%x: tensor<2x4x4xf32>, %y: tensor<?x4x4xf32, #train.dims<n, 4, 4>>) {
  // expected-error@+1 {{expected equal batch axes, got 2 and n on axis 0}}
  %0 = train.matmul %x, %y : tensor<2x4x4xf32>, tensor<?x4x4xf32, #train.dims<n, 4, 4>> -> tensor<2x4x4xf32>
  return
}

// -----

// expected-note@+2 {{lhs is argument 0 of @matmul_inner, of type 'tensor<4x3xf32>'}}
// expected-note@+1 {{rhs is argument 1 of @matmul_inner, of type 'tensor<4x3xf32>'}}
func.func @matmul_inner(%x: tensor<4x3xf32>, %y: tensor<4x3xf32>) {
  // expected-error@+1 {{expected equal inner axes, got 3 and 4}}
  %0 = train.matmul %x, %y : tensor<4x3xf32>, tensor<4x3xf32> -> tensor<4x3xf32>
  return
}

// -----

func.func @matmul_result(%x: tensor<4x3xf32>, %y: tensor<5x3xf32>) {
  // expected-error@+1 {{expected a result of type 'tensor<4x5xf32>', got 'tensor<5x4xf32>'}}
  %0 = train.matmul %x, %y transposed : tensor<4x3xf32>, tensor<5x3xf32> -> tensor<5x4xf32>
  return
}

// -----

// expected-note@+2 {{lhs is argument 0 of @matmul_types, of type 'tensor<4x4xf32>'}}
// expected-note@+1 {{rhs is argument 1 of @matmul_types, of type 'tensor<4x4xf16>'}}
func.func @matmul_types(%x: tensor<4x4xf32>, %y: tensor<4x4xf16>) {
  // expected-error@+1 {{expected operands of one element type, got 'f32' and 'f16'}}
  %0 = train.matmul %x, %y : tensor<4x4xf32>, tensor<4x4xf16> -> tensor<4x4xf32>
  return
}

// -----

func.func @softmax_axis(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{expected an axis below the rank 2, got 2}}
  %0 = train.softmax %x axis = 2 : tensor<4x8xf32>
  return
}

// -----

// expected-note@+2 {{scale is argument 1 of @layer_norm_scale, of type 'tensor<4xf32>'}}
// expected-note@+1 {{the operand is argument 0 of @layer_norm_scale, of type 'tensor<4x8xf32>'}}
func.func @layer_norm_scale(%x: tensor<4x8xf32>, %s: tensor<4xf32>) {
  // expected-error@+1 {{expected scale and bias of shape [8], got [4]}}
  %0, %m, %r = train.layer_norm %x, %s {axis = 1 : i64, epsilon = 1.0e-5 : f64}
      : (tensor<4x8xf32>, tensor<4xf32>) -> (tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @layer_norm_mean(%x: tensor<4x8xf32>, %s: tensor<8xf32>) {
  // expected-error@+1 {{expected mean of type 'tensor<4xf32>', got 'tensor<8xf32>'}}
  %0, %m, %r = train.layer_norm %x, %s {axis = 1 : i64, epsilon = 1.0e-5 : f64}
      : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>)
  return
}

// -----

// expected-note@+2 {{labels is argument 1 of @cross_entropy_labels, of type 'tensor<8xi64>'}}
// expected-note@+1 {{logits is argument 0 of @cross_entropy_labels, of type 'tensor<4x8xf32>'}}
func.func @cross_entropy_labels(%x: tensor<4x8xf32>, %y: tensor<8xi64>) {
  // expected-error@+1 {{expected integer labels of shape [4], got 'tensor<8xi64>'}}
  %0, %lse = train.cross_entropy %x, %y : (tensor<4x8xf32>, tensor<8xi64>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @sgd_velocity(%p: tensor<4xf32>, %lr: tensor<f32>, %t: tensor<i64>) {
  // expected-error@+1 {{expected a velocity where momentum is not 0}}
  %0 = train.sgd %p, %p, %lr, %lr, %t {momentum = 0.9 : f64}
      : (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>, tensor<i64>) -> tensor<4xf32>
  return
}

// -----

// expected-note@+2 {{gradient is argument 1 of @adam_shape, of type 'tensor<5xf32>'}}
// expected-note@+1 {{parameter is argument 0 of @adam_shape, of type 'tensor<4xf32>'}}
func.func @adam_shape(%p: tensor<4xf32>, %g: tensor<5xf32>, %lr: tensor<f32>, %t: tensor<i64>) {
  // expected-error@+1 {{expected gradient of the parameter's shape [4], got [5]}}
  %0, %1, %2 = train.adam %p, %g, %p, %p, %lr, %lr, %t {beta1 = 0.9 : f64, beta2 = 0.9 : f64, epsilon = 1.0e-8 : f64}
      : (tensor<4xf32>, tensor<5xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>, tensor<i64>)
      -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @lamb_betas(%p: tensor<4xf32>, %lr: tensor<f32>, %t: tensor<i64>) {
  // expected-error@+1 {{expected betas in [0, 1), got 1}}
  %0, %1, %2 = train.lamb %p, %p, %p, %p, %lr, %lr, %t {beta1 = 1.0 : f64, beta2 = 0.9 : f64, epsilon = 1.0e-8 : f64}
      : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>, tensor<i64>)
      -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @segments_without_longest(%q: tensor<1x2x6x8xf32>, %offsets: tensor<4xi32>) {
  // expected-error@+1 {{expected `longest` if and only if there are offsets of segments}}
  %0:2 = "train.attention"(%q, %q, %q, %offsets) {scale = 1.0 : f64, dropout = 0.0 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1, 0>} : (tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>, tensor<4xi32>) -> (tensor<1x2x6x8xf32>, tensor<1x2x6xf32>)
  return
}

// -----

// expected-note@+1 {{offsets is argument 1 of @segments_offsets, of type 'tensor<4xi64>'}}
func.func @segments_offsets(%q: tensor<1x2x6x8xf32>, %offsets: tensor<4xi64>) {
  // expected-error@+1 {{expected offsets of i32 and rank 1, got 'tensor<4xi64>'}}
  %0:2 = train.attention %q, %q, %q segments %offsets longest <3> {scale = 1.0 : f64, dropout = 0.0 : f64} : (tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>, tensor<4xi64>) -> (tensor<1x2x6x8xf32>, tensor<1x2x6xf32>)
  return
}

// -----

// expected-note@+1 {{q is argument 0 of @segments_batch, of type 'tensor<2x2x6x8xf32>'}}
func.func @segments_batch(%q: tensor<2x2x6x8xf32>, %offsets: tensor<4xi32>) {
  // expected-error@+1 {{expected a batch of 1 with segments, got 2}}
  %0:2 = train.attention %q, %q, %q segments %offsets longest <3> {scale = 1.0 : f64, dropout = 0.0 : f64} : (tensor<2x2x6x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x8xf32>, tensor<4xi32>) -> (tensor<2x2x6x8xf32>, tensor<2x2x6xf32>)
  return
}

// -----

// expected-note@+2 {{q is argument 0 of @segments_columns, of type 'tensor<1x2x6x8xf32>'}}
// expected-note@+1 {{k is argument 1 of @segments_columns, of type 'tensor<1x2x7x8xf32>'}}
func.func @segments_columns(%q: tensor<1x2x6x8xf32>, %k: tensor<1x2x7x8xf32>, %offsets: tensor<4xi32>) {
  // expected-error@+1 {{expected as many rows as columns with segments, got 6 and 7}}
  %0:2 = train.attention %q, %k, %k segments %offsets longest <3> {scale = 1.0 : f64, dropout = 0.0 : f64} : (tensor<1x2x6x8xf32>, tensor<1x2x7x8xf32>, tensor<1x2x7x8xf32>, tensor<4xi32>) -> (tensor<1x2x6x8xf32>, tensor<1x2x6xf32>)
  return
}

// -----

// expected-note@+1 {{bias is argument 1 of @segments_bias, of type 'tensor<1x1x1x6xf32>'}}
func.func @segments_bias(%q: tensor<1x2x6x8xf32>, %bias: tensor<1x1x1x6xf32>, %offsets: tensor<4xi32>) {
  // expected-error@+1 {{expected no bias with segments}}
  %0:2 = train.attention %q, %q, %q bias %bias segments %offsets longest <3> {scale = 1.0 : f64, dropout = 0.0 : f64} : (tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>, tensor<1x1x1x6xf32>, tensor<4xi32>) -> (tensor<1x2x6x8xf32>, tensor<1x2x6xf32>)
  return
}

// -----

// expected-note@+2 {{positions is argument 2 of @segments_positions, of type 'tensor<5xi32>'}}
// expected-note@+1 {{q is argument 0 of @segments_positions, of type 'tensor<1x2x6x8xf32>'}}
func.func @segments_positions(%q: tensor<1x2x6x8xf32>, %offsets: tensor<4xi32>, %positions: tensor<5xi32>) {
  // expected-error@+1 {{expected positions of i32 and shape [2, 6], got 'tensor<5xi32>'}}
  %0:2 = train.attention %q, %q, %q segments %offsets longest <3> positions %positions {scale = 1.0 : f64, dropout = 0.0 : f64} : (tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>, tensor<4xi32>, tensor<5xi32>) -> (tensor<1x2x6x8xf32>, tensor<1x2x6xf32>)
  return
}

// -----

func.func @positions_without_segments(%q: tensor<1x2x6x8xf32>, %positions: tensor<6xi32>) {
  // expected-error@+1 {{expected positions only with offsets of segments}}
  %0:2 = train.attention %q, %q, %q positions %positions {scale = 1.0 : f64, dropout = 0.0 : f64} : (tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>, tensor<6xi32>) -> (tensor<1x2x6x8xf32>, tensor<1x2x6xf32>)
  return
}

// -----

// expected-note@+3 {{q is argument 0 of @attention_rank, of type 'tensor<2x6x8xf32>'}}
// expected-note@+2 {{k is argument 0 of @attention_rank, of type 'tensor<2x6x8xf32>'}}
// expected-note@+1 {{v is argument 0 of @attention_rank, of type 'tensor<2x6x8xf32>'}}
func.func @attention_rank(%q: tensor<2x6x8xf32>) {
  // expected-error@+1 {{expected q, k and v of rank 4, got 3, 3 and 3}}
  %0:2 = train.attention %q, %q, %q {scale = 1.0 : f64, dropout = 0.0 : f64} : (tensor<2x6x8xf32>, tensor<2x6x8xf32>, tensor<2x6x8xf32>) -> (tensor<2x6x8xf32>, tensor<2x6xf32>)
  return
}

// -----

// expected-note@+2 {{k is argument 1 of @attention_keys, of type 'tensor<1x2x6x4xf32>'}}
// expected-note@+1 {{q is argument 0 of @attention_keys, of type 'tensor<1x2x6x8xf32>'}}
func.func @attention_keys(%q: tensor<1x2x6x8xf32>, %k: tensor<1x2x6x4xf32>) {
  // expected-error@+1 {{expected k of shape [1, 2, 6, 8], got [1, 2, 6, 4]}}
  %0:2 = train.attention %q, %k, %q {scale = 1.0 : f64, dropout = 0.0 : f64} : (tensor<1x2x6x8xf32>, tensor<1x2x6x4xf32>, tensor<1x2x6x8xf32>) -> (tensor<1x2x6x8xf32>, tensor<1x2x6xf32>)
  return
}

// -----

// expected-note@+2 {{v is argument 1 of @attention_values, of type 'tensor<1x2x7x8xf32>'}}
// expected-note@+1 {{k is argument 0 of @attention_values, of type 'tensor<1x2x6x8xf32>'}}
func.func @attention_values(%q: tensor<1x2x6x8xf32>, %v: tensor<1x2x7x8xf32>) {
  // expected-error@+1 {{expected v of shape [1, 2, 6, 8], got [1, 2, 7, 8]}}
  %0:2 = train.attention %q, %q, %v {scale = 1.0 : f64, dropout = 0.0 : f64} : (tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>, tensor<1x2x7x8xf32>) -> (tensor<1x2x6x8xf32>, tensor<1x2x6xf32>)
  return
}

// -----

// expected-note@+2 {{q is argument 0 of @attention_heads, of type 'tensor<1x3x6x8xf32>'}}
// expected-note@+1 {{k is argument 1 of @attention_heads, of type 'tensor<1x2x6x8xf32>'}}
func.func @attention_heads(%q: tensor<1x3x6x8xf32>, %k: tensor<1x2x6x8xf32>) {
  // expected-error@+1 {{expected a number of heads that the key heads divide, got 3 and 2}}
  %0:2 = train.attention %q, %k, %k {scale = 1.0 : f64, dropout = 0.0 : f64} : (tensor<1x3x6x8xf32>, tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>) -> (tensor<1x3x6x8xf32>, tensor<1x3x6xf32>)
  return
}

// -----

// expected-note@+3 {{q is argument 0 of @attention_types, of type 'tensor<1x2x6x8xf32>'}}
// expected-note@+2 {{k is argument 1 of @attention_types, of type 'tensor<1x2x6x8xbf16>'}}
// expected-note@+1 {{v is argument 0 of @attention_types, of type 'tensor<1x2x6x8xf32>'}}
func.func @attention_types(%q: tensor<1x2x6x8xf32>, %k: tensor<1x2x6x8xbf16>) {
  // expected-error@+1 {{expected q, k and v of one element type}}
  %0:2 = train.attention %q, %k, %q {scale = 1.0 : f64, dropout = 0.0 : f64} : (tensor<1x2x6x8xf32>, tensor<1x2x6x8xbf16>, tensor<1x2x6x8xf32>) -> (tensor<1x2x6x8xf32>, tensor<1x2x6xf32>)
  return
}

// -----

func.func @attention_stats(%q: tensor<1x2x6x8xbf16>) {
  // expected-error@+1 {{expected stats of element type 'f32', got 'bf16'}}
  %0:2 = train.attention %q, %q, %q {scale = 1.0 : f64, dropout = 0.0 : f64} : (tensor<1x2x6x8xbf16>, tensor<1x2x6x8xbf16>, tensor<1x2x6x8xbf16>) -> (tensor<1x2x6x8xbf16>, tensor<1x2x6xbf16>)
  return
}

// -----

func.func @window_before(%q: tensor<1x2x6x8xf32>) {
  // expected-error@+1 {{expected a window of no less than 0 columns before and after, got -1 and 2}}
  %0:2 = train.attention %q, %q, %q {before = -1 : i64, after = 2 : i64, scale = 1.0 : f64, dropout = 0.0 : f64} : (tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>) -> (tensor<1x2x6x8xf32>, tensor<1x2x6xf32>)
  return
}

// -----

func.func @window_causal(%q: tensor<1x2x6x8xf32>) {
  // expected-error@+1 {{expected no window after a row with a causal mask, got 2}}
  %0:2 = train.attention %q, %q, %q causal {after = 2 : i64, scale = 1.0 : f64, dropout = 0.0 : f64} : (tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>) -> (tensor<1x2x6x8xf32>, tensor<1x2x6xf32>)
  return
}

// -----

// expected-note@+2 {{q is argument 0 of @window_columns, of type 'tensor<1x2x6x8xf32>'}}
// expected-note@+1 {{k is argument 1 of @window_columns, of type 'tensor<1x2x7x8xf32>'}}
func.func @window_columns(%q: tensor<1x2x6x8xf32>, %k: tensor<1x2x7x8xf32>) {
  // expected-error@+1 {{expected as many rows as columns with a window, got 6 and 7}}
  %0:2 = train.attention %q, %k, %k causal {before = 2 : i64, scale = 1.0 : f64, dropout = 0.0 : f64} : (tensor<1x2x6x8xf32>, tensor<1x2x7x8xf32>, tensor<1x2x7x8xf32>) -> (tensor<1x2x6x8xf32>, tensor<1x2x6xf32>)
  return
}

// -----

func.func @attention_dropout(%q: tensor<1x2x6x8xf32>) {
  // expected-error@+1 {{expected a dropout in [0, 1), got 1.000000e+00}}
  %0:2 = train.attention %q, %q, %q {scale = 1.0 : f64, dropout = 1.0 : f64} : (tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>) -> (tensor<1x2x6x8xf32>, tensor<1x2x6xf32>)
  return
}

// -----

// expected-note@+1 {{the operand is argument 0 of @attention_gradient, of type 'tensor<1x2x6x8xf32>'}}
func.func @attention_gradient(%q: tensor<1x2x6x8xf32>, %s: tensor<1x2x6xf32>) {
  // expected-error@+1 {{expected a gradient of type 'tensor<1x2x6x8xf32>', got 'tensor<1x2x6x4xf32>'}}
  %0:3 = train.attention_grad %q, %q, %q, %q, %s, %q {scale = 1.0 : f64, dropout = 0.0 : f64} : (tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>, tensor<1x2x6xf32>, tensor<1x2x6x8xf32>) -> (tensor<1x2x6x8xf32>, tensor<1x2x6x4xf32>, tensor<1x2x6x8xf32>)
  return
}

// -----

// expected-note@+1 {{bias is argument 2 of @bias_gradient, of type 'tensor<2x2x6x6xf32>'}}
func.func @bias_gradient(%q: tensor<2x2x6x8xf32>, %s: tensor<2x2x6xf32>, %b: tensor<2x2x6x6xf32>) {
  // expected-error@+1 {{expected a gradient only of a bias of shape [1, 2, 6, 6]}}
  %0:4 = train.attention_grad %q, %q, %q, %q, %s, %q bias %b {scale = 1.0 : f64, dropout = 0.0 : f64} : (tensor<2x2x6x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x6xf32>) -> (tensor<2x2x6x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x6xf32>)
  return
}

// -----

func.func @no_block(%c: tensor<8xi8>, %t: tensor<16xf32>, %s: tensor<1xf32>) {
  // expected-error@+1 {{expected a block of at least one element, got 0}}
  %0 = train.dequantize %c, %t, %s block 0 : (tensor<8xi8>, tensor<16xf32>, tensor<1xf32>) -> tensor<16xf32>
  return
}

// -----

// expected-note@+1 {{codes is argument 0 of @codes_type, of type 'tensor<8xi32>'}}
func.func @codes_type(%c: tensor<8xi32>, %t: tensor<16xf32>, %s: tensor<1xf32>) {
  // expected-error@+1 {{expected codes of type i8, got 'tensor<8xi32>'}}
  %0 = train.dequantize %c, %t, %s block 16 : (tensor<8xi32>, tensor<16xf32>, tensor<1xf32>) -> tensor<16xf32>
  return
}

// -----

func.func @result_type(%c: tensor<8xi8>, %t: tensor<16xbf16>, %s: tensor<1xbf16>) {
  // expected-error@+1 {{expected a result of f32 or f64, got 'bf16'}}
  %0 = train.dequantize %c, %t, %s block 16 : (tensor<8xi8>, tensor<16xbf16>, tensor<1xbf16>) -> tensor<16xbf16>
  return
}

// -----

// expected-note@+1 {{table is argument 1 of @table_type, of type 'tensor<16xf64>'}}
func.func @table_type(%c: tensor<8xi8>, %t: tensor<16xf64>, %s: tensor<1xf32>) {
  // expected-error@+1 {{expected a table and scales of 'f32', got 'tensor<16xf64>'}}
  %0 = train.dequantize %c, %t, %s block 16 : (tensor<8xi8>, tensor<16xf64>, tensor<1xf32>) -> tensor<16xf32>
  return
}

// -----

// expected-note@+1 {{table is argument 1 of @table_size, of type 'tensor<15xf32>'}}
func.func @table_size(%c: tensor<8xi8>, %t: tensor<15xf32>, %s: tensor<1xf32>) {
  // expected-error@+1 {{expected a table of 16 or 256 numbers, got 'tensor<15xf32>'}}
  %0 = train.dequantize %c, %t, %s block 16 : (tensor<8xi8>, tensor<15xf32>, tensor<1xf32>) -> tensor<16xf32>
  return
}

// -----

// expected-note@+1 {{codes is argument 0 of @codes_size, of type 'tensor<9xi8>'}}
func.func @codes_size(%c: tensor<9xi8>, %t: tensor<16xf32>, %s: tensor<1xf32>) {
  // expected-error@+1 {{expected 8 bytes of codes, got 'tensor<9xi8>'}}
  %0 = train.dequantize %c, %t, %s block 16 : (tensor<9xi8>, tensor<16xf32>, tensor<1xf32>) -> tensor<16xf32>
  return
}

// -----

// expected-note@+2 {{the coordinate is argument 2 of @dropout_coordinates, of type 'tensor<3xi64>'}}
// expected-note@+1 {{the operand is argument 0 of @dropout_coordinates, of type 'tensor<4xf32>'}}
func.func @dropout_coordinates(%x: tensor<4xf32>, %k: tensor<i64>, %i: tensor<3xi64>) {
  // expected-error@+1 {{expected coordinates of the operand's shape along axes of its own}}
  %0 = "train.dropout"(%x, %k, %i) {ratio = 0.5 : f64, coordinate_axes = array<i64: 0>, operandSegmentSizes = array<i32: 1, 1, 1>} : (tensor<4xf32>, tensor<i64>, tensor<3xi64>) -> tensor<4xf32>
  return
}

// -----

// expected-note@+1 {{the operand is argument 0 of @no_scalar, of type 'tensor<2xf32>'}}
func.func @no_scalar(%x: tensor<2xf32>) {
  // expected-error@+1 {{expected a scalar and a result of its type, got 'tensor<2xf32>' and 'tensor<2xf32>'}}
  %0 = train.with_gradient %x of %x are %x : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

// expected-note@+1 {{indices is argument 1 of @select_type, of type 'tensor<2xi64>'}}
func.func @select_type(%x: tensor<4x8xf32>, %i: tensor<2xi64>, %j: tensor<4xi32>) {
  // expected-error@+1 {{expected indices of rank 1 and type i32, got 'tensor<2xi64>'}}
  %0 = train.select_rows %x, %i inverse %j axis = 0 : (tensor<4x8xf32>, tensor<2xi64>, tensor<4xi32>) -> tensor<2x8xf32>
  return
}

// -----

// expected-note@+2 {{inverse is argument 2 of @select_inverse, of type 'tensor<3xi32>'}}
// expected-note@+1 {{data is argument 0 of @select_inverse, of type 'tensor<4x8xf32>'}}
func.func @select_inverse(%x: tensor<4x8xf32>, %i: tensor<2xi32>, %j: tensor<3xi32>) {
  // expected-error@+1 {{expected an inverse of size 4, got 3}}
  %0 = train.select_rows %x, %i inverse %j axis = 0 : (tensor<4x8xf32>, tensor<2xi32>, tensor<3xi32>) -> tensor<2x8xf32>
  return
}
