// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The passes that check what a phase leaves behind.
#ifndef TRAINC_PHASES_TD
#define TRAINC_PHASES_TD

include "mlir/Pass/PassBase.td"

def VerifyImportPass : Pass<"verify-import", "::mlir::ModuleOp"> {
  let summary = "checks what the phase import leaves behind";
  let description = [{
    The module is one `onnx.graph`, with ops of the `onnx` dialect only. An op that has no place there is an error that names it and the phase.

    ```mlir
    onnx.graph @g(%arg0: tensor<2xf32> {onnx.name = "x"}) -> (tensor<2xf32> {onnx.name = "y"})
        attributes {metadata_props = {}, model = "m", opset_imports = {}} {
      %0 = onnx.node "Relu" version 14(%arg0) {} : (tensor<2xf32>) -> tensor<2xf32>
      onnx.return %0 : tensor<2xf32>
    }
    ```
  }];
}

def VerifyLegalizePass : Pass<"verify-legalize", "::mlir::ModuleOp"> {
  let summary = "checks what the phase legalize leaves behind";
  let description = [{
    The module has declared sizes (`train.symbol`) and the function `@forward`, and nothing else. Its arguments are parameters, inputs and
    hyper-parameters, its results a loss, outputs, gradients and updates, each with a name; its body is one block of ops of the `train`
    dialect, none of them a kernel (`train.fusion`). Every size that a type names is declared.

    ```mlir
    func.func @forward(%w: tensor<f32> {train.role = "parameter", train.name = "w", train.trainable})
        -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
      return %w : tensor<f32>
    }
    ```
  }];
}

def VerifyGraphPass : Pass<"verify-graph", "::mlir::ModuleOp"> {
  let summary = "checks what the phase graph leaves behind";
  let description = [{
    The module has declared sizes (`train.symbol`), `@eval`, and where something is trained `@step`, with it `@micro` and `@update` or neither of
    them (a model with an algorithm of its own). Others are variants (`train.variant_of`) of these. Arguments have a role and a name, results are a
    loss, outputs and updates, and what is updated is an argument. The bodies are as `verify-legalize` says.

    ```mlir
    func.func @eval(%w: tensor<f32> {train.role = "parameter", train.name = "w"})
        -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
      return %w : tensor<f32>
    }
    ```
  }];
}

def VerifySchedulePass : Pass<"verify-schedule", "::mlir::ModuleOp"> {
  let summary = "checks what the phase schedule leaves behind";
  let description = [{
    Functions are those that `verify-graph` accepts, and each op in them is a kernel (`train.fusion`), a library call, a view of its operand through
    other strides, or a constant: what has a place in a plan.

    ```mlir
    func.func @eval(%x: tensor<2xf32> {train.role = "input", train.name = "x"})
        -> (tensor<2xf32> {train.role = "output", train.name = "y"}) {
      %0 = train.fusion(%x) : (tensor<2xf32>) -> tensor<2xf32> {
      ^bb0(%arg0: tensor<2xf32>):
        %1 = train.exp %arg0 : tensor<2xf32>
        train.yield %1 : tensor<2xf32>
      }
      return %0 : tensor<2xf32>
    }
    ```
  }];
}

def VerifyCodegenPass : Pass<"verify-codegen", "::mlir::ModuleOp"> {
  let summary = "checks what the phase codegen leaves behind";
  let description = [{
    The module has declared sizes (`train.symbol`) and the functions of `verify-graph` as plans (`plan.function`), with ops of the `plan` dialect
    only.

    ```mlir
    plan.function @eval {
      %0 = plan.buffer input "x" : tensor<2xf32>
      %1 = plan.buffer output "y" : tensor<2xf32>
      plan.copy %0 to %1 bytes <8>
    }
    ```
  }];
}

#endif // TRAINC_PHASES_TD
