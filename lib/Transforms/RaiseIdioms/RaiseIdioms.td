// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `raise-idioms`.
#ifndef TRAINC_TRANSFORMS_RAISEIDIOMS_TD
#define TRAINC_TRANSFORMS_RAISEIDIOMS_TD

include "mlir/Pass/PassBase.td"

def RaiseIdiomsPass : Pass<"raise-idioms", "::mlir::func::FuncOp"> {
  let summary = "what exporters write out in parts becomes one op again: activations, rows read by position";
  let description = [{
    GELU and its tanh approximation: one op has one gradient op, which is computed again from the operand,
    where the gradient of the parts keeps several of them.

      0.5 * x * (1 + erf(x / sqrt(2)))
      0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))

    The parts are read as polynomials, in x and in the erf or tanh, so that the order of sums and products, where
    the half stands and how the cube is written (products or pow) do not matter. Coefficients are compared with
    the precision of the element type, in which they were written.

    ```mlir
    func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
      %half = train.full 0.5 : f32 : tensor<8xf32>
      %one = train.full 1.0 : f32 : tensor<8xf32>
      %sqrt2 = train.full 1.41421356 : f32 : tensor<8xf32>
      %0 = train.mul %x, %half : tensor<8xf32>
      %1 = train.div %x, %sqrt2 : tensor<8xf32>
      %2 = train.erf %1 : tensor<8xf32>
      %3 = train.add %2, %one : tensor<8xf32>
      %4 = train.mul %0, %3 : tensor<8xf32>
      return %4 : tensor<8xf32>
    }
    // becomes
    func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
      %0 = train.gelu %x : tensor<8xf32>
      return %0 : tensor<8xf32>
    }
    ```

    Gathers whose indices count: at the numbers of all samples and positions they are a view; at a position of each
    sample (`x[arange(batch), last]`) they are `train.select_rows` along the merged axes, which other passes move. Rows of computed
    values at other tuples (`x[arange(batch)[:, None], positions]`), or at indices of rank 2 or more, are gathered by one index along the
    merged axes, so that passes know them as a selection, too.

    Gathers of elements at indices that are made of constants (DeBERTa's relative positions, of a known number of
    tokens) read a slice of the axis, where that is at most seven eighths of it: what is outside is never read,
    and `hoist-slices` sees to it that it is not computed. The indices are evaluated, up to 65536 of them, and become a
    constant.

    Group normalisation: what exporters write behind it, once the groups are one axis of channels again (scale, bias,
    activation), is computed with the groups apart, so that it is part of the kernel that normalises, and of that of the gradient. That
    holds for any formula behind the merge of an axis to parts of which something was applied.

    Slices of rows with a step, of which there are several of one value (rotary positions of neighbours: `x[..., ::2]` and
    `x[..., 1::2]`), take a part of an axis of their own. What joins such parts again is put together behind the formulas that
    read it, as groups are.

    Parts that were packed along an axis of their own (`qkv.view(b, s, 3, h, d).unbind(2)`), all of them read, are one `train.split` of what the
    axis and the next one are together: read where they are, and their gradients are written side by side.

    Gradients of a selection, in graphs that hold their gradients: rows that are chosen by their number, or added into
    zeros at constant indices, are `train.pad`.

    Remarks, of category `raise-idioms`: `Raised` for every activation.
  }];
  let dependentDialects = ["::trainc::train::TrainDialect"];
}

#endif // TRAINC_TRANSFORMS_RAISEIDIOMS_TD
