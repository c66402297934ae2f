// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `keep-rounded-weights`.
#ifndef TRAINC_TRANSFORMS_KEEPROUNDEDWEIGHTS_TD
#define TRAINC_TRANSFORMS_KEEPROUNDEDWEIGHTS_TD

include "mlir/Pass/PassBase.td"

def KeepRoundedWeightsPass : Pass<"keep-rounded-weights", "::mlir::ModuleOp"> {
  let summary = "weights that matmuls read in 16 bits are kept in 16 bits, too, and rounded by their update";
  let description = [{
    With mixed precision each step would read all weights in f32 to round them, which the update before it had in registers.
    So the rounded weight is a value of its own that outlives a step (the role `derived`, with the name of its parameter):
    functions that train read it, whatever updates the parameter writes both, and the function `@derive` makes all of them
    of the parameters, for a runtime whose parameters were set from outside. `@eval` rounds for itself.

    A weight is kept where some function has an op of a library read it; a cast that is part of a kernel costs nothing. Where
    that reads rows of zeros behind a small weight, too (`align-matmuls`), these are kept with it: an update of the role `derived`
    may have fewer rows than its argument, whose others stay as they are, 0.
    Between a forward and its backward the rounded weights are in memory anyway; now they are for all of the step.

    ```mlir
    func.func @step(%w: tensor<8x8xf32> {train.role = "parameter", train.name = "w", train.trainable},
                    %x: tensor<4x8xbf16> {train.role = "input", train.name = "x"})
        -> (tensor<4x8xbf16> {train.role = "output", train.name = "y"},
            tensor<8x8xf32> {train.role = "update", train.updates = "parameter", train.name = "w"}) {
      %0 = train.cast %w : tensor<8x8xf32> -> tensor<8x8xbf16>
      %y = train.matmul %x, %0 : tensor<4x8xbf16>, tensor<8x8xbf16> -> tensor<4x8xbf16>
      %new = train.add %w, %w : tensor<8x8xf32>
      return %y, %new : tensor<4x8xbf16>, tensor<8x8xf32>
    }
    // becomes
    func.func @step(%w: tensor<8x8xf32> {train.name = "w", train.role = "parameter", train.trainable},
                    %x: tensor<4x8xbf16> {train.name = "x", train.role = "input"},
                    %rounded: tensor<8x8xbf16> {train.name = "w", train.role = "derived"})
        -> (tensor<4x8xbf16> {train.name = "y", train.role = "output"},
            tensor<8x8xf32> {train.name = "w", train.role = "update", train.updates = "parameter"},
            tensor<8x8xbf16> {train.name = "w", train.role = "update", train.updates = "derived"}) {
      %y = train.matmul %x, %rounded : tensor<4x8xbf16>, tensor<8x8xbf16> -> tensor<4x8xbf16>
      %new = train.add %w, %w : tensor<8x8xf32>
      %0 = train.cast %new : tensor<8x8xf32> -> tensor<8x8xbf16>
      return %y, %new, %0 : tensor<4x8xbf16>, tensor<8x8xf32>, tensor<8x8xbf16>
    }
    func.func @derive(%w: tensor<8x8xf32> {train.name = "w", train.role = "parameter", train.trainable},
                      %rounded: tensor<8x8xbf16> {train.name = "w", train.role = "derived"})
        -> (tensor<8x8xbf16> {train.name = "w", train.role = "update", train.updates = "derived"}) {
      %0 = train.cast %w : tensor<8x8xf32> -> tensor<8x8xbf16>
      return %0 : tensor<8x8xbf16>
    }
    ```

    Remarks, of category `keep-rounded-weights`: `Kept` for each weight, at an op that reads it.
  }];
  let dependentDialects = ["::trainc::train::TrainDialect", "::mlir::func::FuncDialect"];
}

#endif // TRAINC_TRANSFORMS_KEEPROUNDEDWEIGHTS_TD
