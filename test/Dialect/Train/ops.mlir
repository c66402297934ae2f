// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every op is printed as it is written, also by way of the generic form.
// RUN: trainc-opt %s | trainc-opt | FileCheck %s
// RUN: trainc-opt %s --mlir-print-op-generic | trainc-opt | FileCheck %s

// CHECK-LABEL: func.func @neg(
func.func @neg(%arg0: tensor<2x3xf32>) {
  // CHECK: train.neg %arg0 : tensor<2x3xf32>
  %0 = train.neg %arg0 : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @abs(
func.func @abs(%arg0: tensor<2x3xf32>) {
  // CHECK: train.abs %arg0 : tensor<2x3xf32>
  %0 = train.abs %arg0 : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @sign(
func.func @sign(%arg0: tensor<2x3xf32>) {
  // CHECK: train.sign %arg0 : tensor<2x3xf32>
  %0 = train.sign %arg0 : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @exp(
func.func @exp(%arg0: tensor<2x3xf32>) {
  // CHECK: train.exp %arg0 : tensor<2x3xf32>
  %0 = train.exp %arg0 : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @log(
func.func @log(%arg0: tensor<2x3xf32>) {
  // CHECK: train.log %arg0 : tensor<2x3xf32>
  %0 = train.log %arg0 : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @sqrt(
func.func @sqrt(%arg0: tensor<2x3xf32>) {
  // CHECK: train.sqrt %arg0 : tensor<2x3xf32>
  %0 = train.sqrt %arg0 : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @rsqrt(
func.func @rsqrt(%arg0: tensor<2x3xf32>) {
  // CHECK: train.rsqrt %arg0 : tensor<2x3xf32>
  %0 = train.rsqrt %arg0 : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @reciprocal(
func.func @reciprocal(%arg0: tensor<2x3xf32>) {
  // CHECK: train.reciprocal %arg0 : tensor<2x3xf32>
  %0 = train.reciprocal %arg0 : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @tanh(
func.func @tanh(%arg0: tensor<2x3xf32>) {
  // CHECK: train.tanh %arg0 : tensor<2x3xf32>
  %0 = train.tanh %arg0 : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @erf(
func.func @erf(%arg0: tensor<2x3xf32>) {
  // CHECK: train.erf %arg0 : tensor<2x3xf32>
  %0 = train.erf %arg0 : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @sigmoid(
func.func @sigmoid(%arg0: tensor<2x3xf32>) {
  // CHECK: train.sigmoid %arg0 : tensor<2x3xf32>
  %0 = train.sigmoid %arg0 : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @relu(
func.func @relu(%arg0: tensor<2x3xf32>) {
  // CHECK: train.relu %arg0 : tensor<2x3xf32>
  %0 = train.relu %arg0 : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @detach(
func.func @detach(%arg0: tensor<2x3xf32>) {
  // CHECK: train.detach %arg0 : tensor<2x3xf32>
  %0 = train.detach %arg0 : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @floor(
func.func @floor(%arg0: tensor<2x3xf32>) {
  // CHECK: train.floor %arg0 : tensor<2x3xf32>
  %0 = train.floor %arg0 : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @ceil(
func.func @ceil(%arg0: tensor<2x3xf32>) {
  // CHECK: train.ceil %arg0 : tensor<2x3xf32>
  %0 = train.ceil %arg0 : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @round(
func.func @round(%arg0: tensor<2x3xf32>) {
  // CHECK: train.round %arg0 : tensor<2x3xf32>
  %0 = train.round %arg0 : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @sin(
func.func @sin(%arg0: tensor<2x3xf32>) {
  // CHECK: train.sin %arg0 : tensor<2x3xf32>
  %0 = train.sin %arg0 : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @cos(
func.func @cos(%arg0: tensor<2x3xf32>) {
  // CHECK: train.cos %arg0 : tensor<2x3xf32>
  %0 = train.cos %arg0 : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @tan(
func.func @tan(%arg0: tensor<2x3xf32>) {
  // CHECK: train.tan %arg0 : tensor<2x3xf32>
  %0 = train.tan %arg0 : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @asin(
func.func @asin(%arg0: tensor<2x3xf32>) {
  // CHECK: train.asin %arg0 : tensor<2x3xf32>
  %0 = train.asin %arg0 : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @acos(
func.func @acos(%arg0: tensor<2x3xf32>) {
  // CHECK: train.acos %arg0 : tensor<2x3xf32>
  %0 = train.acos %arg0 : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @atan(
func.func @atan(%arg0: tensor<2x3xf32>) {
  // CHECK: train.atan %arg0 : tensor<2x3xf32>
  %0 = train.atan %arg0 : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @sinh(
func.func @sinh(%arg0: tensor<2x3xf32>) {
  // CHECK: train.sinh %arg0 : tensor<2x3xf32>
  %0 = train.sinh %arg0 : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @cosh(
func.func @cosh(%arg0: tensor<2x3xf32>) {
  // CHECK: train.cosh %arg0 : tensor<2x3xf32>
  %0 = train.cosh %arg0 : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @asinh(
func.func @asinh(%arg0: tensor<2x3xf32>) {
  // CHECK: train.asinh %arg0 : tensor<2x3xf32>
  %0 = train.asinh %arg0 : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @acosh(
func.func @acosh(%arg0: tensor<2x3xf32>) {
  // CHECK: train.acosh %arg0 : tensor<2x3xf32>
  %0 = train.acosh %arg0 : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @atanh(
func.func @atanh(%arg0: tensor<2x3xf32>) {
  // CHECK: train.atanh %arg0 : tensor<2x3xf32>
  %0 = train.atanh %arg0 : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @gelu(
func.func @gelu(%arg0: tensor<2x3xf32>) {
  // CHECK: train.gelu %arg0 : tensor<2x3xf32>
  %0 = train.gelu %arg0 : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @gelu_1(
func.func @gelu_1(%arg0: tensor<2x3xf32>) {
  // CHECK: train.gelu %arg0 tanh : tensor<2x3xf32>
  %0 = train.gelu %arg0 tanh : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @gelu_grad(
func.func @gelu_grad(%arg0: tensor<2x3xf32>) {
  // CHECK: train.gelu_grad %arg0 : tensor<2x3xf32>
  %0 = train.gelu_grad %arg0 : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @gelu_grad_1(
func.func @gelu_grad_1(%arg0: tensor<2x3xf32>) {
  // CHECK: train.gelu_grad %arg0 tanh : tensor<2x3xf32>
  %0 = train.gelu_grad %arg0 tanh : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @neg_1(
func.func @neg_1(%arg0: tensor<?x?x4xf32, #train.dims<batch, seq, 4>>) {
  // CHECK: train.neg %arg0 : tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
  %0 = train.neg %arg0 : tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
  return
}

// CHECK-LABEL: func.func @add(
func.func @add(%arg0: tensor<2x3xf32>, %arg1: tensor<2x3xf32>) {
  // CHECK: train.add %arg0, %arg1 : tensor<2x3xf32>
  %0 = train.add %arg0, %arg1 : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @sub(
func.func @sub(%arg0: tensor<2x3xf32>, %arg1: tensor<2x3xf32>) {
  // CHECK: train.sub %arg0, %arg1 : tensor<2x3xf32>
  %0 = train.sub %arg0, %arg1 : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @mul(
func.func @mul(%arg0: tensor<2x3xf32>, %arg1: tensor<2x3xf32>) {
  // CHECK: train.mul %arg0, %arg1 : tensor<2x3xf32>
  %0 = train.mul %arg0, %arg1 : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @div(
func.func @div(%arg0: tensor<2x3xf32>, %arg1: tensor<2x3xf32>) {
  // CHECK: train.div %arg0, %arg1 : tensor<2x3xf32>
  %0 = train.div %arg0, %arg1 : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @max(
func.func @max(%arg0: tensor<2x3xf32>, %arg1: tensor<2x3xf32>) {
  // CHECK: train.max %arg0, %arg1 : tensor<2x3xf32>
  %0 = train.max %arg0, %arg1 : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @min(
func.func @min(%arg0: tensor<2x3xf32>, %arg1: tensor<2x3xf32>) {
  // CHECK: train.min %arg0, %arg1 : tensor<2x3xf32>
  %0 = train.min %arg0, %arg1 : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @pow(
func.func @pow(%arg0: tensor<2x3xf32>, %arg1: tensor<2x3xf32>) {
  // CHECK: train.pow %arg0, %arg1 : tensor<2x3xf32>
  %0 = train.pow %arg0, %arg1 : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @mod(
func.func @mod(%arg0: tensor<2x3xf32>, %arg1: tensor<2x3xf32>) {
  // CHECK: train.mod %arg0, %arg1 : tensor<2x3xf32>
  %0 = train.mod %arg0, %arg1 : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @and(
func.func @and(%arg0: tensor<4x3xi1>, %arg1: tensor<4x3xi1>) {
  // CHECK: train.and %arg0, %arg1 : tensor<4x3xi1>
  %0 = train.and %arg0, %arg1 : tensor<4x3xi1>
  return
}

// CHECK-LABEL: func.func @or(
func.func @or(%arg0: tensor<4x3xi1>, %arg1: tensor<4x3xi1>) {
  // CHECK: train.or %arg0, %arg1 : tensor<4x3xi1>
  %0 = train.or %arg0, %arg1 : tensor<4x3xi1>
  return
}

// CHECK-LABEL: func.func @xor(
func.func @xor(%arg0: tensor<4x3xi1>, %arg1: tensor<4x3xi1>) {
  // CHECK: train.xor %arg0, %arg1 : tensor<4x3xi1>
  %0 = train.xor %arg0, %arg1 : tensor<4x3xi1>
  return
}

// CHECK-LABEL: func.func @not(
func.func @not(%arg0: tensor<2x3xi1>) {
  // CHECK: train.not %arg0 : tensor<2x3xi1>
  %0 = train.not %arg0 : tensor<2x3xi1>
  return
}

// CHECK-LABEL: func.func @is_nan(
func.func @is_nan(%arg0: tensor<2x3xf32>) {
  // CHECK: train.is_nan %arg0 : tensor<2x3xf32> -> tensor<2x3xi1>
  %0 = train.is_nan %arg0 : tensor<2x3xf32> -> tensor<2x3xi1>
  return
}

// CHECK-LABEL: func.func @is_inf(
func.func @is_inf(%arg0: tensor<2x3xf32>) {
  // CHECK: train.is_inf %arg0 : tensor<2x3xf32> -> tensor<2x3xi1>
  %0 = train.is_inf %arg0 : tensor<2x3xf32> -> tensor<2x3xi1>
  return
}

// CHECK-LABEL: func.func @compare(
func.func @compare(%arg0: tensor<2x9xi64>, %arg1: tensor<2x9xi64>) {
  // CHECK: train.compare eq %arg0, %arg1 : tensor<2x9xi64> -> tensor<2x9xi1>
  %0 = train.compare eq %arg0, %arg1 : tensor<2x9xi64> -> tensor<2x9xi1>
  return
}

// CHECK-LABEL: func.func @compare_2(
func.func @compare_2(%arg0: tensor<2x9xi64>, %arg1: tensor<2x9xi64>) {
  // CHECK: train.compare lt %arg0, %arg1 : tensor<2x9xi64> -> tensor<2x9xi1>
  %0 = train.compare lt %arg0, %arg1 : tensor<2x9xi64> -> tensor<2x9xi1>
  return
}

// CHECK-LABEL: func.func @select(
func.func @select(%arg0: tensor<2x3xi1>, %arg1: tensor<2x3xf32>, %arg2: tensor<2x3xf32>) {
  // CHECK: train.select %arg0, %arg1, %arg2 : tensor<2x3xi1>, tensor<2x3xf32>
  %0 = train.select %arg0, %arg1, %arg2 : tensor<2x3xi1>, tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @cast(
func.func @cast(%arg0: tensor<2x3xf32>) {
  // CHECK: train.cast %arg0 : tensor<2x3xf32> -> tensor<2x3xf32>
  %0 = train.cast %arg0 : tensor<2x3xf32> -> tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @cast_1(
func.func @cast_1(%arg0: tensor<2x3xf32>) {
  // CHECK: train.cast %arg0 : tensor<2x3xf32> -> tensor<2x3xi32>
  %0 = train.cast %arg0 : tensor<2x3xf32> -> tensor<2x3xi32>
  return
}

// CHECK-LABEL: func.func @cast_2(
func.func @cast_2(%arg0: tensor<2x3xi64>) {
  // CHECK: train.cast %arg0 : tensor<2x3xi64> -> tensor<2x3xi1>
  %0 = train.cast %arg0 : tensor<2x3xi64> -> tensor<2x3xi1>
  return
}

// CHECK-LABEL: func.func @cast_3(
func.func @cast_3(%arg0: tensor<2x3xi1>) {
  // CHECK: train.cast %arg0 : tensor<2x3xi1> -> tensor<2x3xf32>
  %0 = train.cast %arg0 : tensor<2x3xi1> -> tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @full(
func.func @full() {
  // CHECK: train.full 5.000000e-01 : f32 : tensor<2x3xf32>
  %0 = train.full 5.000000e-01 : f32 : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @full_1(
func.func @full_1() {
  // CHECK: train.full -3 : i64 : tensor<2xi64>
  %0 = train.full -3 : i64 : tensor<2xi64>
  return
}

// CHECK-LABEL: func.func @dim(
func.func @dim() {
  // CHECK: train.dim <batch*seq + 1> : tensor<i64>
  %0 = train.dim <batch*seq + 1> : tensor<i64>
  return
}

// CHECK-LABEL: func.func @dim_1(
func.func @dim_1() {
  // CHECK: train.dim <seq> : tensor<f32>
  %0 = train.dim <seq> : tensor<f32>
  return
}

// CHECK-LABEL: func.func @rng_key(
func.func @rng_key(%arg0: tensor<i64>, %arg1: tensor<i64>, %arg2: tensor<i64>, %arg3: tensor<i64>) {
  // CHECK: train.rng_key %arg0, %arg1, %arg2, %arg3 {node = 81985529216486895 : i64} : tensor<i64>
  %0 = train.rng_key %arg0, %arg1, %arg2, %arg3 {node = 81985529216486895 : i64} : tensor<i64>
  return
}

// CHECK-LABEL: func.func @random_bits(
func.func @random_bits(%arg0: tensor<i64>) {
  // CHECK: train.random_bits %arg0 : tensor<i64> -> tensor<3x2x5xi32>
  %0 = train.random_bits %arg0 : tensor<i64> -> tensor<3x2x5xi32>
  return
}

// CHECK-LABEL: func.func @bitcast(
func.func @bitcast(%arg0: tensor<2x3xf32>) {
  // CHECK: train.bitcast %arg0 : tensor<2x3xf32> -> tensor<2x3xi32>
  %0 = train.bitcast %arg0 : tensor<2x3xf32> -> tensor<2x3xi32>
  return
}

// CHECK-LABEL: func.func @dropout(
func.func @dropout(%arg0: tensor<3x2x5xf32>, %arg1: tensor<i64>) {
  // CHECK: train.dropout %arg0, %arg1 {ratio = 3.000000e-01 : f64} : tensor<3x2x5xf32>, tensor<i64>
  %0 = train.dropout %arg0, %arg1 {ratio = 3.000000e-01 : f64} : tensor<3x2x5xf32>, tensor<i64>
  return
}

// CHECK-LABEL: func.func @dropout_1(
func.func @dropout_1(%arg0: tensor<2x2x3x2x5xf32>, %arg1: tensor<i64>) {
  // CHECK: train.dropout %arg0, %arg1 {ratio = 5.000000e-01 : f64} : tensor<2x2x3x2x5xf32>, tensor<i64>
  %0 = train.dropout %arg0, %arg1 {ratio = 5.000000e-01 : f64} : tensor<2x2x3x2x5xf32>, tensor<i64>
  return
}

// CHECK-LABEL: func.func @constant(
func.func @constant() {
  // CHECK: train.constant dense<{{\[\[}}1.000000e+00, 2.000000e+00], [3.000000e+00, 4.000000e+00]]> : tensor<2x2xf32>
  %0 = train.constant dense<[[1.000000e+00, 2.000000e+00], [3.000000e+00, 4.000000e+00]]> : tensor<2x2xf32>
  return
}

// CHECK-LABEL: func.func @constant_1(
func.func @constant_1() {
  // CHECK: train.constant dense<[true, false]> : tensor<2xi1>
  %0 = train.constant dense<[true, false]> : tensor<2xi1>
  return
}

// CHECK-LABEL: func.func @iota(
func.func @iota() {
  // CHECK: train.iota 1 : tensor<2x3xi64>
  %0 = train.iota 1 : tensor<2x3xi64>
  return
}

// CHECK-LABEL: func.func @iota_1(
func.func @iota_1() {
  // CHECK: train.iota 0 : tensor<?x4xf32, #train.dims<batch, 4>>
  %0 = train.iota 0 : tensor<?x4xf32, #train.dims<batch, 4>>
  return
}

// CHECK-LABEL: func.func @broadcast(
func.func @broadcast(%arg0: tensor<3xf32>) {
  // CHECK: train.broadcast %arg0 axes = [1] : tensor<3xf32> -> tensor<2x3x4xf32>
  %0 = train.broadcast %arg0 axes = [1] : tensor<3xf32> -> tensor<2x3x4xf32>
  return
}

// CHECK-LABEL: func.func @broadcast_1(
func.func @broadcast_1(%arg0: tensor<f32>) {
  // CHECK: train.broadcast %arg0 axes = [] : tensor<f32> -> tensor<2x3xf32>
  %0 = train.broadcast %arg0 axes = [] : tensor<f32> -> tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @broadcast_2(
func.func @broadcast_2(%arg0: tensor<?x4xf32, #train.dims<batch, 4>>) {
  // CHECK: train.broadcast %arg0 axes = [0, 2] : tensor<?x4xf32, #train.dims<batch, 4>> -> tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
  %0 = train.broadcast %arg0 axes = [0, 2] : tensor<?x4xf32, #train.dims<batch, 4>> -> tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
  return
}

// CHECK-LABEL: func.func @broadcast_3(
func.func @broadcast_3(%arg0: tensor<2x3xf32>) {
  // CHECK: train.broadcast %arg0 axes = [0, 1] : tensor<2x3xf32> -> tensor<2x3xf32>
  %0 = train.broadcast %arg0 axes = [0, 1] : tensor<2x3xf32> -> tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @reshape(
func.func @reshape(%arg0: tensor<2x3x4xf32>) {
  // CHECK: train.reshape %arg0 : tensor<2x3x4xf32> -> tensor<2x12xf32>
  %0 = train.reshape %arg0 : tensor<2x3x4xf32> -> tensor<2x12xf32>
  return
}

// CHECK-LABEL: func.func @reshape_1(
func.func @reshape_1(%arg0: tensor<?x?x4xf32, #train.dims<batch, seq, 4>>) {
  // CHECK: train.reshape %arg0 : tensor<?x?x4xf32, #train.dims<batch, seq, 4>> -> tensor<?x4xf32, #train.dims<batch*seq, 4>>
  %0 = train.reshape %arg0 : tensor<?x?x4xf32, #train.dims<batch, seq, 4>> -> tensor<?x4xf32, #train.dims<batch*seq, 4>>
  return
}

// CHECK-LABEL: func.func @reshape_2(
func.func @reshape_2(%arg0: tensor<?x?x4xf32, #train.dims<batch, seq, 4>>) {
  // CHECK: train.reshape %arg0 : tensor<?x?x4xf32, #train.dims<batch, seq, 4>> -> tensor<?x?x2x2xf32, #train.dims<batch, seq, 2, 2>>
  %0 = train.reshape %arg0 : tensor<?x?x4xf32, #train.dims<batch, seq, 4>> -> tensor<?x?x2x2xf32, #train.dims<batch, seq, 2, 2>>
  return
}

// CHECK-LABEL: func.func @reshape_3(
func.func @reshape_3(%arg0: tensor<2x3xf32>) {
  // CHECK: train.reshape %arg0 : tensor<2x3xf32> -> tensor<2x1x3xf32>
  %0 = train.reshape %arg0 : tensor<2x3xf32> -> tensor<2x1x3xf32>
  return
}

// CHECK-LABEL: func.func @reshape_4(
func.func @reshape_4(%arg0: tensor<2x3xf32>) {
  // CHECK: train.reshape %arg0 : tensor<2x3xf32> -> tensor<3x2xf32>
  %0 = train.reshape %arg0 : tensor<2x3xf32> -> tensor<3x2xf32>
  return
}

// CHECK-LABEL: func.func @window(
func.func @window(%arg0: tensor<2x7x3xf32>) {
  // CHECK: train.window %arg0 axis = 1 taps = 2 stride = 2 dilation = 1 : tensor<2x7x3xf32> -> tensor<2x3x3xf32>
  %0 = train.window %arg0 axis = 1 taps = 2 stride = 2 dilation = 1 : tensor<2x7x3xf32> -> tensor<2x3x3xf32>
  return
}

// CHECK-LABEL: func.func @spread(
func.func @spread(%arg0: tensor<?x3xf32, #train.dims<seq, 3>>) {
  // CHECK: train.spread %arg0 axis = 0 taps = 1 stride = 2 dilation = 1 : tensor<?x3xf32, #train.dims<seq, 3>> -> tensor<?x3xf32, #train.dims<2*seq + 1, 3>>
  %0 = train.spread %arg0 axis = 0 taps = 1 stride = 2 dilation = 1 : tensor<?x3xf32, #train.dims<seq, 3>> -> tensor<?x3xf32, #train.dims<2 * seq + 1, 3>>
  return
}

// CHECK-LABEL: func.func @in_training(
func.func @in_training(%arg0: tensor<8xf32>, %arg1: tensor<8xf32>) {
  // CHECK: train.in_training %arg0 else %arg1 : tensor<8xf32>
  %0 = train.in_training %arg0 else %arg1 : tensor<8xf32>
  return
}

// CHECK-LABEL: func.func @transpose(
func.func @transpose(%arg0: tensor<2x3x4xf32>) {
  // CHECK: train.transpose %arg0 permutation = [2, 0, 1] : tensor<2x3x4xf32> -> tensor<4x2x3xf32>
  %0 = train.transpose %arg0 permutation = [2, 0, 1] : tensor<2x3x4xf32> -> tensor<4x2x3xf32>
  return
}

// CHECK-LABEL: func.func @transpose_1(
func.func @transpose_1(%arg0: tensor<?x?x4xf32, #train.dims<batch, seq, 4>>) {
  // CHECK: train.transpose %arg0 permutation = [1, 0, 2] : tensor<?x?x4xf32, #train.dims<batch, seq, 4>> -> tensor<?x?x4xf32, #train.dims<seq, batch, 4>>
  %0 = train.transpose %arg0 permutation = [1, 0, 2] : tensor<?x?x4xf32, #train.dims<batch, seq, 4>> -> tensor<?x?x4xf32, #train.dims<seq, batch, 4>>
  return
}

// CHECK-LABEL: func.func @slice(
func.func @slice(%arg0: tensor<4x5xf32>) {
  // CHECK: train.slice %arg0 starts = <1, 4> steps = [1, -2] : tensor<4x5xf32> -> tensor<2x3xf32>
  %0 = train.slice %arg0 starts = <1, 4> steps = [1, -2] : tensor<4x5xf32> -> tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @slice_1(
func.func @slice_1(%arg0: tensor<4x5xf32>) {
  // CHECK: train.slice %arg0 starts = <0, 2> steps = [1, 1] : tensor<4x5xf32> -> tensor<4x2xf32>
  %0 = train.slice %arg0 starts = <0, 2> steps = [1, 1] : tensor<4x5xf32> -> tensor<4x2xf32>
  return
}

// CHECK-LABEL: func.func @slice_2(
func.func @slice_2(%arg0: tensor<?x?x4xf32, #train.dims<batch, seq, 4>>) {
  // CHECK: train.slice %arg0 starts = <0, seq - 1, 0> steps = [1, 1, 1] : tensor<?x?x4xf32, #train.dims<batch, seq, 4>> -> tensor<?x1x4xf32, #train.dims<batch, 1, 4>>
  %0 = train.slice %arg0 starts = <0, seq - 1, 0> steps = [1, 1, 1] : tensor<?x?x4xf32, #train.dims<batch, seq, 4>> -> tensor<?x1x4xf32, #train.dims<batch, 1, 4>>
  return
}

// CHECK-LABEL: func.func @pad(
func.func @pad(%arg0: tensor<2x3xf32>) {
  // CHECK: train.pad %arg0 value = 5.000000e-01 : f32 low = <1, 0> : tensor<2x3xf32> -> tensor<4x3xf32>
  %0 = train.pad %arg0 value = 5.000000e-01 : f32 low = <1, 0> : tensor<2x3xf32> -> tensor<4x3xf32>
  return
}

// CHECK-LABEL: func.func @pad_1(
func.func @pad_1(%arg0: tensor<2x5xf32>) {
  // CHECK: train.pad %arg0 value = 0.000000e+00 : f32 low = <0, -1> : tensor<2x5xf32> -> tensor<2x3xf32>
  %0 = train.pad %arg0 value = 0.000000e+00 : f32 low = <0, -1> : tensor<2x5xf32> -> tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @pad_2(
func.func @pad_2(%arg0: tensor<?x?x4xf32, #train.dims<batch, seq, 4>>) {
  // CHECK: train.pad %arg0 value = 1.000000e+00 : f32 low = <0, seq, 0> : tensor<?x?x4xf32, #train.dims<batch, seq, 4>> -> tensor<?x?x4xf32, #train.dims<batch, 2*seq, 4>>
  %0 = train.pad %arg0 value = 1.000000e+00 : f32 low = <0, seq, 0> : tensor<?x?x4xf32, #train.dims<batch, seq, 4>> -> tensor<?x?x4xf32, #train.dims<batch, 2*seq, 4>>
  return
}

// CHECK-LABEL: func.func @concat(
func.func @concat(%arg0: tensor<2x3xf32>, %arg1: tensor<2x1xf32>, %arg2: tensor<2x2xf32>) {
  // CHECK: train.concat %arg0, %arg1, %arg2 axis = 1 : (tensor<2x3xf32>, tensor<2x1xf32>, tensor<2x2xf32>) -> tensor<2x6xf32>
  %0 = train.concat %arg0, %arg1, %arg2 axis = 1 : (tensor<2x3xf32>, tensor<2x1xf32>, tensor<2x2xf32>) -> tensor<2x6xf32>
  return
}

// CHECK-LABEL: func.func @concat_1(
func.func @concat_1(%arg0: tensor<?x?x4xf32, #train.dims<batch, seq, 4>>, %arg1: tensor<2x3x4xf32>) {
  // CHECK: train.concat %arg0, %{{.*}} axis = 1 : (tensor<?x?x4xf32, #train.dims<batch, seq, 4>>, tensor<?x1x4xf32, #train.dims<batch, 1, 4>>) -> tensor<?x?x4xf32, #train.dims<batch, seq + 1, 4>>
  %0 = train.slice %arg1 starts = <0, 0, 0> steps = [1, 1, 1] : tensor<2x3x4xf32> -> tensor<?x1x4xf32, #train.dims<batch, 1, 4>>
  %1 = train.concat %arg0, %0 axis = 1 : (tensor<?x?x4xf32, #train.dims<batch, seq, 4>>, tensor<?x1x4xf32, #train.dims<batch, 1, 4>>) -> tensor<?x?x4xf32, #train.dims<batch, seq + 1, 4>>
  return
}

// CHECK-LABEL: func.func @split(
func.func @split(%arg0: tensor<2x6xf32>) {
  // CHECK: train.split %arg0 axis = 1 : (tensor<2x6xf32>) -> (tensor<2x3xf32>, tensor<2x1xf32>, tensor<2x2xf32>)
  %0:3 = train.split %arg0 axis = 1 : (tensor<2x6xf32>) -> (tensor<2x3xf32>, tensor<2x1xf32>, tensor<2x2xf32>)
  return
}

// CHECK-LABEL: func.func @gather(
func.func @gather(%arg0: tensor<5x3xf32>, %arg1: tensor<2x4xi64>) {
  // CHECK: train.gather %arg0, %arg1 axis = 0 : tensor<5x3xf32>, tensor<2x4xi64> -> tensor<2x4x3xf32>
  %0 = train.gather %arg0, %arg1 axis = 0 : tensor<5x3xf32>, tensor<2x4xi64> -> tensor<2x4x3xf32>
  return
}

// CHECK-LABEL: func.func @gather_1(
func.func @gather_1(%arg0: tensor<2x5x3xf32>, %arg1: tensor<4xi32>) {
  // CHECK: train.gather %arg0, %arg1 axis = 1 : tensor<2x5x3xf32>, tensor<4xi32> -> tensor<2x4x3xf32>
  %0 = train.gather %arg0, %arg1 axis = 1 : tensor<2x5x3xf32>, tensor<4xi32> -> tensor<2x4x3xf32>
  return
}

// CHECK-LABEL: func.func @gather_2(
func.func @gather_2(%arg0: tensor<2x5x3xf32>, %arg1: tensor<i64>) {
  // CHECK: train.gather %arg0, %arg1 axis = 1 : tensor<2x5x3xf32>, tensor<i64> -> tensor<2x3xf32>
  %0 = train.gather %arg0, %arg1 axis = 1 : tensor<2x5x3xf32>, tensor<i64> -> tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @gather_3(
func.func @gather_3(%arg0: tensor<?x?x4xf32, #train.dims<batch, seq, 4>>, %arg1: tensor<2xi64>) {
  // CHECK: train.gather %arg0, %arg1 axis = 1 : tensor<?x?x4xf32, #train.dims<batch, seq, 4>>, tensor<2xi64> -> tensor<?x2x4xf32, #train.dims<batch, 2, 4>>
  %0 = train.gather %arg0, %arg1 axis = 1 : tensor<?x?x4xf32, #train.dims<batch, seq, 4>>, tensor<2xi64> -> tensor<?x2x4xf32, #train.dims<batch, 2, 4>>
  return
}

// CHECK-LABEL: func.func @gather_elements(
func.func @gather_elements(%arg0: tensor<2x5xf32>, %arg1: tensor<2x3xi64>) {
  // CHECK: train.gather_elements %arg0, %arg1 axis = 1 : tensor<2x5xf32>, tensor<2x3xi64> -> tensor<2x3xf32>
  %0 = train.gather_elements %arg0, %arg1 axis = 1 : tensor<2x5xf32>, tensor<2x3xi64> -> tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @gather_elements_1(
func.func @gather_elements_1(%arg0: tensor<4x2x3xf32>, %arg1: tensor<2x2x3xi64>) {
  // CHECK: train.gather_elements %arg0, %arg1 axis = 0 : tensor<4x2x3xf32>, tensor<2x2x3xi64> -> tensor<2x2x3xf32>
  %0 = train.gather_elements %arg0, %arg1 axis = 0 : tensor<4x2x3xf32>, tensor<2x2x3xi64> -> tensor<2x2x3xf32>
  return
}

// CHECK-LABEL: func.func @gather_nd(
func.func @gather_nd(%arg0: tensor<3x4x2xf32>, %arg1: tensor<5x2xi64>) {
  // CHECK: train.gather_nd %arg0, %arg1 batch_dims = 0 : tensor<3x4x2xf32>, tensor<5x2xi64> -> tensor<5x2xf32>
  %0 = train.gather_nd %arg0, %arg1 batch_dims = 0 : tensor<3x4x2xf32>, tensor<5x2xi64> -> tensor<5x2xf32>
  return
}

// CHECK-LABEL: func.func @gather_nd_1(
func.func @gather_nd_1(%arg0: tensor<3x4x2xf32>, %arg1: tensor<3x5x1xi64>) {
  // CHECK: train.gather_nd %arg0, %arg1 batch_dims = 1 : tensor<3x4x2xf32>, tensor<3x5x1xi64> -> tensor<3x5x2xf32>
  %0 = train.gather_nd %arg0, %arg1 batch_dims = 1 : tensor<3x4x2xf32>, tensor<3x5x1xi64> -> tensor<3x5x2xf32>
  return
}

// CHECK-LABEL: func.func @gather_nd_2(
func.func @gather_nd_2(%arg0: tensor<3x4xf32>, %arg1: tensor<5x2xi64>) {
  // CHECK: train.gather_nd %arg0, %arg1 batch_dims = 0 : tensor<3x4xf32>, tensor<5x2xi64> -> tensor<5xf32>
  %0 = train.gather_nd %arg0, %arg1 batch_dims = 0 : tensor<3x4xf32>, tensor<5x2xi64> -> tensor<5xf32>
  return
}

// CHECK-LABEL: func.func @scatter_add(
func.func @scatter_add(%arg0: tensor<2x4xi64>, %arg1: tensor<2x4x3xf32>) {
  // CHECK: train.scatter_add %arg0, %arg1 axis = 0 : tensor<2x4xi64>, tensor<2x4x3xf32> -> tensor<5x3xf32>
  %0 = train.scatter_add %arg0, %arg1 axis = 0 : tensor<2x4xi64>, tensor<2x4x3xf32> -> tensor<5x3xf32>
  return
}

// CHECK-LABEL: func.func @scatter_add_unique(
func.func @scatter_add_unique(%arg0: tensor<4xi32>, %arg1: tensor<4x3xf32>) {
  // CHECK: train.scatter_add %arg0, %arg1 axis = 0 unique : tensor<4xi32>, tensor<4x3xf32> -> tensor<5x3xf32>
  %0 = train.scatter_add %arg0, %arg1 axis = 0 unique : tensor<4xi32>, tensor<4x3xf32> -> tensor<5x3xf32>
  return
}

// CHECK-LABEL: func.func @scatter_add_1(
func.func @scatter_add_1(%arg0: tensor<4xi64>, %arg1: tensor<2x4x3xf32>) {
  // CHECK: train.scatter_add %arg0, %arg1 axis = 1 : tensor<4xi64>, tensor<2x4x3xf32> -> tensor<2x5x3xf32>
  %0 = train.scatter_add %arg0, %arg1 axis = 1 : tensor<4xi64>, tensor<2x4x3xf32> -> tensor<2x5x3xf32>
  return
}

// CHECK-LABEL: func.func @scatter_elements_add(
func.func @scatter_elements_add(%arg0: tensor<2x3xi64>, %arg1: tensor<2x3xf32>) {
  // CHECK: train.scatter_elements_add %arg0, %arg1 axis = 1 : tensor<2x3xi64>, tensor<2x3xf32> -> tensor<2x5xf32>
  %0 = train.scatter_elements_add %arg0, %arg1 axis = 1 : tensor<2x3xi64>, tensor<2x3xf32> -> tensor<2x5xf32>
  return
}

// CHECK-LABEL: func.func @cumsum(
func.func @cumsum(%arg0: tensor<2x5x3xf32>) {
  // CHECK: train.cumsum %arg0 axis = 1 : tensor<2x5x3xf32>
  %0 = train.cumsum %arg0 axis = 1 : tensor<2x5x3xf32>
  return
}

// CHECK-LABEL: func.func @cumsum_1(
func.func @cumsum_1(%arg0: tensor<2x5xf32>) {
  // CHECK: train.cumsum %arg0 axis = 1 exclusive : tensor<2x5xf32>
  %0 = train.cumsum %arg0 axis = 1 exclusive : tensor<2x5xf32>
  return
}

// CHECK-LABEL: func.func @cumsum_2(
func.func @cumsum_2(%arg0: tensor<2x5xf32>) {
  // CHECK: train.cumsum %arg0 axis = 0 reverse : tensor<2x5xf32>
  %0 = train.cumsum %arg0 axis = 0 reverse : tensor<2x5xf32>
  return
}

// CHECK-LABEL: func.func @cumsum_3(
func.func @cumsum_3(%arg0: tensor<2x5xi64>) {
  // CHECK: train.cumsum %arg0 axis = 1 exclusive reverse : tensor<2x5xi64>
  %0 = train.cumsum %arg0 axis = 1 exclusive reverse : tensor<2x5xi64>
  return
}

// CHECK-LABEL: func.func @reduce(
func.func @reduce(%arg0: tensor<2x3x4xf32>) {
  // CHECK: train.reduce sum %arg0 axes = [0, 2] : tensor<2x3x4xf32> -> tensor<3xf32>
  %0 = train.reduce sum %arg0 axes = [0, 2] : tensor<2x3x4xf32> -> tensor<3xf32>
  return
}

// CHECK-LABEL: func.func @reduce_2(
func.func @reduce_2(%arg0: tensor<?x?x4xf32, #train.dims<batch, seq, 4>>) {
  // CHECK: train.reduce sum %arg0 axes = [1] : tensor<?x?x4xf32, #train.dims<batch, seq, 4>> -> tensor<?x4xf32, #train.dims<batch, 4>>
  %0 = train.reduce sum %arg0 axes = [1] : tensor<?x?x4xf32, #train.dims<batch, seq, 4>> -> tensor<?x4xf32, #train.dims<batch, 4>>
  return
}

// CHECK-LABEL: func.func @reduce_5(
func.func @reduce_5(%arg0: tensor<2x3x4xf32>) {
  // CHECK: train.reduce prod %arg0 axes = [1] : tensor<2x3x4xf32> -> tensor<2x4xf32>
  %0 = train.reduce prod %arg0 axes = [1] : tensor<2x3x4xf32> -> tensor<2x4xf32>
  return
}

// CHECK-LABEL: func.func @reduce_7(
func.func @reduce_7(%arg0: tensor<3x4xi1>) {
  // CHECK: train.reduce max %arg0 axes = [1] : tensor<3x4xi1> -> tensor<3xi1>
  %0 = train.reduce max %arg0 axes = [1] : tensor<3x4xi1> -> tensor<3xi1>
  return
}

// CHECK-LABEL: func.func @matmul(
func.func @matmul(%arg0: tensor<2x3xf32>, %arg1: tensor<3x4xf32>) {
  // CHECK: train.matmul %arg0, %arg1 : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<2x4xf32>
  %0 = train.matmul %arg0, %arg1 : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<2x4xf32>
  return
}

// CHECK-LABEL: func.func @matmul_1(
func.func @matmul_1(%arg0: tensor<5x3x2xf32>, %arg1: tensor<5x3x4xf32>) {
  // CHECK: train.matmul %arg0 transposed, %arg1 : tensor<5x3x2xf32>, tensor<5x3x4xf32> -> tensor<5x2x4xf32>
  %0 = train.matmul %arg0 transposed, %arg1 : tensor<5x3x2xf32>, tensor<5x3x4xf32> -> tensor<5x2x4xf32>
  return
}

// CHECK-LABEL: func.func @matmul_2(
func.func @matmul_2(%arg0: tensor<2x3xf32>, %arg1: tensor<4x3xf32>) {
  // CHECK: train.matmul %arg0, %arg1 transposed : tensor<2x3xf32>, tensor<4x3xf32> -> tensor<2x4xf32>
  %0 = train.matmul %arg0, %arg1 transposed : tensor<2x3xf32>, tensor<4x3xf32> -> tensor<2x4xf32>
  return
}

// CHECK-LABEL: func.func @matmul_3(
func.func @matmul_3(%arg0: tensor<3x2xf32>, %arg1: tensor<4x3xf32>) {
  // CHECK: train.matmul %arg0 transposed, %arg1 transposed : tensor<3x2xf32>, tensor<4x3xf32> -> tensor<2x4xf32>
  %0 = train.matmul %arg0 transposed, %arg1 transposed : tensor<3x2xf32>, tensor<4x3xf32> -> tensor<2x4xf32>
  return
}

// CHECK-LABEL: func.func @matmul_4(
func.func @matmul_4(%arg0: tensor<?x?x4xf32, #train.dims<batch, seq, 4>>, %arg1: tensor<?x4x5xf32, #train.dims<batch, 4, 5>>) {
  // CHECK: train.matmul %arg0, %arg1 : tensor<?x?x4xf32, #train.dims<batch, seq, 4>>, tensor<?x4x5xf32, #train.dims<batch, 4, 5>> -> tensor<?x?x5xf32, #train.dims<batch, seq, 5>>
  %0 = train.matmul %arg0, %arg1 : tensor<?x?x4xf32, #train.dims<batch, seq, 4>>, tensor<?x4x5xf32, #train.dims<batch, 4, 5>> -> tensor<?x?x5xf32, #train.dims<batch, seq, 5>>
  return
}

// CHECK-LABEL: func.func @softmax(
func.func @softmax(%arg0: tensor<2x3x4xf32>) {
  // CHECK: train.softmax %arg0 axis = 2 : tensor<2x3x4xf32>
  %0 = train.softmax %arg0 axis = 2 : tensor<2x3x4xf32>
  return
}

// CHECK-LABEL: func.func @softmax_1(
func.func @softmax_1(%arg0: tensor<2x3x4xf32>) {
  // CHECK: train.softmax %arg0 axis = 1 : tensor<2x3x4xf32>
  %0 = train.softmax %arg0 axis = 1 : tensor<2x3x4xf32>
  return
}

// CHECK-LABEL: func.func @softmax_2(
func.func @softmax_2(%arg0: tensor<3x4xf32>) {
  // CHECK: train.softmax %arg0 axis = 1 guarded : tensor<3x4xf32>
  %0 = train.softmax %arg0 axis = 1 guarded : tensor<3x4xf32>
  return
}

// CHECK-LABEL: func.func @softmax_3(
func.func @softmax_3(%arg0: tensor<?x?x4xf32, #train.dims<batch, seq, 4>>) {
  // CHECK: train.softmax %arg0 axis = 1 guarded : tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
  %0 = train.softmax %arg0 axis = 1 guarded : tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
  return
}

// CHECK-LABEL: func.func @log_softmax(
func.func @log_softmax(%arg0: tensor<2x3x4xf32>) {
  // CHECK: train.log_softmax %arg0 axis = 2 : tensor<2x3x4xf32>
  %0 = train.log_softmax %arg0 axis = 2 : tensor<2x3x4xf32>
  return
}

// CHECK-LABEL: func.func @log_softmax_1(
func.func @log_softmax_1(%arg0: tensor<?x?x4xf32, #train.dims<batch, seq, 4>>) {
  // CHECK: train.log_softmax %arg0 axis = 1 : tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
  %0 = train.log_softmax %arg0 axis = 1 : tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
  return
}

// CHECK-LABEL: func.func @layer_norm(
func.func @layer_norm(%arg0: tensor<2x3x4xf32>, %arg1: tensor<4xf32>, %arg2: tensor<4xf32>) {
  // CHECK: train.layer_norm %arg0, %arg1, %arg2 {axis = 2 : i64, epsilon = 1.000000e-05 : f64} : (tensor<2x3x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x3x4xf32>, tensor<2x3xf32>, tensor<2x3xf32>)
  %result, %mean, %rstd = train.layer_norm %arg0, %arg1, %arg2 {axis = 2 : i64, epsilon = 1.000000e-05 : f64} : (tensor<2x3x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x3x4xf32>, tensor<2x3xf32>, tensor<2x3xf32>)
  return
}

// CHECK-LABEL: func.func @layer_norm_1(
func.func @layer_norm_1(%arg0: tensor<?x?x4xf32, #train.dims<batch, seq, 4>>, %arg1: tensor<4xf32>) {
  // CHECK: train.layer_norm %arg0, %arg1 {axis = 2 : i64, epsilon = 1.000000e-03 : f64} : (tensor<?x?x4xf32, #train.dims<batch, seq, 4>>, tensor<4xf32>) -> (tensor<?x?x4xf32, #train.dims<batch, seq, 4>>, tensor<?x?xf32, #train.dims<batch, seq>>, tensor<?x?xf32, #train.dims<batch, seq>>)
  %result, %mean, %rstd = train.layer_norm %arg0, %arg1 {axis = 2 : i64, epsilon = 1.000000e-03 : f64} : (tensor<?x?x4xf32, #train.dims<batch, seq, 4>>, tensor<4xf32>) -> (tensor<?x?x4xf32, #train.dims<batch, seq, 4>>, tensor<?x?xf32, #train.dims<batch, seq>>, tensor<?x?xf32, #train.dims<batch, seq>>)
  return
}

// CHECK-LABEL: func.func @layer_norm_2(
func.func @layer_norm_2(%arg0: tensor<2x3x4xf32>, %arg1: tensor<3x4xf32>, %arg2: tensor<3x4xf32>) {
  // CHECK: train.layer_norm %arg0, %arg1, %arg2 {axis = 1 : i64, epsilon = 1.000000e-05 : f64} : (tensor<2x3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>) -> (tensor<2x3x4xf32>, tensor<2xf32>, tensor<2xf32>)
  %result, %mean, %rstd = train.layer_norm %arg0, %arg1, %arg2 {axis = 1 : i64, epsilon = 1.000000e-05 : f64} : (tensor<2x3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>) -> (tensor<2x3x4xf32>, tensor<2xf32>, tensor<2xf32>)
  return
}

// CHECK-LABEL: func.func @cross_entropy(
func.func @cross_entropy(%arg0: tensor<6x5xf32>, %arg1: tensor<6xi64>) {
  // CHECK: train.cross_entropy %arg0, %arg1 : (tensor<6x5xf32>, tensor<6xi64>) -> (tensor<6xf32>, tensor<6xf32>)
  %loss, %lse = train.cross_entropy %arg0, %arg1 : (tensor<6x5xf32>, tensor<6xi64>) -> (tensor<6xf32>, tensor<6xf32>)
  return
}

// CHECK-LABEL: func.func @cross_entropy_1(
func.func @cross_entropy_1(%arg0: tensor<2x4x3xf32>, %arg1: tensor<2x4xi64>) {
  // CHECK: train.cross_entropy %arg0, %arg1 {ignore_index = -1 : i64} : (tensor<2x4x3xf32>, tensor<2x4xi64>) -> (tensor<2x4xf32>, tensor<2x4xf32>)
  %loss, %lse = train.cross_entropy %arg0, %arg1 {ignore_index = -1 : i64} : (tensor<2x4x3xf32>, tensor<2x4xi64>) -> (tensor<2x4xf32>, tensor<2x4xf32>)
  return
}

// CHECK-LABEL: func.func @cross_entropy_2(
func.func @cross_entropy_2(%arg0: tensor<?x?x4xf32, #train.dims<batch, seq, 4>>, %arg1: tensor<?x?xi64, #train.dims<batch, seq>>) {
  // CHECK: train.cross_entropy %arg0, %arg1 {ignore_index = 1 : i64} : (tensor<?x?x4xf32, #train.dims<batch, seq, 4>>, tensor<?x?xi64, #train.dims<batch, seq>>) -> (tensor<?x?xf32, #train.dims<batch, seq>>, tensor<?x?xf32, #train.dims<batch, seq>>)
  %loss, %lse = train.cross_entropy %arg0, %arg1 {ignore_index = 1 : i64} : (tensor<?x?x4xf32, #train.dims<batch, seq, 4>>, tensor<?x?xi64, #train.dims<batch, seq>>) -> (tensor<?x?xf32, #train.dims<batch, seq>>, tensor<?x?xf32, #train.dims<batch, seq>>)
  return
}

// CHECK-LABEL: func.func @sgd(
func.func @sgd(%arg0: tensor<2x3xf32>, %arg1: tensor<2x3xf32>, %arg2: tensor<f32>, %arg3: tensor<f32>, %arg4: tensor<i64>) {
  // CHECK: train.sgd %arg0, %arg1, %arg2, %arg3, %arg4 {momentum = 0.000000e+00 : f64, operandSegmentSizes = array<i32: 1, 1, 0, 1, 1, 1>} : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>, tensor<f32>, tensor<i64>) -> tensor<2x3xf32>
  %result = train.sgd %arg0, %arg1, %arg2, %arg3, %arg4 {momentum = 0.000000e+00 : f64, operandSegmentSizes = array<i32: 1, 1, 0, 1, 1, 1>} : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>, tensor<f32>, tensor<i64>) -> tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @sgd_1(
func.func @sgd_1(%arg0: tensor<2x3xf32>, %arg1: tensor<2x3xf32>, %arg2: tensor<2x3xf32>, %arg3: tensor<f32>, %arg4: tensor<f32>, %arg5: tensor<i64>) {
  // CHECK: train.sgd %arg0, %arg1, %arg2, %arg3, %arg4, %arg5 {momentum = 9.000000e-01 : f64, nesterov} : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>, tensor<f32>, tensor<i64>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
  %result, %newVelocity = train.sgd %arg0, %arg1, %arg2, %arg3, %arg4, %arg5 {momentum = 9.000000e-01 : f64, nesterov} : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>, tensor<f32>, tensor<i64>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
  return
}

// CHECK-LABEL: func.func @sgd_2(
func.func @sgd_2(%arg0: tensor<2x3xf32>, %arg1: tensor<2x3xf32>, %arg2: tensor<2x3xf32>, %arg3: tensor<f32>, %arg4: tensor<f32>, %arg5: tensor<i64>) {
  // CHECK: train.sgd %arg0, %arg1, %arg2, %arg3, %arg4, %arg5 {momentum = 9.000000e-01 : f64} : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>, tensor<f32>, tensor<i64>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
  %result, %newVelocity = train.sgd %arg0, %arg1, %arg2, %arg3, %arg4, %arg5 {momentum = 9.000000e-01 : f64} : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>, tensor<f32>, tensor<i64>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
  return
}

// CHECK-LABEL: func.func @adam(
func.func @adam(%arg0: tensor<2x3xf32>, %arg1: tensor<2x3xf32>, %arg2: tensor<2x3xf32>, %arg3: tensor<2x3xf32>, %arg4: tensor<f32>, %arg5: tensor<f32>, %arg6: tensor<i64>) {
  // CHECK: train.adam %arg0, %arg1, %arg2, %arg3, %arg4, %arg5, %arg6 {beta1 = 9.000000e-01 : f64, beta2 = 0.99899999999999999 : f64, epsilon = 1.000000e-08 : f64} : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>, tensor<f32>, tensor<i64>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>)
  %result, %newExpAvg, %newExpAvgSq = train.adam %arg0, %arg1, %arg2, %arg3, %arg4, %arg5, %arg6 {beta1 = 9.000000e-01 : f64, beta2 = 0.99899999999999999 : f64, epsilon = 1.000000e-08 : f64} : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>, tensor<f32>, tensor<i64>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>)
  return
}

// CHECK-LABEL: func.func @adam_1(
func.func @adam_1(%arg0: tensor<2x3xf32>, %arg1: tensor<2x3xf32>, %arg2: tensor<2x3xf32>, %arg3: tensor<2x3xf32>, %arg4: tensor<f32>, %arg5: tensor<f32>, %arg6: tensor<i64>) {
  // CHECK: train.adam %arg0, %arg1, %arg2, %arg3, %arg4, %arg5, %arg6 {beta1 = 9.000000e-01 : f64, beta2 = 0.99899999999999999 : f64, decoupled, epsilon = 1.000000e-08 : f64} : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>, tensor<f32>, tensor<i64>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>)
  %result, %newExpAvg, %newExpAvgSq = train.adam %arg0, %arg1, %arg2, %arg3, %arg4, %arg5, %arg6 {beta1 = 9.000000e-01 : f64, beta2 = 0.99899999999999999 : f64, decoupled, epsilon = 1.000000e-08 : f64} : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>, tensor<f32>, tensor<i64>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>)
  return
}

// CHECK-LABEL: func.func @lamb(
func.func @lamb(%arg0: tensor<2x3xf32>, %arg1: tensor<2x3xf32>, %arg2: tensor<2x3xf32>, %arg3: tensor<2x3xf32>, %arg4: tensor<f32>, %arg5: tensor<f32>, %arg6: tensor<i64>) {
  // CHECK: train.lamb %arg0, %arg1, %arg2, %arg3, %arg4, %arg5, %arg6 {beta1 = 9.000000e-01 : f64, beta2 = 0.99899999999999999 : f64, epsilon = 9.9999999999999995E-7 : f64} : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>, tensor<f32>, tensor<i64>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>)
  %result, %newExpAvg, %newExpAvgSq = train.lamb %arg0, %arg1, %arg2, %arg3, %arg4, %arg5, %arg6 {beta1 = 9.000000e-01 : f64, beta2 = 0.99899999999999999 : f64, epsilon = 9.9999999999999995E-7 : f64} : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>, tensor<f32>, tensor<i64>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>)
  return
}

// CHECK-LABEL: func.func @lamb_1(
func.func @lamb_1(%arg0: tensor<4xf32>, %arg1: tensor<4xf32>, %arg2: tensor<4xf32>, %arg3: tensor<4xf32>, %arg4: tensor<f32>, %arg5: tensor<f32>, %arg6: tensor<i64>) {
  // CHECK: train.lamb %arg0, %arg1, %arg2, %arg3, %arg4, %arg5, %arg6 {beta1 = 9.000000e-01 : f64, beta2 = 0.99899999999999999 : f64, epsilon = 9.9999999999999995E-7 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>, tensor<i64>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  %result, %newExpAvg, %newExpAvgSq = train.lamb %arg0, %arg1, %arg2, %arg3, %arg4, %arg5, %arg6 {beta1 = 9.000000e-01 : f64, beta2 = 0.99899999999999999 : f64, epsilon = 9.9999999999999995E-7 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>, tensor<i64>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}

// CHECK-LABEL: func.func @fusion(
func.func @fusion(%arg0: tensor<2x3xf32>) {
  // CHECK: train.fusion(%arg0) : (tensor<2x3xf32>) -> tensor<2xf32> {
  // CHECK: ^bb0(%{{.*}}: tensor<2x3xf32>):
  // CHECK: train.exp %{{.*}} : tensor<2x3xf32>
  // CHECK: train.reduce sum %{{.*}} axes = [1] : tensor<2x3xf32> -> tensor<2xf32>
  // CHECK: train.yield %{{.*}} : tensor<2xf32>
  // CHECK: }
  %0 = train.fusion(%arg0) : (tensor<2x3xf32>) -> tensor<2xf32> {
  ^bb0(%arg1: tensor<2x3xf32>):
    %1 = train.exp %arg1 : tensor<2x3xf32>
    %2 = train.reduce sum %1 axes = [1] : tensor<2x3xf32> -> tensor<2xf32>
    train.yield %2 : tensor<2xf32>
  }
  return
}

// Segments behind each other, with random numbers that know where rows stood.
// CHECK-LABEL: func.func @attention_segments(
func.func @attention_segments(%q: tensor<1x4x6x8xf32>, %k: tensor<1x2x6x8xf32>, %seed: tensor<2xi64>,
                              %offsets: tensor<4xi32>, %positions: tensor<2x6xi32>) {
  // CHECK: %[[RESULT:.*]], %[[STATS:.*]] = train.attention %{{.*}}, %{{.*}}, %{{.*}} seed %{{.*}} segments %{{.*}} longest <3> positions %{{.*}} causal
  %o, %stats = train.attention %q, %k, %k seed %seed segments %offsets longest <3> positions %positions causal {scale = 1.0 : f64, dropout = 0.5 : f64} : (tensor<1x4x6x8xf32>, tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>, tensor<2xi64>, tensor<4xi32>, tensor<2x6xi32>) -> (tensor<1x4x6x8xf32>, tensor<1x4x6xf32>)
  // CHECK: train.attention_grad %{{.*}}, %{{.*}}, %{{.*}}, %[[RESULT]], %[[STATS]], %[[RESULT]] seed %{{.*}} segments %{{.*}} longest <3> positions %{{.*}} causal
  %0:3 = train.attention_grad %q, %k, %k, %o, %stats, %o seed %seed segments %offsets longest <3> positions %positions causal {scale = 1.0 : f64, dropout = 0.5 : f64} : (tensor<1x4x6x8xf32>, tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>, tensor<1x4x6x8xf32>, tensor<1x4x6xf32>, tensor<1x4x6x8xf32>, tensor<2xi64>, tensor<4xi32>, tensor<2x6xi32>) -> (tensor<1x4x6x8xf32>, tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>)
  return
}

// Windows of columns around a row's own.
// CHECK-LABEL: func.func @attention_windows(
func.func @attention_windows(%q: tensor<2x4x6x8xf32>) {
  // CHECK: %[[RESULT:.*]], %[[STATS:.*]] = train.attention {{.*}} causal {before = 3 : i64, dropout
  %o, %stats = train.attention %q, %q, %q causal {before = 3 : i64, scale = 1.0 : f64, dropout = 0.0 : f64} : (tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>) -> (tensor<2x4x6x8xf32>, tensor<2x4x6xf32>)
  // CHECK: train.attention_grad {{.*}} {after = 0 : i64, before = 3 : i64, dropout
  %0:3 = train.attention_grad %q, %q, %q, %o, %stats, %o {before = 3 : i64, after = 0 : i64, scale = 1.0 : f64, dropout = 0.0 : f64} : (tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>, tensor<2x4x6xf32>, tensor<2x4x6x8xf32>) -> (tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>)
  return
}

// The gradient of a bias.
// CHECK-LABEL: func.func @attention_bias(
func.func @attention_bias(%q: tensor<2x4x6x8xbf16>, %bias: tensor<1x4x6x6xbf16>, %stats: tensor<2x4x6xf32>) {
  // CHECK: %{{.*}}, %{{.*}}, %{{.*}}, %[[DBIAS:.*]] = train.attention_grad {{.*}} bias %{{.*}} causal {dropout
  %dq, %dk, %dv, %dbias = train.attention_grad %q, %q, %q, %q, %stats, %q bias %bias causal {scale = 1.0 : f64, dropout = 0.0 : f64} : (tensor<2x4x6x8xbf16>, tensor<2x4x6x8xbf16>, tensor<2x4x6x8xbf16>, tensor<2x4x6x8xbf16>, tensor<2x4x6xf32>, tensor<2x4x6x8xbf16>, tensor<1x4x6x6xbf16>) -> (tensor<2x4x6x8xbf16>, tensor<2x4x6x8xbf16>, tensor<2x4x6x8xbf16>, tensor<1x4x6x6xbf16>)
  return
}

// A symbol is declared in the module.
// CHECK: train.symbol @batch min 1 input "input_ids" axis 0
train.symbol @batch min 1 input "input_ids" axis 0
// CHECK: train.symbol @seq min 1 max 512 divisor 8 input "input_ids" axis 1
train.symbol @seq min 1 max 512 divisor 8 input "input_ids" axis 1

// Roles are attributes of arguments and results.
// CHECK-LABEL: func.func @roles(
// CHECK-SAME: %{{.*}}: tensor<8xf32> {train.decay_scale = 0.000000e+00 : f64, train.name = "w", train.role = "parameter", train.trainable, train.weight = #train.weight<"model.onnx.data", 64, 32, false>}
// CHECK-SAME: %{{.*}}: tensor<f32> {train.name = "lr", train.role = "hyper"}
func.func @roles(%w: tensor<8xf32> {train.role = "parameter", train.name = "w", train.trainable,
                                    train.decay_scale = 0.0 : f64,
                                    train.weight = #train.weight<"model.onnx.data", 64, 32, false>},
                 %lr: tensor<f32> {train.role = "hyper", train.name = "lr"}) {
  return
}

// CHECK-LABEL: func.func @all_reduce(
func.func @all_reduce(%arg0: tensor<4x3xf32>, %arg1: tensor<3xf32>) {
  // CHECK: train.all_reduce %arg0, %arg1 : (tensor<4x3xf32>, tensor<3xf32>) -> (tensor<4x3xf32>, tensor<3xf32>)
  %0:2 = train.all_reduce %arg0, %arg1 : (tensor<4x3xf32>, tensor<3xf32>) -> (tensor<4x3xf32>, tensor<3xf32>)
  return
}

// CHECK-LABEL: func.func @narrow_sums(
func.func @narrow_sums(%arg0: tensor<4x3xbf16>, %arg1: tensor<4x3xf16>) {
  // CHECK: train.all_reduce %arg0 : (tensor<4x3xbf16>) -> tensor<4x3xf32>
  %0 = train.all_reduce %arg0 : (tensor<4x3xbf16>) -> tensor<4x3xf32>
  // CHECK: train.reduce_scatter %arg1 units = [4] : (tensor<4x3xf16>) -> tensor<?x4xf32, #train.dims<floordiv(world + 2, world), 4>>
  %1 = train.reduce_scatter %arg1 units = [4] : (tensor<4x3xf16>) -> tensor<?x4xf32, #train.dims<floordiv(world + 2, world), 4>>
  return
}

// CHECK-LABEL: func.func @shards(
func.func @shards(%arg0: tensor<4x3xf32>) {
  // CHECK: %[[S:.*]] = train.reduce_scatter %arg0 units = [4] : (tensor<4x3xf32>) -> tensor<?x4xf32, #train.dims<floordiv(world + 2, world), 4>>
  %0 = train.reduce_scatter %arg0 units = [4] : (tensor<4x3xf32>) -> tensor<?x4xf32, #train.dims<floordiv(world + 2, world), 4>>
  // CHECK: train.all_gather %[[S]] units = [4] : (tensor<?x4xf32, #train.dims<floordiv(world + 2, world), 4>>) -> tensor<4x3xf32>
  %1 = train.all_gather %0 units = [4] : (tensor<?x4xf32, #train.dims<floordiv(world + 2, world), 4>>) -> tensor<4x3xf32>
  return
}

// CHECK-LABEL: func.func @convolutions(
func.func @convolutions(%x: tensor<2x9x9x4xf32>, %w: tensor<6x3x3x2xf32>) {
  // CHECK: %[[Y:.*]] = train.conv %arg0, %arg1 strides = [2, 1] dilations = [1, 2] low = <1, 0> high = <0, seq> groups = 2 : (tensor<2x9x9x4xf32>, tensor<6x3x3x2xf32>) -> tensor<2x4x5x6xf32>
  %y = train.conv %x, %w strides = [2, 1] dilations = [1, 2] low = <1, 0> high = <0, seq> groups = 2 : (tensor<2x9x9x4xf32>, tensor<6x3x3x2xf32>) -> tensor<2x4x5x6xf32>
  // CHECK: train.conv_data_grad %[[Y]], %arg1 strides = [2, 1] dilations = [1, 2] low = <1, 0> high = <0, seq> groups = 2 : (tensor<2x4x5x6xf32>, tensor<6x3x3x2xf32>) -> tensor<2x9x9x4xf32>
  %dx = train.conv_data_grad %y, %w strides = [2, 1] dilations = [1, 2] low = <1, 0> high = <0, seq> groups = 2 : (tensor<2x4x5x6xf32>, tensor<6x3x3x2xf32>) -> tensor<2x9x9x4xf32>
  // CHECK: train.conv_filter_grad %arg0, %[[Y]] strides = [2, 1] dilations = [1, 2] low = <1, 0> high = <0, seq> groups = 2 : (tensor<2x9x9x4xf32>, tensor<2x4x5x6xf32>) -> tensor<6x3x3x2xf32>
  %dw = train.conv_filter_grad %x, %y strides = [2, 1] dilations = [1, 2] low = <1, 0> high = <0, seq> groups = 2 : (tensor<2x9x9x4xf32>, tensor<2x4x5x6xf32>) -> tensor<6x3x3x2xf32>
  return
}
