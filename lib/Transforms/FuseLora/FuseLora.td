// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `fuse-lora`.
#ifndef TRAINC_TRANSFORMS_FUSELORA_TD
#define TRAINC_TRANSFORMS_FUSELORA_TD

include "mlir/Pass/PassBase.td"

def FuseLoraPass : Pass<"fuse-lora", "::mlir::ModuleOp"> {
  let summary = "low-rank branches of one input share its product with their A's";
  let description = [{
    Branches whose projections read the same tensor (query, key and value; gate and up) multiply it by one matrix, their
    A's below each other. The input is read once for all of them; so is it, and the gradient that they send to it, in the
    backward pass, which differentiation makes of this. With dropout each branch has its own mask, and nothing is shared.

    ```mlir
    %q = train.matmul %x, %a0 transposed : tensor<?x8xf32, ...>, tensor<2x8xf32> -> tensor<?x2xf32, ...>
    %k = train.matmul %x, %a1 transposed : tensor<?x8xf32, ...>, tensor<2x8xf32> -> tensor<?x2xf32, ...>
    // becomes
    %a = train.concat %a0, %a1 axis = 0 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<4x8xf32>
    %low = train.matmul %x, %a transposed : ...
    %q, %k = train.split %low axis = 1 : ...
    ```

    It tells what kind of projection each branch belongs to by what is computed around it: `o` where its input is the
    result of attention (of a product of two activations), `qkv` where only such a product reads its result, `mlp`
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
