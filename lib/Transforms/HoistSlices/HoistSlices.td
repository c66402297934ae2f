// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `hoist-slices`.
#ifndef TRAINC_TRANSFORMS_HOISTSLICES_TD
#define TRAINC_TRANSFORMS_HOISTSLICES_TD

include "mlir/Pass/PassBase.td"

def HoistSlicesPass : Pass<"hoist-slices", "::mlir::func::FuncOp"> {
  let summary = "moves selections towards the inputs, so that less is computed";
  let description = [{
    Where only some indices of a value's axis are used (the first token of every sequence, say), the rest
    need not be computed. An op with `SliceOpInterface` moves above the op that makes its operand, onto those
    operands that have the sliced axis. A selection with a scalar index keeps its axis, of size 1, while it
    moves; a reshape at the end drops it.

    Legal where `AxisMapOpInterface` says that the axis is a parallel loop: elementwise ops, normalisations
    and softmax over other axes, rows, columns and batches of matrix products, reshapes that keep the axis,
    transposes. A reshape that merges the axis with its neighbours (batch times sequence as the rows of a
    linear layer) is passed together with the op above it. Through a positional loop (dropout) only a prefix
    moves, whose coordinates stay. Declines where the value has other users than equal selections, where the
    axis is reduced or mixed, where the op does not say how its axes map, and where no work is saved: the axis
    must be more than `min-ratio` times as long as what is selected, each symbol taken as 256.

    ```mlir
    %0 = train.add %x, %y : tensor<4x8x16xf32>
    %1 = train.slice %0 starts = <0, 0, 0> steps = [1, 1, 1] : tensor<4x8x16xf32> -> tensor<4x1x16xf32>
    // becomes
    %0 = train.slice %x starts = <0, 0, 0> steps = [1, 1, 1] : tensor<4x8x16xf32> -> tensor<4x1x16xf32>
    %1 = train.slice %y starts = <0, 0, 0> steps = [1, 1, 1] : tensor<4x8x16xf32> -> tensor<4x1x16xf32>
    %2 = train.add %0, %1 : tensor<4x1x16xf32>
    ```

    Remarks, of category `hoist-slices`: `Hoisted` for every op passed, `NotHoisted` with the reason where a
    selection stays. The first run does all: a second one changes nothing.
  }];
  let dependentDialects = ["::trainc::train::TrainDialect"];
  let options = [
    Option<"minRatio", "min-ratio", "double", "1.0",
           "a selection moves if the axis is more than this many times as long as it (no unit)">,
  ];
}

#endif // TRAINC_TRANSFORMS_HOISTSLICES_TD
