// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s -split-input-file -verify-diagnostics

// expected-error @+1 {{needs a body of exactly one block}}
onnx.graph @main() attributes {metadata_props = {}, model = "m", opset_imports = {}} {
  onnx.return
^other:
  onnx.return
}

// -----

// expected-note@+1 {{the graph has results of 'tensor<8xf32>'}}
onnx.graph @main(%x: tensor<4xf32>) -> tensor<8xf32> attributes {metadata_props = {}, model = "m", opset_imports = {}} {
  // expected-error @+1 {{returns types that differ from those of the graph}}
  onnx.return %x : tensor<4xf32>
}

// -----

// expected-error @+1 {{needs an operator type}}
%0 = onnx.node "" version 20() {} : () -> tensor<4xf32>

// -----

// expected-error @+1 {{has 0 subgraphs but 1 subgraph names}}
%0 = "onnx.node"() <{op_type = "If", version = 1 : i64, node_attributes = {}, subgraph_names = ["a"]}> : () -> tensor<4xf32>

// -----

// expected-error @+1 {{needs a static shape}}
%0 = onnx.initializer "w" <length = 4> : tensor<?xf32>

// -----

// expected-error @+1 {{has a value of type 'tensor<2xf32>', not 'tensor<1xf32>'}}
%0 = onnx.initializer "w" <length = 4> = dense<1.0> : tensor<2xf32> : tensor<1xf32>

// -----

// expected-error @+1 {{needs a name}}
%0 = onnx.initializer "" <length = 4> : tensor<1xf32>

// -----

// expected-error@+1 {{needs to end with onnx.return}}
"onnx.graph"() <{sym_name = "main", function_type = () -> (), metadata_props = {}, model = "m", opset_imports = {}}> ({
  llvm.unreachable
}) : () -> ()
