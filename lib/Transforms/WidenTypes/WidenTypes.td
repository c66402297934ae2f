// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `widen-types`.
#ifndef TRAINC_TRANSFORMS_WIDENTYPES_TD
#define TRAINC_TRANSFORMS_WIDENTYPES_TD

include "mlir/Pass/PassBase.td"

def WidenTypesPass : Pass<"widen-types", "::mlir::func::FuncOp"> {
  let summary = "computes in the types that a CPU computes in";
  let description = [{
    Values of f16 and bf16 become f32: they are rounded where they are results of the function and where the graph
    casts to them, and nowhere else. Matmuls of f64, which the CPU's library lacks, become sums of products
    of elements.

    With `products`, matmuls of bf16 keep their factors, and store the f32 that they sum in: what makes a factor
    rounds it. So do views of bf16, which only move elements.

    ```mlir
    func.func @f(%x: tensor<4xf16>, %y: tensor<4xf16>) -> tensor<4xf16> {
      %0 = train.add %x, %y : tensor<4xf16>
      return %0 : tensor<4xf16>
    }
    // becomes
    func.func @f(%x: tensor<4xf16>, %y: tensor<4xf16>) -> tensor<4xf16> {
      %0 = train.cast %x : tensor<4xf16> -> tensor<4xf32>
      %1 = train.cast %y : tensor<4xf16> -> tensor<4xf32>
      %2 = train.add %0, %1 : tensor<4xf32>
      %3 = train.cast %2 : tensor<4xf32> -> tensor<4xf16>
      return %3 : tensor<4xf16>
    }
    ```
  }];
  let dependentDialects = ["::trainc::train::TrainDialect"];
  let options = [
    Option<"products", "products", "bool", "false", "matmuls of bf16 stay matmuls of bf16">,
  ];
}

#endif // TRAINC_TRANSFORMS_WIDENTYPES_TD
