// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `accumulate-products`.
#ifndef TRAINC_TRANSFORMS_ACCUMULATEPRODUCTS_TD
#define TRAINC_TRANSFORMS_ACCUMULATEPRODUCTS_TD

include "mlir/Pass/PassBase.td"

def AccumulateProductsPass : Pass<"accumulate-products", "::mlir::func::FuncOp"> {
  let summary = "a matmul is added to another one while it is stored";
  let description = [{
    Libraries compute c + a b as they compute a b: the sum of two matmuls, as that of a weight and of its low-rank branch,
    or of the gradients that several projections send to their input, needs no kernel and no second result. Of a sum of
    two matmuls that nothing else reads, casts to wider types and reshapes of leading axes aside, one becomes the
    addend of the other (`train.matmul ... plus`); a sum of more is such a chain. The addend is rounded to the matmuls' type,
    as it was, and the sum once more to it.

    A matmul that sums over fewer than the first of the chain, as a low-rank branch, comes first: it only stores then,
    and the deep one reads that while it multiplies, instead of a slim one reading and storing all of a large result.
    What is rounded in between is the smaller part.

    ```mlir
    func.func @f(%x: tensor<4x8xbf16>, %w: tensor<8x6xbf16>, %a: tensor<4x2xbf16>, %b: tensor<2x6xbf16>) -> tensor<4x6xbf16> {
      %0 = train.matmul %x, %w : tensor<4x8xbf16>, tensor<8x6xbf16> -> tensor<4x6xbf16>
      %1 = train.matmul %a, %b : tensor<4x2xbf16>, tensor<2x6xbf16> -> tensor<4x6xbf16>
      %2 = train.add %0, %1 : tensor<4x6xbf16>
      return %2 : tensor<4x6xbf16>
    }
    // becomes
    func.func @f(%x: tensor<4x8xbf16>, %w: tensor<8x6xbf16>, %a: tensor<4x2xbf16>, %b: tensor<2x6xbf16>) -> tensor<4x6xbf16> {
      %0 = train.matmul %a, %b : tensor<4x2xbf16>, tensor<2x6xbf16> -> tensor<4x6xbf16>
      %1 = train.matmul %x, %w plus %0 : tensor<4x8xbf16>, tensor<8x6xbf16>, tensor<4x6xbf16> -> tensor<4x6xbf16>
      return %1 : tensor<4x6xbf16>
    }
    ```

    Matmuls with the parameters that the module's `train.unfused_branches` names stay as they are.

    Run it after `fuse-epilogues`. Remarks, of category `accumulate-products`: `Accumulated`.
  }];
  let dependentDialects = ["::trainc::train::TrainDialect"];
}

#endif // TRAINC_TRANSFORMS_ACCUMULATEPRODUCTS_TD
