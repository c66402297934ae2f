// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --split-input-file --verify-legalize --verify-diagnostics -o /dev/null

train.symbol @batch min 1 input "x" axis 0
func.func @forward(%x: tensor<?xf32, #train.dims<batch>> {train.role = "input", train.name = "x"})
    -> (tensor<?xf32, #train.dims<batch>> {train.role = "output", train.name = "y"}) {
  %0 = train.exp %x : tensor<?xf32, #train.dims<batch>>
  return %0 : tensor<?xf32, #train.dims<batch>>
}

// -----

// expected-error @below {{after the phase 'legalize' there is a function @forward, and here is none}}
module {}

// -----

// expected-error @below {{after the phase 'legalize' the only function is @forward, not @step}}
func.func @step() {
  return
}

// -----

// expected-error @below {{after the phase 'legalize' there is no place for the op 'onnx.graph': it leaves train.symbol and @forward, of ops of the train dialect}}
onnx.graph @g(%arg0: tensor<2xf32> {onnx.name = "x"}) -> (tensor<2xf32> {onnx.name = "y"})
    attributes {metadata_props = {}, model = "m", opset_imports = {}} {
  onnx.return %arg0 : tensor<2xf32>
}

// -----

// expected-error @below {{after the phase 'legalize' the body of a function is one block, which func.return ends, and that of @forward is not}}
func.func private @forward()

// -----

func.func @forward(%x: tensor<2xf32> {train.role = "input", train.name = "x"})
    -> (tensor<2xf32> {train.role = "output", train.name = "y"}) {
  // expected-error @below {{after the phase 'legalize' there is no place for the op 'math.exp'}}
  %0 = math.exp %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

// expected-error @below {{after the phase 'legalize' argument 1 of @forward is one of parameter, input, hyper, not 'state'}}
func.func @forward(%x: tensor<2xf32> {train.role = "input", train.name = "x"}, %s: tensor<i32> {train.role = "state", train.name = "s"})
    -> (tensor<2xf32> {train.role = "output", train.name = "y"}) {
  return %x : tensor<2xf32>
}

// -----

// expected-error @below {{after the phase 'legalize' result 0 of @forward has a name}}
func.func @forward(%x: tensor<2xf32> {train.role = "input", train.name = "x"}) -> (tensor<2xf32> {train.role = "output"}) {
  return %x : tensor<2xf32>
}

// -----

// expected-error @below {{after the phase 'legalize' every size is declared, but no train.symbol has the name 'batch'}}
func.func @forward(%x: tensor<?xf32, #train.dims<batch>> {train.role = "input", train.name = "x"}) {
  return
}

// -----

train.symbol @batch min 1 input "x" axis 0
func.func @forward(%x: tensor<?x4xf32, #train.dims<batch, 4>> {train.role = "input", train.name = "x"}) {
  // expected-error @below {{after the phase 'legalize' every size is declared, but no train.symbol has the name 'rows'}}
  %0 = train.full 1.0 : f32 : tensor<?xf32, #train.dims<rows>>
  return
}

// -----

train.symbol @batch min 1 input "x" axis 0
func.func @forward(%x: tensor<?x4xf32, #train.dims<batch, 4>> {train.role = "input", train.name = "x"}) {
  // expected-error @below {{after the phase 'legalize' every size is declared, but no train.symbol has the name 'rows'}}
  %0 = train.dim <2*rows> : tensor<f32>
  return
}

// -----

train.symbol @rank min 0 {train.run}
func.func @forward(%x: tensor<4xf32> {train.role = "input", train.name = "x"}) {
  // expected-error @below {{after the phase 'legalize' sizes are the same on all ranks, only starts depend on which it is}}
  %0 = train.full 1.0 : f32 : tensor<?xf32, #train.dims<rank>>
  return
}
