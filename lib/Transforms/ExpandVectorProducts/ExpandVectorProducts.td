// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `expand-vector-products`.
#ifndef TRAINC_TRANSFORMS_EXPANDVECTORPRODUCTS_TD
#define TRAINC_TRANSFORMS_EXPANDVECTORPRODUCTS_TD

include "mlir/Pass/PassBase.td"

def ExpandVectorProductsPass : Pass<"expand-vector-products", "::mlir::func::FuncOp"> {
  let summary = "batched products of vectors become multiplications and sums, for kernels";
  let description = [{
    A batched matmul with one row, one column or one summand for each matrix of the batch reads every element of its matrix once:
    it is as quick as memory is, and a kernel does it with what stands around it. Libraries have nothing for it: cuBLASLt takes
    60 us for 96 products of 1 x 32 by 32 x 128 on an H100, where a kernel takes 3. Attention of one query has six of them in a
    step, such as the last layer's where a classifier reads one position (`hoist-slices`).

    Factors are widened to the type of the sums, f32 or f64. Where the axis that is summed over is the last one in memory, seen
    through views, it is put last.

    ```mlir
    func.func @f(%q: tensor<8x12x1x32xf32>, %k: tensor<8x12x128x32xf32>) -> tensor<8x12x1x128xf32> {
      %0 = train.matmul %q, %k transposed : tensor<8x12x1x32xf32>, tensor<8x12x128x32xf32> -> tensor<8x12x1x128xf32>
      return %0 : tensor<8x12x1x128xf32>
    }
    // becomes
    func.func @f(%q: tensor<8x12x1x32xf32>, %k: tensor<8x12x128x32xf32>) -> tensor<8x12x1x128xf32> {
      %0 = train.reshape %q : tensor<8x12x1x32xf32> -> tensor<8x12x32xf32>
      %1 = train.broadcast %0 axes = [0, 1, 3] : tensor<8x12x32xf32> -> tensor<8x12x128x32xf32>
      %2 = train.mul %1, %k : tensor<8x12x128x32xf32>
      %3 = train.reduce sum %2 axes = [3] : tensor<8x12x128x32xf32> -> tensor<8x12x128xf32>
      %4 = train.reshape %3 : tensor<8x12x128xf32> -> tensor<8x12x1x128xf32>
      return %4 : tensor<8x12x1x128xf32>
    }
    ```

    Run it after `decompose`, where nothing reads matmuls as such any more but `fuse-epilogues`. Matmuls without a batch stay.
    Remarks, of category `expand-vector-products`: `Expanded`.
  }];
  let dependentDialects = ["::trainc::train::TrainDialect"];
}

#endif // TRAINC_TRANSFORMS_EXPANDVECTORPRODUCTS_TD
