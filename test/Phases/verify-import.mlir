// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --split-input-file --verify-import --verify-diagnostics -o /dev/null

onnx.graph @g(%arg0: tensor<2xf32> {onnx.name = "x"}) -> (tensor<2xf32> {onnx.name = "y"})
    attributes {metadata_props = {}, model = "m", opset_imports = {}} {
  %0 = onnx.node "Relu" version 14(%arg0) {} : (tensor<2xf32>) -> tensor<2xf32>
  onnx.return %0 : tensor<2xf32>
}

// -----

// expected-error @below {{after the phase 'import' there is an onnx.graph, and here is none}}
module {}

// -----

// expected-error @below {{after the phase 'import' there is no place for the op 'func.func': it leaves one onnx.graph of ops of its dialect}}
func.func @forward() {
  return
}

// -----

onnx.graph @g(%arg0: tensor<2xf32> {onnx.name = "x"}) -> (tensor<2xf32> {onnx.name = "y"})
    attributes {metadata_props = {}, model = "m", opset_imports = {}} {
  // expected-error @below {{after the phase 'import' there is no place for the op 'train.exp'}}
  %0 = train.exp %arg0 : tensor<2xf32>
  onnx.return %0 : tensor<2xf32>
}
