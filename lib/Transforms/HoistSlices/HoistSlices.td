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
    and softmax over other axes, rows, columns and batches of matmuls, reshapes that keep the axis,
    transposes, joined and split tensors. Where the axis itself is joined, cut up or padded, a range that lies in
    known parts for all sizes is taken of these. A reshape that merges the axis with its neighbours (batch times
    sequence as the rows of a linear layer) is passed together with the op above it. Through a positional loop
    (dropout) a prefix moves, or any selection where the op takes coordinates. A selection along several axes moves
    along those that it can.

    A value that others read is a matter of cost. Where all of them are selections (two heads, GELU's argument, the
    statistics of a normalisation), each computes its part if that is less together than the whole; where one needs all
    of it, nothing would be saved. Declines there, where the axis is reduced or mixed, where the op does not say how its
    axes map, and where no work is saved: the axis must be more than `min-ratio` times as long as what is selected,
    each symbol taken as 256, a count of elements as 128. Rows of an unknown number stay behind attention of a sequence to itself:
    its masks compare coordinates of rows and columns, and would have to be stored for the selected ones.

    In a graph that holds its gradients, the gradient of a selection is 0 but for the selected rows (`train.pad`,
    `train.scatter_add` at one index or at known ones). What is computed of it is computed for these rows, as long as it
    stays 0 elsewhere: matmuls, sums over other axes, elementwise formulas that are 0 at 0. Where rows are summed up (the
    gradients of weights) the others add nothing. What else these ops read is selected at the rows, and so the forward
    pass has no other readers than equal selections.

    ```mlir
    func.func @f(%x: tensor<4x8x16xf32>, %y: tensor<4x8x16xf32>) -> tensor<4x1x16xf32> {
      %0 = train.add %x, %y : tensor<4x8x16xf32>
      %1 = train.slice %0 starts = <0, 0, 0> steps = [1, 1, 1] : tensor<4x8x16xf32> -> tensor<4x1x16xf32>
      return %1 : tensor<4x1x16xf32>
    }
    // becomes
    func.func @f(%x: tensor<4x8x16xf32>, %y: tensor<4x8x16xf32>) -> tensor<4x1x16xf32> {
      %0 = train.slice %x starts = <0, 0, 0> steps = [1, 1, 1] : tensor<4x8x16xf32> -> tensor<4x1x16xf32>
      %1 = train.slice %y starts = <0, 0, 0> steps = [1, 1, 1] : tensor<4x8x16xf32> -> tensor<4x1x16xf32>
      %2 = train.add %0, %1 : tensor<4x1x16xf32>
      return %2 : tensor<4x1x16xf32>
    }
    ```

    Remarks, of category `hoist-slices`: `Hoisted` for every op passed, `Shared` where several selections compute an
    op each for itself, `NotHoisted` with the reason where a selection stays; `Restricted` for every op that leaves out
    zero rows, `NotRestricted` with the reason where they are put back. A second run moves only what canonicalization has freed.
  }];
  let dependentDialects = ["::trainc::train::TrainDialect"];
  let options = [
    Option<"minRatio", "min-ratio", "double", "1.0",
           "a selection moves if the axis is more than this many times as long as it (no unit)">,
    Option<"minZeroRatio", "min-zero-ratio", "double", "2.0",
           "zero rows are left out if there are more than this many times as many rows as others (no unit)">,
  ];
}

#endif // TRAINC_TRANSFORMS_HOISTSLICES_TD
