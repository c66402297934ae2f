// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `raise-shared-factors`.
#ifndef TRAINC_TRANSFORMS_RAISESHAREDFACTORS_TD
#define TRAINC_TRANSFORMS_RAISESHAREDFACTORS_TD

include "mlir/Pass/PassBase.td"

def RaiseSharedFactorsPass : Pass<"raise-shared-factors", "::mlir::func::FuncOp"> {
  let summary = "a factor that is repeated for every sample is multiplied with the rows of all samples at once";
  let description = [{
    Relative positions of DeBERTa are projected once for each head, repeated for each sample, and multiplied with the
    queries and keys of that sample and head, samples and heads being one axis. With heads first, the rows of all samples
    of a head lie behind each other: one matrix, multiplied with the head's positions as they are. Nothing is
    repeated then, nor are the gradients of the repetitions summed up: that is part of the matmul which makes them.

    So the order of the merged axis changes, for all values that have it: from where samples and heads are merged to where they are
    taken apart again. That is done where both are transposed there anyway, and where nothing between looks at the coordinate along that axis (but
    for a library's mask of dropout, which is its own). Run it behind `raise-attention` and before autodiff.

    ```mlir
    func.func @f(%x: tensor<4x16x2x8xf32>, %p: tensor<2x5x8xf32>) -> tensor<4x16x2x5xf32> {
      %0 = train.transpose %x permutation = [0, 2, 1, 3] : tensor<4x16x2x8xf32> -> tensor<4x2x16x8xf32>
      %1 = train.reshape %0 : tensor<4x2x16x8xf32> -> tensor<8x16x8xf32>
      %2 = train.broadcast %p axes = [1, 2, 3] : tensor<2x5x8xf32> -> tensor<4x2x5x8xf32>
      %3 = train.reshape %2 : tensor<4x2x5x8xf32> -> tensor<8x5x8xf32>
      %4 = train.matmul %1, %3 transposed : tensor<8x16x8xf32>, tensor<8x5x8xf32> -> tensor<8x16x5xf32>
      %5 = train.reshape %4 : tensor<8x16x5xf32> -> tensor<4x2x16x5xf32>
      %6 = train.transpose %5 permutation = [0, 2, 1, 3] : tensor<4x2x16x5xf32> -> tensor<4x16x2x5xf32>
      return %6 : tensor<4x16x2x5xf32>
    }
    ```

    Remarks, of category `raise-shared-factors`: `Shared`, `NotShared` with the reason.
  }];
  let dependentDialects = ["::trainc::train::TrainDialect"];
}

#endif // TRAINC_TRANSFORMS_RAISESHAREDFACTORS_TD
