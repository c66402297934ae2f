// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the verifiers of the train dialect refuse, each with its message.
// RUN: trainc-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{expected a dim for each of 2 axes, got 1}}
func.func private @f(tensor<?x3xf32, #train.dims<batch>>)

// -----
// expected-error@+1 {{expected no #train.dims on a tensor of constant size}}
func.func private @f(tensor<4x3xf32, #train.dims<4, 3>>)

// -----
// expected-error@+1 {{dim batch does not fit axis 1 of the tensor}}
func.func private @f(tensor<?x3xf32, #train.dims<seq, batch>>)

// -----
// expected-error@+1 {{dim 4 does not fit axis 0 of the tensor}}
func.func private @f(tensor<?x3xf32, #train.dims<4, 3>>)

// -----
// expected-error@+1 {{expected valid keyword}}
func.func private @f(tensor<?xf32, #train.dims<batch + >>)

// -----
// expected-error@+1 {{a size function is written inside #train.dim<>}}
func.func private @f() attributes {x = #train.dim_fn<max(a, b)>}

// -----
func.func @f(%x: tensor<?x3xf32>) {
  // expected-error@+1 {{operand #0 must be tensor with constant or named dims}}
  %0 = train.exp %x : tensor<?x3xf32>
  return
}

// -----
func.func @f(%x: tensor<2xi32>) {
  // expected-error@+1 {{operand #0 must be tensor with constant or named dims of floating-point values, but got 'tensor<2xi32>'}}
  %0 = train.exp %x : tensor<2xi32>
  return
}

// -----
func.func @f() {
  // expected-error@+1 {{expected a value of the result's element type 'f32', got 'f64'}}
  %0 = train.full 1.0 : f64 : tensor<2xf32>
  return
}

// -----
func.func @f() {
  // expected-error@+1 {{expected an axis below the rank 1, got 1}}
  %0 = train.iota 1 : tensor<2xf32>
  return
}

// -----
func.func @f(%x: tensor<2xf32>, %k: tensor<i64>) {
  // expected-error@+1 {{expected a ratio in [0, 1), got 1}}
  %0 = train.dropout %x, %k {ratio = 1.0 : f64} : tensor<2xf32>, tensor<i64>
  return
}

// -----
// expected-note@+1 {{key is argument 0 of @f, of type 'tensor<i32>'}}
func.func @f(%k: tensor<i32>) {
  // expected-error@+1 {{expected the key to be tensor<i64>, got 'tensor<i32>'}}
  %0 = train.random_bits %k : tensor<i32> -> tensor<2xi32>
  return
}

// -----
func.func @f(%k: tensor<i64>) {
  // expected-error@+1 {{expected a result of i32, got 'i64'}}
  %0 = train.random_bits %k : tensor<i64> -> tensor<2xi64>
  return
}

// -----
// expected-note@+1 {{the operand is argument 0 of @f, of type 'tensor<2xf32>'}}
func.func @f(%x: tensor<2xf32>) {
  // expected-error@+1 {{expected types of 32 bits, got 'f32' and 'i64'}}
  %0 = train.bitcast %x : tensor<2xf32> -> tensor<2xi64>
  return
}

// -----
// expected-note@+1 {{the operand is argument 0 of @f, of type 'tensor<2xf16>'}}
func.func @f(%x: tensor<2xf16>) {
  // expected-error@+1 {{expected types of 32 bits, got 'f16' and 'i16'}}
  %0 = train.bitcast %x : tensor<2xf16> -> tensor<2xi16>
  return
}

// -----
// expected-note@+1 {{the operand is argument 0 of @f, of type 'tensor<2xf32>'}}
func.func @f(%x: tensor<2xf32>) {
  // expected-error@+1 {{expected the operand's shape [2], got [1, 2]}}
  %0 = train.bitcast %x : tensor<2xf32> -> tensor<1x2xi32>
  return
}

// -----
// expected-note@+1 {{key is argument 1 of @f, of type 'tensor<2xi64>'}}
func.func @f(%x: tensor<2xf32>, %k: tensor<2xi64>) {
  // expected-error@+1 {{expected the key to be tensor<i64>, got 'tensor<2xi64>'}}
  %0 = train.dropout %x, %k {ratio = 0.5 : f64} : tensor<2xf32>, tensor<2xi64>
  return
}

// -----
// expected-note@+1 {{the operand is argument 0 of @f, of type 'tensor<2x3xf32>'}}
func.func @f(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{expected one axis for each of the operand's 2 axes, got 1}}
  %0 = train.broadcast %x axes = [1] : tensor<2x3xf32> -> tensor<4x2x3xf32>
  return
}

// -----
func.func @f(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{expected ascending axes below the result's rank 3, got 1}}
  %0 = train.broadcast %x axes = [2, 1] : tensor<2x3xf32> -> tensor<4x3x2xf32>
  return
}

// -----
// expected-note@+1 {{the operand is argument 0 of @f, of type 'tensor<2x3xf32>'}}
func.func @f(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{expected size 3 on axis 2 of the result, got 5}}
  %0 = train.broadcast %x axes = [1, 2] : tensor<2x3xf32> -> tensor<4x2x5xf32>
  return
}

// -----
// expected-note@+1 {{the operand is argument 0 of @f, of type 'tensor<2xf32>'}}
func.func @f(%x: tensor<2xf32>) {
  // expected-error@+1 {{expected the result to have the operand's element type 'f32', got 'f64'}}
  %0 = train.broadcast %x axes = [0] : tensor<2xf32> -> tensor<2x3xf64>
  return
}

// -----
// expected-note@+1 {{the operand is argument 0 of @f, of type 'tensor<?x6xf32, #train.dims<batch, 6>>'}}
func.func @f(%x: tensor<?x6xf32, #train.dims<batch, 6>>) {
  // expected-error@+1 {{expected equal element counts, got 6*batch and 5*batch}}
  %0 = train.reshape %x : tensor<?x6xf32, #train.dims<batch, 6>> -> tensor<?xf32, #train.dims<5*batch>>
  return
}

// -----
// expected-note@+1 {{the operand is argument 0 of @f, of type 'tensor<2x3xf32>'}}
func.func @f(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{expected a permutation of 2 axes}}
  %0 = train.transpose %x permutation = [0, 0] : tensor<2x3xf32> -> tensor<2x2xf32>
  return
}

// -----
func.func @f(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{expected a result of shape [3, 2], got [2, 3]}}
  %0 = train.transpose %x permutation = [1, 0] : tensor<2x3xf32> -> tensor<2x3xf32>
  return
}

// -----
// expected-note@+1 {{the operand is argument 0 of @f, of type 'tensor<2x3xf32>'}}
func.func @f(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{expected starts, steps and a result of the operand's rank 2}}
  %0 = train.slice %x starts = <0> steps = [1, 1] : tensor<2x3xf32> -> tensor<2x1xf32>
  return
}

// -----
func.func @f(%x: tensor<3xf32>) {
  // expected-error@+1 {{expected steps other than 0}}
  %0 = train.slice %x starts = <0> steps = [0] : tensor<3xf32> -> tensor<2xf32>
  return
}

// -----
// expected-note@+1 {{the operand is argument 0 of @f, of type 'tensor<3xf32>'}}
func.func @f(%x: tensor<3xf32>) {
  // expected-error@+1 {{expected low and a result of the operand's rank 1}}
  %0 = train.pad %x value = 0.0 : f32 low = <0, 0> : tensor<3xf32> -> tensor<4xf32>
  return
}

// -----
// expected-note@+1 {{the operand is argument 0 of @f, of type 'tensor<3xf32>'}}
func.func @f(%x: tensor<3xf32>) {
  // expected-error@+1 {{expected a value of the element type 'f32', got 'i64'}}
  %0 = train.pad %x value = 0 : i64 low = <1> : tensor<3xf32> -> tensor<4xf32>
  return
}

// -----
// expected-note@+1 {{the operand is argument 0 of @f, of type 'tensor<3x2xf32>'}}
func.func @f(%x: tensor<3x2xf32>) {
  // expected-error@+1 {{expected two axes below the rank 2, got 1 and 2}}
  %0 = train.window %x axis = 1 taps = 2 stride = 1 dilation = 1 : tensor<3x2xf32> -> tensor<3x2xf32>
  return
}

// -----
func.func @f(%x: tensor<3x2xf32>) {
  // expected-error@+1 {{expected a stride and a dilation of at least 1}}
  %0 = train.window %x axis = 0 taps = 1 stride = 0 dilation = 1 : tensor<3x2xf32> -> tensor<3x2xf32>
  return
}

// -----
// expected-note@+1 {{the operand is argument 0 of @f, of type 'tensor<3x2xf32>'}}
func.func @f(%x: tensor<3x2xf32>) {
  // expected-error@+1 {{expected size 2 on axis 1 of the result, got 1}}
  %0 = train.window %x axis = 0 taps = 1 stride = 1 dilation = 1 : tensor<3x2xf32> -> tensor<3x1xf32>
  return
}

// -----
// expected-note@+1 {{the operand is argument 0 of @f, of type 'tensor<3x2xf32>'}}
func.func @f(%x: tensor<3x2xf32>) {
  // expected-error@+1 {{reaches position 4 of an axis of size 3}}
  %0 = train.window %x axis = 0 taps = 1 stride = 3 dilation = 1 : tensor<3x2xf32> -> tensor<2x2xf32>
  return
}

// -----
// expected-note@+1 {{the operand is argument 0 of @f, of type 'tensor<3x2xf32>'}}
func.func @f(%x: tensor<3x2xf32>) {
  // expected-error@+1 {{reaches position 5 of an axis of size 5}}
  %0 = train.spread %x axis = 0 taps = 1 stride = 2 dilation = 1 : tensor<3x2xf32> -> tensor<5x2xf32>
  return
}

// -----
// expected-note@+1 {{the operand is argument 0 of @f, of type 'tensor<3x2xf32>'}}
func.func @f(%x: tensor<3x2xf32>) {
  // expected-error@+1 {{expected a result of rank 2, got 3}}
  %0 = train.spread %x axis = 0 taps = 1 stride = 2 dilation = 1 : tensor<3x2xf32> -> tensor<6x2x1xf32>
  return
}

// -----
// expected-note@+1 {{the operand is argument 0 of @f, of type 'tensor<3x2xf32>'}}
func.func @f(%x: tensor<3x2xf32>) {
  // expected-error@+1 {{expected the result to have the operand's element type}}
  %0 = train.spread %x axis = 0 taps = 1 stride = 2 dilation = 1 : tensor<3x2xf32> -> tensor<6x2xf64>
  return
}

// -----
func.func @f(%x: tensor<3x2xf32>, %y: tensor<2x2xf32>) {
  // expected-error@+1 {{expected parts that add up to 6 on axis 0, got 5}}
  %0 = train.concat %x, %y axis = 0 : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<6x2xf32>
  return
}

// -----
// expected-note@+1 {{the part is argument 1 of @f, of type 'tensor<2xf32>'}}
func.func @f(%x: tensor<3x2xf32>, %y: tensor<2xf32>) {
  // expected-error@+1 {{expected parts of rank 2, got 1}}
  %0 = train.concat %x, %y axis = 0 : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<5x2xf32>
  return
}

// -----
func.func @f(%x: tensor<5x2xf32>) {
  // expected-error@+1 {{expected a part of shape [2, 2], got [2, 3]}}
  %0:2 = train.split %x axis = 0 : (tensor<5x2xf32>) -> (tensor<3x2xf32>, tensor<2x3xf32>)
  return
}

// -----
func.func @f() {
  // expected-error@+1 {{expected at least one part}}
  %0 = train.concat axis = 0 : () -> tensor<0xf32>
  return
}

// -----
func.func @f(%d: tensor<5x3xf32>, %i: tensor<4xi64>) {
  // expected-error@+1 {{expected an axis below the rank 2, got 2}}
  %0 = train.gather %d, %i axis = 2 : tensor<5x3xf32>, tensor<4xi64> -> tensor<4x3xf32>
  return
}

// -----
func.func @f(%d: tensor<5x3xf32>, %i: tensor<4xi64>) {
  // expected-error@+1 {{expected a result of shape [4, 3], got [3, 4]}}
  %0 = train.gather %d, %i axis = 0 : tensor<5x3xf32>, tensor<4xi64> -> tensor<3x4xf32>
  return
}

// -----
// expected-note@+2 {{indices is argument 1 of @f, of type 'tensor<4xi64>'}}
// expected-note@+1 {{data is argument 0 of @f, of type 'tensor<5x3xf32>'}}
func.func @f(%d: tensor<5x3xf32>, %i: tensor<4xi64>) {
  // expected-error@+1 {{expected indices of the data's rank 2, got 1}}
  %0 = train.gather_elements %d, %i axis = 0 : tensor<5x3xf32>, tensor<4xi64> -> tensor<4xf32>
  return
}

// -----
// expected-note@+1 {{indices is argument 1 of @f, of type 'tensor<?xi64, #train.dims<n>>'}}
func.func @f(%d: tensor<5x3xf32>, %i: tensor<?xi64, #train.dims<n>>) {
  // expected-error@+1 {{expected indices with a constant last axis}}
  %0 = train.gather_nd %d, %i batch_dims = 0 : tensor<5x3xf32>, tensor<?xi64, #train.dims<n>> -> tensor<3xf32>
  return
}

// -----
// expected-note@+2 {{indices is argument 1 of @f, of type 'tensor<4x3xi64>'}}
// expected-note@+1 {{data is argument 0 of @f, of type 'tensor<5x3xf32>'}}
func.func @f(%d: tensor<5x3xf32>, %i: tensor<4x3xi64>) {
  // expected-error@+1 {{expected batch_dims + index depth of at most the data's rank 2, got 0 + 3}}
  %0 = train.gather_nd %d, %i batch_dims = 0 : tensor<5x3xf32>, tensor<4x3xi64> -> tensor<4xf32>
  return
}

// -----
// expected-note@+2 {{indices is argument 1 of @f, of type 'tensor<4x1xi64>'}}
// expected-note@+1 {{data is argument 0 of @f, of type 'tensor<5x3xf32>'}}
func.func @f(%d: tensor<5x3xf32>, %i: tensor<4x1xi64>) {
  // expected-error@+1 {{expected equal batch sizes on axis 0, got 5 and 4}}
  %0 = train.gather_nd %d, %i batch_dims = 1 : tensor<5x3xf32>, tensor<4x1xi64> -> tensor<4xf32>
  return
}

// -----
// expected-note@+1 {{updates is argument 1 of @f, of type 'tensor<3x2xf32>'}}
func.func @f(%i: tensor<4xi64>, %u: tensor<3x2xf32>) {
  // expected-error@+1 {{expected updates of shape [4, 2], got [3, 2]}}
  %0 = train.scatter_add %i, %u axis = 0 : tensor<4xi64>, tensor<3x2xf32> -> tensor<5x2xf32>
  return
}

// -----
// expected-note@+1 {{indices is argument 0 of @f, of type 'tensor<4x2xi64>'}}
func.func @f(%i: tensor<4x2xi64>, %u: tensor<4x2xf32>) {
  // expected-error@+1 {{has unique indices of 2 axes, needs one}}
  %0 = train.scatter_add %i, %u axis = 0 unique : tensor<4x2xi64>, tensor<4x2xf32> -> tensor<5xf32>
  return
}

// -----
// expected-note@+1 {{updates is argument 1 of @f, of type 'tensor<4xf32>'}}
func.func @f(%i: tensor<4x2xi64>, %u: tensor<4xf32>) {
  // expected-error@+1 {{expected updates of the result's rank 2, got 1}}
  %0 = train.scatter_elements_add %i, %u axis = 0 : tensor<4x2xi64>, tensor<4xf32> -> tensor<5x2xf32>
  return
}

// -----
func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{expected an axis below the rank 1, got -1}}
  %0 = train.cumsum %x axis = -1 : tensor<4xf32>
  return
}

// -----
// expected-note@+1 {{the operand is argument 0 of @f, of type 'tensor<4xf32>'}}
func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{expected axes below the rank 1, got 1}}
  %0 = train.reduce sum %x axes = [1] : tensor<4xf32> -> tensor<4xf32>
  return
}

// -----
func.func @f(%x: tensor<4x2xf32>) {
  // expected-error@+1 {{expected the axes in ascending order, each once}}
  %0 = train.reduce sum %x axes = [1, 0] : tensor<4x2xf32> -> tensor<f32>
  return
}

// -----
// expected-note@+1 {{the operand is argument 0 of @f, of type 'tensor<4xi1>'}}
func.func @f(%x: tensor<4xi1>) {
  // expected-error@+1 {{expected numbers for sum; booleans have max (any) and min (all)}}
  %0 = train.reduce sum %x axes = [0] : tensor<4xi1> -> tensor<i1>
  return
}

// -----
// expected-note@+1 {{the operand is argument 0 of @f, of type 'tensor<4x2xf32>'}}
func.func @f(%x: tensor<4x2xf32>) {
  // expected-error@+1 {{expected a result of type 'tensor<2xf32>', got 'tensor<4xf32>'}}
  %0 = train.reduce sum %x axes = [0] : tensor<4x2xf32> -> tensor<4xf32>
  return
}

// -----
// expected-note@+2 {{lhs is argument 0 of @f, of type 'tensor<4xf32>'}}
// expected-note@+1 {{rhs is argument 1 of @f, of type 'tensor<4x2xf32>'}}
func.func @f(%a: tensor<4xf32>, %b: tensor<4x2xf32>) {
  // expected-error@+1 {{expected operands of one rank of at least 2, got 1 and 2}}
  %0 = train.matmul %a, %b : tensor<4xf32>, tensor<4x2xf32> -> tensor<2xf32>
  return
}

// -----
// expected-note@+2 {{lhs is argument 0 of @f, of type 'tensor<3x4xf32>'}}
// expected-note@+1 {{rhs is argument 1 of @f, of type 'tensor<4x2xf64>'}}
func.func @f(%a: tensor<3x4xf32>, %b: tensor<4x2xf64>) {
  // expected-error@+1 {{expected operands of one element type, got 'f32' and 'f64'}}
  %0 = train.matmul %a, %b : tensor<3x4xf32>, tensor<4x2xf64> -> tensor<3x2xf32>
  return
}

// -----
// expected-note@+2 {{lhs is argument 0 of @f, of type 'tensor<5x3x4xf32>'}}
// expected-note@+1 {{rhs is argument 1 of @f, of type 'tensor<6x4x2xf32>'}}
func.func @f(%a: tensor<5x3x4xf32>, %b: tensor<6x4x2xf32>) {
  // expected-error@+1 {{expected equal batch axes, got 5 and 6 on axis 0}}
  %0 = train.matmul %a, %b : tensor<5x3x4xf32>, tensor<6x4x2xf32> -> tensor<5x3x2xf32>
  return
}

// -----
// expected-note@+2 {{lhs is argument 0 of @f, of type 'tensor<3x4xf32>'}}
// expected-note@+1 {{rhs is argument 1 of @f, of type 'tensor<4x2xf32>'}}
func.func @f(%a: tensor<3x4xf32>, %b: tensor<4x2xf32>) {
  // expected-error@+1 {{expected equal inner axes, got 4 and 2}}
  %0 = train.matmul %a, %b transposed : tensor<3x4xf32>, tensor<4x2xf32> -> tensor<3x4xf32>
  return
}

// -----
func.func @f(%a: tensor<3x4xf32>, %b: tensor<4x2xf32>) {
  // expected-error@+1 {{expected a result of type 'tensor<3x2xf32>', got 'tensor<2x3xf32>'}}
  %0 = train.matmul %a, %b : tensor<3x4xf32>, tensor<4x2xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<3x4xf32>, %w: tensor<4x2xf32>, %b: tensor<2xf32>, %c: tensor<3x2xf32>) {
  // expected-error@+1 {{expected no addend beside an epilogue}}
  %0 = train.matmul %x, %w plus %c epilogue bias with %b : tensor<3x4xf32>, tensor<4x2xf32>, tensor<3x2xf32>, tensor<2xf32> -> tensor<3x2xf32>
  return
}

// -----

func.func @f(%x: tensor<3x4xf32>, %w: tensor<4x2xf32>, %b: tensor<2xf32>) {
  // expected-error@+1 {{expected no streaming beside an epilogue}}
  %0 = train.matmul %x, %w epilogue bias with %b streamed 8 : tensor<3x4xf32>, tensor<4x2xf32>, tensor<2xf32> -> tensor<3x2xf32>
  return
}

// -----

func.func @f(%x: tensor<4x3xf32>, %w: tensor<4x2xf32>) {
  // expected-error@+1 {{expected a left factor that is not transposed to be streamed by}}
  %0 = train.matmul %x transposed, %w streamed 8 : tensor<4x3xf32>, tensor<4x2xf32> -> tensor<3x2xf32>
  return
}

// -----

// expected-note@+1 {{lhs is argument}}
func.func @f(%x: tensor<3x4xf32>, %w: tensor<4x2xf32>) {
  // expected-error@+1 {{expected room for 3 rows, got 2}}
  %0 = train.matmul %x, %w streamed 2 : tensor<3x4xf32>, tensor<4x2xf32> -> tensor<3x2xf32>
  return
}

// -----

func.func @f(%x: tensor<3x4xf32>, %w: tensor<4x2xf32>) {
  // expected-error@+1 {{epilogue gelu_aux needs a second result}}
  %0 = train.matmul %x, %w epilogue gelu_aux : tensor<3x4xf32>, tensor<4x2xf32> -> tensor<3x2xf32>
  return
}

// -----

func.func @f(%x: tensor<3x4xf32>, %w: tensor<4x2xf32>, %b: tensor<2xf32>) {
  // expected-error@+1 {{without an epilogue takes no third operand}}
  %0 = train.matmul %x, %w with %b : tensor<3x4xf32>, tensor<4x2xf32>, tensor<2xf32> -> tensor<3x2xf32>
  return
}

// -----

func.func @f(%x: tensor<3x4xf32>, %w: tensor<4x2xf32>, %b: tensor<2xf32>) {
  // expected-error@+1 {{expected an addend of type}}
  %0 = train.matmul %x, %w plus %b : tensor<3x4xf32>, tensor<4x2xf32>, tensor<2xf32> -> tensor<3x2xf32>
  return
}

// -----

// expected-note@+1 {{lhs is argument}}
func.func @f(%x: tensor<5x3x4xf32>, %w: tensor<5x4x2xf32>, %c: tensor<5x3x2xf32>) {
  // expected-error@+1 {{expected operands of rank 2, got 3}}
  %0 = train.matmul %x, %w plus %c : tensor<5x3x4xf32>, tensor<5x4x2xf32>, tensor<5x3x2xf32> -> tensor<5x3x2xf32>
  return
}

// -----
func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{expected an axis below the rank 1, got 1}}
  %0 = train.softmax %x axis = 1 : tensor<4xf32>
  return
}

// -----
func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{expected an axis below the rank 1, got 1}}
  %0 = train.log_softmax %x axis = 1 : tensor<4xf32>
  return
}

// -----
func.func @f(%x: tensor<2x4xf32>, %s: tensor<4xf32>) {
  // expected-error@+1 {{expected a result of the operand's type 'tensor<2x4xf32>', got 'tensor<4x2xf32>'}}
  %0:3 = train.layer_norm %x, %s {axis = 1 : i64, epsilon = 1.0e-5 : f64} : (tensor<2x4xf32>, tensor<4xf32>) -> (tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>)
  return
}

// -----
// expected-note@+2 {{scale is argument 1 of @f, of type 'tensor<2xf32>'}}
// expected-note@+1 {{the operand is argument 0 of @f, of type 'tensor<2x4xf32>'}}
func.func @f(%x: tensor<2x4xf32>, %s: tensor<2xf32>) {
  // expected-error@+1 {{expected scale and bias of shape [4], got [2]}}
  %0:3 = train.layer_norm %x, %s {axis = 1 : i64, epsilon = 1.0e-5 : f64} : (tensor<2x4xf32>, tensor<2xf32>) -> (tensor<2x4xf32>, tensor<2xf32>, tensor<2xf32>)
  return
}

// -----
func.func @f(%x: tensor<2x4xf32>, %s: tensor<4xf32>) {
  // expected-error@+1 {{expected mean of type 'tensor<2xf32>', got 'tensor<4xf32>'}}
  %0:3 = train.layer_norm %x, %s {axis = 1 : i64, epsilon = 1.0e-5 : f64} : (tensor<2x4xf32>, tensor<4xf32>) -> (tensor<2x4xf32>, tensor<4xf32>, tensor<2xf32>)
  return
}

// -----
func.func @f(%x: tensor<2x4xf32>, %s: tensor<4xf32>) {
  // expected-error@+1 {{expected rstd of element type 'f32', got 'f64'}}
  %0:3 = train.layer_norm %x, %s {axis = 1 : i64, epsilon = 1.0e-5 : f64} : (tensor<2x4xf32>, tensor<4xf32>) -> (tensor<2x4xf32>, tensor<2xf32>, tensor<2xf64>)
  return
}

// -----
// expected-note@+1 {{logits is argument 0 of @f, of type 'tensor<f32>'}}
func.func @f(%x: tensor<f32>, %l: tensor<i64>) {
  // expected-error@+1 {{expected logits with an axis of classes}}
  %0:2 = train.cross_entropy %x, %l : (tensor<f32>, tensor<i64>) -> (tensor<f32>, tensor<f32>)
  return
}

// -----
// expected-note@+2 {{labels is argument 1 of @f, of type 'tensor<4xi64>'}}
// expected-note@+1 {{logits is argument 0 of @f, of type 'tensor<2x4xf32>'}}
func.func @f(%x: tensor<2x4xf32>, %l: tensor<4xi64>) {
  // expected-error@+1 {{expected integer labels of shape [2], got 'tensor<4xi64>'}}
  %0:2 = train.cross_entropy %x, %l : (tensor<2x4xf32>, tensor<4xi64>) -> (tensor<2xf32>, tensor<2xf32>)
  return
}

// -----
func.func @f(%x: tensor<2x4xf32>, %l: tensor<2xi64>) {
  // expected-error@+1 {{expected loss of type 'tensor<2xf32>', got 'tensor<4xf32>'}}
  %0:2 = train.cross_entropy %x, %l : (tensor<2x4xf32>, tensor<2xi64>) -> (tensor<4xf32>, tensor<2xf32>)
  return
}

// -----
func.func @f(%p: tensor<2xf32>, %g: tensor<2xf32>, %s: tensor<f32>, %t: tensor<i64>) {
  // expected-error@+1 {{expected a velocity where momentum is not 0}}
  %0 = train.sgd %p, %g, %s, %s, %t {momentum = 0.9 : f64, operandSegmentSizes = array<i32: 1, 1, 0, 1, 1, 1>} : (tensor<2xf32>, tensor<2xf32>, tensor<f32>, tensor<f32>, tensor<i64>) -> tensor<2xf32>
  return
}

// -----
func.func @f(%p: tensor<2xf32>, %g: tensor<2xf32>, %s: tensor<f32>, %t: tensor<i64>) {
  // expected-error@+1 {{expected velocity as operand and result, or as neither}}
  %0 = train.sgd %p, %g, %g, %s, %s, %t {momentum = 0.9 : f64} : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<f32>, tensor<f32>, tensor<i64>) -> tensor<2xf32>
  return
}

// -----
// expected-note@+2 {{gradient is argument 1 of @f, of type 'tensor<3xf32>'}}
// expected-note@+1 {{parameter is argument 0 of @f, of type 'tensor<2xf32>'}}
func.func @f(%p: tensor<2xf32>, %g: tensor<3xf32>, %s: tensor<f32>, %t: tensor<i64>) {
  // expected-error@+1 {{expected gradient of the parameter's shape [2], got [3]}}
  %0:3 = train.adam %p, %g, %p, %p, %s, %s, %t {beta1 = 0.9 : f64, beta2 = 0.99 : f64, epsilon = 1.0e-8 : f64} : (tensor<2xf32>, tensor<3xf32>, tensor<2xf32>, tensor<2xf32>, tensor<f32>, tensor<f32>, tensor<i64>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>)
  return
}

// -----
// expected-note@+1 {{lr is argument 0 of @f, of type 'tensor<2xf32>'}}
func.func @f(%p: tensor<2xf32>, %s: tensor<f32>, %t: tensor<i64>) {
  // expected-error@+1 {{expected lr to be a scalar, got 'tensor<2xf32>'}}
  %0:3 = train.lamb %p, %p, %p, %p, %p, %s, %t {beta1 = 0.9 : f64, beta2 = 0.99 : f64, epsilon = 1.0e-8 : f64} : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<f32>, tensor<i64>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>)
  return
}

// -----
func.func @f(%p: tensor<2xf32>, %s: tensor<f32>, %t: tensor<i64>) {
  // expected-error@+1 {{expected betas in [0, 1), got 1}}
  %0:3 = train.adam %p, %p, %p, %p, %s, %s, %t {beta1 = 1.0 : f64, beta2 = 0.99 : f64, epsilon = 1.0e-8 : f64} : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<f32>, tensor<f32>, tensor<i64>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>)
  return
}

// -----
// expected-note@+1 {{the input is argument 0 of @f, of type 'tensor<2xf32>'}}
func.func @f(%x: tensor<2xf32>) {
  // expected-error@+1 {{expected block arguments of the inputs' types}}
  %0 = train.fusion(%x) : (tensor<2xf32>) -> tensor<2xf32> {
  // expected-note@+1 {{the argument is argument 0, of type 'tensor<3xf32>'}}
  ^bb0(%a: tensor<3xf32>):
    train.yield %a : tensor<3xf32>
  }
  return
}

// -----
func.func @f(%x: tensor<2xf32>) {
  // expected-error@+1 {{expected a train.yield of the results' types}}
  %0 = train.fusion(%x) : (tensor<2xf32>) -> tensor<3xf32> {
  ^bb0(%a: tensor<2xf32>):
    // expected-note@+1 {{the body ends with train.yield of 'tensor<2xf32>'}}
    train.yield %a : tensor<2xf32>
  }
  return
}

// -----
func.func @f(%x: tensor<2x2xf32>) {
  // expected-note@+1 {{the kernel begins here}}
  %0 = train.fusion(%x) : (tensor<2x2xf32>) -> tensor<2x2xf32> {
  ^bb0(%a: tensor<2x2xf32>):
    // expected-error@+1 {{cannot be part of a kernel}}
    %1 = train.matmul %a, %a : tensor<2x2xf32>, tensor<2x2xf32> -> tensor<2x2xf32>
    train.yield %1 : tensor<2x2xf32>
  }
  return
}

// -----
func.func @f(%x: tensor<2xf32>) {
  // expected-note@+1 {{the kernel begins here}}
  %0 = train.fusion(%x) : (tensor<2xf32>) -> tensor<2xf32> {
  ^bb0(%a: tensor<2xf32>):
    // expected-error@+1 {{cannot be part of a kernel: it does not say how it fuses}}
    %1 = arith.constant dense<0.0> : tensor<2xf32>
    train.yield %a : tensor<2xf32>
  }
  return
}

// -----
// expected-error@+1 {{argument 0: expected train.role parameter, input, hyper, state, gradient or derived, got "weight"}}
func.func @f(%x: tensor<2xf32> {train.role = "weight"}) { return }

// -----
// expected-error@+1 {{argument 0: expected train.name to be a string}}
func.func @f(%x: tensor<2xf32> {train.name = 1 : i64}) { return }

// -----
// expected-error@+1 {{argument 0: expected train.weight to be a #train.weight}}
func.func @f(%x: tensor<2xf32> {train.weight = "file"}) { return }

// -----
// expected-error@+1 {{argument 0: expected train.trainable to be unit}}
func.func @f(%x: tensor<2xf32> {train.trainable = true}) { return }

// -----
// expected-error@+1 {{argument 0: expected train.lr_scale to be a float}}
func.func @f(%x: tensor<2xf32> {train.lr_scale = 1 : i64}) { return }

// -----
func.func @f() {
  // expected-error@+1 {{expected a tensor at least}}
  train.all_reduce : () -> ()
  return
}

// -----
func.func @f(%a: tensor<4xf32>) {
  // expected-error@+1 {{expected as many results as tensors, 1, got 2}}
  %0:2 = train.all_reduce %a : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}

// -----
func.func @f(%a: tensor<4xf32>, %b: tensor<4xf64>) {
  // expected-error@+1 {{expected tensors of one type, 'f32', got 'tensor<4xf64>'}}
  %0:2 = train.all_reduce %a, %b : (tensor<4xf32>, tensor<4xf64>) -> (tensor<4xf32>, tensor<4xf64>)
  return
}

// -----
func.func @f(%a: tensor<4xbf16>) {
  // expected-error@+1 {{expected tensors of f32 or f64, got 'tensor<4xbf16>'}}
  %0 = train.all_reduce %a : (tensor<4xbf16>) -> tensor<4xbf16>
  return
}

// -----
func.func @f(%a: tensor<4xbf16>) {
  // expected-error@+1 {{expected sums of 'bf16' in its own type, or of bf16 or f16 in f32, got 'f64'}}
  %0 = train.all_reduce %a : (tensor<4xbf16>) -> tensor<4xf64>
  return
}

// -----
func.func @f(%a: tensor<4x3xf64>) {
  // expected-error@+1 {{expected sums of 'f64' in its own type, or of bf16 or f16 in f32, got 'f32'}}
  %0 = train.reduce_scatter %a units = [4] : (tensor<4x3xf64>) -> tensor<?x4xf32, #train.dims<floordiv(world + 2, world), 4>>
  return
}

// -----
func.func @f(%a: tensor<4x3xf16>) {
  // expected-error@+1 {{expected tensors of one type, 'f16', got}}
  %0 = train.all_gather %a units = [4] : (tensor<4x3xf16>) -> tensor<4x3xf32>
  return
}

// -----
func.func @f(%a: tensor<4xbf16>) {
  // expected-error@+1 {{expected a result of type 'tensor<4xf32>', got 'tensor<2xf32>'}}
  %0 = train.all_reduce %a : (tensor<4xbf16>) -> tensor<2xf32>
  return
}

// -----
func.func @f(%a: tensor<4xf32>) {
  // expected-error@+1 {{expected a result of type 'tensor<4xf32>', got 'tensor<2xf32>'}}
  %0 = train.all_reduce %a : (tensor<4xf32>) -> tensor<2xf32>
  return
}

// -----
func.func @f(%a: tensor<4x3xbf16>) {
  // expected-error@+1 {{expected tensors of f32 or f64, got 'tensor<4x3xbf16>'}}
  %0 = train.reduce_scatter %a units = [4] : (tensor<4x3xbf16>) -> tensor<?x4xbf16, #train.dims<floordiv(world + 2, world), 4>>
  return
}

// -----
func.func @f(%a: tensor<4x3xf32>) {
  // expected-error@+1 {{expected a unit for each of 1 tensors, got 2}}
  %0 = train.reduce_scatter %a units = [4, 4] : (tensor<4x3xf32>) -> tensor<?x4xf32, #train.dims<floordiv(world + 2, world), 4>>
  return
}

// -----
func.func @f(%a: tensor<4x3xf32>) {
  // expected-error@+1 {{expected units of at least an element, got 0}}
  %0 = train.reduce_scatter %a units = [0] : (tensor<4x3xf32>) -> tensor<?x4xf32, #train.dims<floordiv(world + 2, world), 4>>
  return
}

// -----
func.func @f(%a: tensor<?xf32, #train.dims<batch>>) {
  // expected-error@+1 {{expected a tensor of a size that is known, got 'tensor<?xf32, #train.dims<batch>>'}}
  %0 = train.reduce_scatter %a units = [4] : (tensor<?xf32, #train.dims<batch>>) -> tensor<?x4xf32, #train.dims<floordiv(world + 2, world), 4>>
  return
}

// -----
func.func @f(%a: tensor<?x4xf32, #train.dims<floordiv(world + 2, world), 4>>) {
  // expected-error@+1 {{expected a shard of 8*floordiv(world + 1, world) elements of 'tensor<4x3xf32>', got}}
  %0 = train.all_gather %a units = [8] : (tensor<?x4xf32, #train.dims<floordiv(world + 2, world), 4>>) -> tensor<4x3xf32>
  return
}

// -----
// expected-error@+1 {{argument 0: expected train.shard to be {of = a tensor of known size, unit = a number of elements}, got unit}}
func.func @f(%x: tensor<2xf32> {train.shard}) { return }

// -----
// expected-error@+1 {{argument 0: expected a shard of 4*floordiv(world + 2, world) elements, got 'tensor<12xf32>'}}
func.func @f(%x: tensor<12xf32> {train.shard = {of = tensor<12xf32>, unit = 4}}) { return }
