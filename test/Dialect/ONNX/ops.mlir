// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s | trainc-opt | FileCheck %s

// CHECK: onnx.graph @main(%{{.*}}: tensor<?x4xf32> {onnx.dims = ["batch", ""], onnx.name = "x"}) -> (tensor<?x4xf32> {onnx.name = "y"})
onnx.graph @main(%x: tensor<?x4xf32> {onnx.dims = ["batch", ""], onnx.name = "x"})
    -> (tensor<?x4xf32> {onnx.name = "y"})
    attributes {metadata_props = {}, model = "m.onnx", opset_imports = {ai.onnx = 20 : i64}} {
  // CHECK: onnx.initializer "w" <file = "m.onnx", offset = 8, length = 16> : tensor<4xf32>
  %w = onnx.initializer "w" <file = "m.onnx", offset = 8, length = 16> : tensor<4xf32>
  // CHECK: onnx.initializer "c" <length = 8, blob = 0> = dense<1> : tensor<1xi64> : tensor<1xi64>
  %c = onnx.initializer "c" <length = 8, blob = 0> = dense<1> : tensor<1xi64> : tensor<1xi64>
  // CHECK: onnx.none
  %none = onnx.none
  // CHECK: onnx.node "Add" version 20(%{{.*}}, %{{.*}}) {} : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
  %y = onnx.node "Add" version 20(%x, %w) {} : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
  // CHECK: onnx.node "Gelu" domain "com.microsoft" version 1(%{{.*}}, %{{.*}}) {alpha = 1.000000e+00 : f32} : (tensor<?x4xf32>, none) -> !onnx.any
  %z = onnx.node "Gelu" domain "com.microsoft" version 1(%y, %none) {alpha = 1.0 : f32} : (tensor<?x4xf32>, none) -> !onnx.any
  // CHECK: onnx.node "If" version 20(%{{.*}}) {} subgraphs ["then_branch"]
  %i = onnx.node "If" version 20(%c) {} subgraphs ["then_branch"] {
    onnx.return %z : !onnx.any
  } : (tensor<1xi64>) -> !onnx.any
  onnx.return %y : tensor<?x4xf32>
}
