// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `raise-choices`.
#ifndef TRAINC_TRANSFORMS_RAISECHOICES_TD
#define TRAINC_TRANSFORMS_RAISECHOICES_TD

include "mlir/Pass/PassBase.td"

def RaiseChoicesPass : Pass<"raise-choices", "::mlir::func::FuncOp"> {
  let summary = "vectors that choose a matrix each (experts) are multiplied in blocks of one matrix";
  let description = [{
    A mixture of experts multiplies each token with matrices that it chooses. Exported, each token gets a copy of its
    matrix, and there are as many products of a matrix with one vector: for 2048 choices among 8 matrices of 7168 x 1024 in bf16
    30 GB are copied.

    Vectors are sorted by their matrix instead, without an order among them changing, into blocks of one length: that of an equal share.
    Each matrix has one block, and what does not fit into it goes into as many blocks more, whose matrices are copied: they
    always suffice, whatever is chosen, since what does not fit into one block leaves room in another. So sizes
    stay known before the step, no vector is left out, and twice as many products are computed as an even choice would need. Results
    are put back in the vectors' order. Gradients of a matrix are those of its block, and sums over copies.

    ```mlir
    func.func @f(%table: tensor<8x64x32xf32>, %x: tensor<512x32x1xf32>, %chosen: tensor<512xi64>) -> tensor<512x64x1xf32> {
      %0 = train.gather %table, %chosen axis = 0 : tensor<8x64x32xf32>, tensor<512xi64> -> tensor<512x64x32xf32>
      %1 = train.matmul %0, %x : tensor<512x64x32xf32>, tensor<512x32x1xf32> -> tensor<512x64x1xf32>
      return %1 : tensor<512x64x1xf32>
    }
    // becomes two products of blocks, train.matmul [8, 64, 32] x [8, 64, 32] transposed, of the table and of copies that
    // a train.gather of 8 numbers makes, between train.select_rows that packs 512 rows into 1024 and one that puts them back
    ```

    Run it behind `eliminate-padding`, as vectors of padding are none of the choices then, and before autodiff. Declines where there are
    no more than two vectors for each matrix: as much would be copied.

    Remarks, of category `raise-choices`: `Sorted`, `NotSorted` with the reason.
  }];
  let dependentDialects = ["::trainc::train::TrainDialect"];
}

#endif // TRAINC_TRANSFORMS_RAISECHOICES_TD
