// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `fuse-lora`.
#ifndef TRAINC_TRANSFORMS_FUSELORA_TD
#define TRAINC_TRANSFORMS_FUSELORA_TD

include "mlir/Pass/PassBase.td"

def FuseLoraPass : Pass<"fuse-lora", "::mlir::ModuleOp"> {
  let summary = "low-rank branches of one input share its matmul with their A's";
  let description = [{
    Branches whose projections read the same tensor (query, key and value; gate and up) multiply it by one matrix, their
    A's below each other. The input is read once for all of them; so is it, and the gradient that they send to it, in the
    backward pass, which differentiation makes of this. With dropout each branch has its own mask, and nothing is shared.

    ```mlir
    // insert-lora{rank=2 alpha=2 targets=.},fuse-lora{kinds=qkv}
    func.func @forward(%x: tensor<6x4xf32> {train.name = "x", train.role = "input"},
                       %q: tensor<4x4xf32> {train.name = "q.weight", train.role = "parameter"},
                       %k: tensor<4x4xf32> {train.name = "k.weight", train.role = "parameter"})
        -> (tensor<6x6xf32> {train.name = "scores", train.role = "output"}) {
      %0 = train.matmul %x, %q transposed : tensor<6x4xf32>, tensor<4x4xf32> -> tensor<6x4xf32>
      %1 = train.matmul %x, %k transposed : tensor<6x4xf32>, tensor<4x4xf32> -> tensor<6x4xf32>
      %2 = train.matmul %0, %1 transposed : tensor<6x4xf32>, tensor<6x4xf32> -> tensor<6x6xf32>
      return %2 : tensor<6x6xf32>
    }
    // becomes
    ...
    %0 = train.matmul %x, %q transposed : tensor<6x4xf32>, tensor<4x4xf32> -> tensor<6x4xf32>
    %1 = train.concat %aq, %ak axis = 0 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %2 = train.matmul %x, %1 transposed : tensor<6x4xf32>, tensor<4x4xf32> -> tensor<6x4xf32>
    %3:2 = train.split %2 axis = 1 : (tensor<6x4xf32>) -> (tensor<6x2xf32>, tensor<6x2xf32>)
    %4 = train.matmul %3#0, %bq transposed : tensor<6x2xf32>, tensor<4x2xf32> -> tensor<6x4xf32>
    ...
    %6 = train.matmul %x, %k transposed : tensor<6x4xf32>, tensor<4x4xf32> -> tensor<6x4xf32>
    %7 = train.matmul %3#1, %bk transposed : tensor<6x2xf32>, tensor<4x2xf32> -> tensor<6x4xf32>
    ...
    %9 = train.matmul %5, %8 transposed : tensor<6x4xf32>, tensor<6x4xf32> -> tensor<6x6xf32>
    ...
    ```

    It tells what kind of projection each branch belongs to by what is computed around it: `o` where its input is the
    result of attention (of a matmul of two activations), `qkv` where only such a matmul reads its result, `mlp`
    otherwise. Kinds that are not listed stay as they are; `train.unfused_branches` names their parameters, which
    `accumulate-products` leaves alone, too.

    Run it after `insert-lora`, whose `train.lora` it reads. Remarks, of category `fuse-lora`: `Shared`, and `NotShared`
    with the reason.
  }];
  let dependentDialects = ["::trainc::train::TrainDialect"];
  let options = [
    ListOption<"kinds", "kinds", "std::string", "kinds of projections whose branches are fused: mlp, qkv, o">
  ];
}

#endif // TRAINC_TRANSFORMS_FUSELORA_TD
