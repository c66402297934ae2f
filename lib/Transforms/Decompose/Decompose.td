// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `decompose`.
#ifndef TRAINC_TRANSFORMS_DECOMPOSE_TD
#define TRAINC_TRANSFORMS_DECOMPOSE_TD

include "mlir/Pass/PassBase.td"

def DecomposePass : Pass<"decompose"> {
  let summary = "replaces composites by their parts";
  let description = [{
    Every op with `DecomposableOpInterface` becomes the pointwise ops, reductions and element accesses that it
    stands for, which then form kernels with their neighbours. Always legal; the last pass before
    `form-kernels`, because the composites tell passes more than their parts do. Parts that are composites
    themselves are decomposed too. Ops named by `keep` stay. With `convolutions` nothing but convolutions and their
    gradients is decomposed: the first pass over a graph, so that their matmuls are aligned, quantized and differentiated
    as others are. With `calls` what one call of a library computes (`FusionRole::Library`) stays; with both, convolutions
    become such calls where only uneven zeros around their input are in the way: those are then added before; and where windows
    are pieces of the axes (1x1, patches), they are matmuls that leave the channels last.

    ```mlir
    func.func @f(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
      %0 = train.log_softmax %x axis = 1 : tensor<4x8xf32>
      return %0 : tensor<4x8xf32>
    }
    // becomes
    func.func @f(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
      %0 = train.reduce max %x axes = [1] : tensor<4x8xf32> -> tensor<4xf32>
      %1 = train.broadcast %0 axes = [0] : tensor<4xf32> -> tensor<4x8xf32>
      %2 = train.sub %x, %1 : tensor<4x8xf32>
      %3 = train.exp %2 : tensor<4x8xf32>
      %4 = train.reduce sum %3 axes = [1] : tensor<4x8xf32> -> tensor<4xf32>
      %5 = train.log %4 : tensor<4xf32>
      %6 = train.broadcast %5 axes = [0] : tensor<4xf32> -> tensor<4x8xf32>
      %7 = train.sub %2, %6 : tensor<4x8xf32>
      return %7 : tensor<4x8xf32>
    }
    ```
  }];
  let dependentDialects = ["::trainc::train::TrainDialect"];
  let options = [
    ListOption<"keep", "keep", "std::string", "names of ops that stay, such as train.softmax">,
    Option<"convolutions", "convolutions", "bool", "false", "only convolutions and their gradients">,
    Option<"calls", "calls", "bool", "false", "what one call of a library computes stays">,
  ];
}

#endif // TRAINC_TRANSFORMS_DECOMPOSE_TD
