// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `merge-projections`.
#ifndef TRAINC_TRANSFORMS_MERGEPROJECTIONS_TD
#define TRAINC_TRANSFORMS_MERGEPROJECTIONS_TD

include "mlir/Pass/PassBase.td"

def MergeProjectionsPass : Pass<"merge-projections", "::mlir::func::FuncOp"> {
  let summary = "projections of one input are one matmul where rows are few";
  let description = [{
    A GPU computes a matmul in tiles, as many at once as it has multiprocessors; where rows are few, a projection has fewer
    tiles than that, or a last wave that is nearly empty. Queries, keys and values of one input are then quicker as
    one matmul with the weights, and the biases, beside each other: there is one matmul forward, one for the gradient of the input (which
    sums over all of them) and one for that of the weights.

    Parameters stay what they are, with their names and states. Run it before `mixed-precision` and autodiff: a weight is rounded to the
    type of matmuls in each step, and is written beside the others as it is. What reads the results, and makes their gradients, has to
    be one library call for each, which reads its part through strides and writes its part of one buffer
    (`form-kernels`): so nothing is copied. Everything else declines, with a remark: a kernel between matmul and library call (rotary
    positions, a gated activation); a weight that is not trained, or read by others as well; low-rank branches; and weights that
    would be copied to be side by side (`obstacle`).

    Projections are taken that stand one behind the other, have the same orientation of weights and the same
    formula of a bias behind them (each has one or none has). Whether one matmul is better, forward and backward together, is decided by
    a model of tiles (`units`, `flops`, `bytes`, `launch`). Where the number of rows is a count that only a step knows, or a size
    with a maximum, a quarter, half, three quarters and all of the rows count alike.

    ```mlir
    module {
      func.func @f(%x: tensor<256x64xf32>, %v: tensor<64x64xf32> {train.role = "parameter", train.name = "v", train.trainable},
          %w: tensor<64x64xf32> {train.role = "parameter", train.name = "w", train.trainable}) -> tensor<256x256xf32> {
        %0 = train.matmul %x, %v transposed : tensor<256x64xf32>, tensor<64x64xf32> -> tensor<256x64xf32>
        %1 = train.matmul %x, %w transposed : tensor<256x64xf32>, tensor<64x64xf32> -> tensor<256x64xf32>
        %2 = train.matmul %0, %1 transposed : tensor<256x64xf32>, tensor<256x64xf32> -> tensor<256x256xf32>
        return %2 : tensor<256x256xf32>
      }
    }
    // becomes
    module {
      func.func @f(%x: tensor<256x64xf32>, %v: tensor<64x64xf32> {train.role = "parameter", train.name = "v", train.trainable},
          %w: tensor<64x64xf32> {train.role = "parameter", train.name = "w", train.trainable}) -> tensor<256x256xf32> {
        %0 = train.concat %v, %w axis = 0 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<128x64xf32>
        %1 = train.matmul %x, %0 transposed : tensor<256x64xf32>, tensor<128x64xf32> -> tensor<256x128xf32>
        %2:2 = train.split %1 axis = 1 : (tensor<256x128xf32>) -> (tensor<256x64xf32>, tensor<256x64xf32>)
        %3 = train.matmul %2#0, %2#1 transposed : tensor<256x64xf32>, tensor<256x64xf32> -> tensor<256x256xf32>
        return %3 : tensor<256x256xf32>
      }
    }
    ```

    Remarks, of category `merge-projections`: `Merged` and `NotMerged`, with the microseconds of both ways.
  }];
  let dependentDialects = ["::trainc::train::TrainDialect"];
  let options = [
    Option<"units", "units", "int64_t", "132", "tiles that are computed at once">,
    Option<"flops", "flops", "double", "5e14", "floating-point operations that all units do in a second">,
    Option<"bytes", "bytes", "double", "3e12", "bytes that memory moves in a second">,
    Option<"launch", "launch", "double", "2e-6", "seconds until a matmul begins">,
    Option<"obstacle", "obstacle", "std::string", "", "why weights cannot be beside each other without a copy; empty: they can">,
  ];
}

#endif // TRAINC_TRANSFORMS_MERGEPROJECTIONS_TD
