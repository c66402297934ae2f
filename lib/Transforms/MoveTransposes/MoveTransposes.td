// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `move-transposes`.
#ifndef TRAINC_TRANSFORMS_MOVETRANSPOSES_TD
#define TRAINC_TRANSFORMS_MOVETRANSPOSES_TD

include "mlir/Pass/PassBase.td"

def MoveTransposesPass : Pass<"move-transposes", "::mlir::func::FuncOp"> {
  let summary = "computes with axes in another order where that makes transposes vanish";
  let description = [{
    Convolutions have the channels last, models from ONNX have them first: each convolution is between two transposes.
    What stands between convolutions (normalisations, activations, residuals, pools, joins) can as well be computed with
    the channels last, and the net is then transposed at its ends only. Before autodiff, so that gradients come out
    in the same order.

    Legal for ops with `ReorderOpInterface`, which say what orders of their operands and results go together:
    elementwise ops, sums, repeated, padded, cut and joined tensors, windows, softmax, reshapes that keep neighbours
    together. Random numbers depend on coordinates: such an op stays as it is between two transposes, which its kernel
    computes as coordinates.

    Every such op gets one other order, the one in which a transpose near it vanishes. Which ops move is a cut of least
    cost, that of the bytes of all values that are read in an order in which they are not; a value that is made
    of less (a repeated vector, a constant) is made in each order. Axes of one element move for free. Declines where not
    fewer bytes would be transposed. Parameters keep their order: a transpose of one counts like any other.

    ```mlir
    func.func @f(%x: tensor<2x9x9x4xf32>, %b: tensor<4xf32>) -> tensor<2x9x9x4xf32> {
      %0 = train.transpose %x permutation = [0, 3, 1, 2] : tensor<2x9x9x4xf32> -> tensor<2x4x9x9xf32>
      %1 = train.broadcast %b axes = [1] : tensor<4xf32> -> tensor<2x4x9x9xf32>
      %2 = train.add %0, %1 : tensor<2x4x9x9xf32>
      %3 = train.transpose %2 permutation = [0, 2, 3, 1] : tensor<2x4x9x9xf32> -> tensor<2x9x9x4xf32>
      return %3 : tensor<2x9x9x4xf32>
    }
    // becomes
    func.func @f(%x: tensor<2x9x9x4xf32>, %b: tensor<4xf32>) -> tensor<2x9x9x4xf32> {
      %0 = train.broadcast %b axes = [3] : tensor<4xf32> -> tensor<2x9x9x4xf32>
      %1 = train.add %x, %0 : tensor<2x9x9x4xf32>
      return %1 : tensor<2x9x9x4xf32>
    }
    ```

    Remarks, of category `move-transposes`: `Moved` with the bytes that were transposed and that still are, `Left` with
    the reason for every transpose that stays. Bytes are those with each symbol as 256. A second run changes nothing.

    With `in-nets` only functions are changed that have convolutions when the pass first sees them (a mark says so to
    a later run, for which they may be matmuls): elsewhere transposes belong to what later passes look for, as those of
    attention's heads do.
  }];
  let options = [
    Option<"inNets", "in-nets", "bool", "false", "only in functions that have, or had, convolutions">,
  ];
  let dependentDialects = ["::trainc::train::TrainDialect"];
}

#endif // TRAINC_TRANSFORMS_MOVETRANSPOSES_TD
