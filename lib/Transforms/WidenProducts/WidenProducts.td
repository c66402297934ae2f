// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `widen-products`.
#ifndef TRAINC_TRANSFORMS_WIDENPRODUCTS_TD
#define TRAINC_TRANSFORMS_WIDENPRODUCTS_TD

include "mlir/Pass/PassBase.td"

def WidenProductsPass : Pass<"widen-products", "::mlir::func::FuncOp"> {
  let summary = "slim matmuls that are read in f32 are stored in it";
  let description = [{
    Libraries sum in f32 in matmuls of 16-bit matrices and round as they store. Where nothing reads a result but casts to f32,
    perhaps of views of it, the rounding can be left out. It costs twice the memory and traffic of the result, so only
    a result of known size that is small beside what the matmul reads is stored so, with a side of at most `max-side` and of
    an eighth of the axis that is summed over: the gradients of low-rank branches.

    ```mlir
    func.func @f(%g: tensor<?x4xbf16, #train.dims<batch, 4>>, %x: tensor<?x8xbf16, #train.dims<batch, 8>>) -> tensor<4x8xf32> {
      %0 = train.matmul %g transposed, %x : tensor<?x4xbf16, #train.dims<batch, 4>>, tensor<?x8xbf16, #train.dims<batch, 8>> -> tensor<4x8xbf16>
      %1 = train.cast %0 : tensor<4x8xbf16> -> tensor<4x8xf32>
      return %1 : tensor<4x8xf32>
    }
    // becomes
    func.func @f(%g: tensor<?x4xbf16, #train.dims<batch, 4>>, %x: tensor<?x8xbf16, #train.dims<batch, 8>>) -> tensor<4x8xf32> {
      %0 = train.matmul %g transposed, %x
          : tensor<?x4xbf16, #train.dims<batch, 4>>, tensor<?x8xbf16, #train.dims<batch, 8>> -> tensor<4x8xf32>
      return %0 : tensor<4x8xf32>
    }
    ```

    Run it after `accumulate-products`. Remarks, of category `widen-products`: `Widened`.
  }];
  let dependentDialects = ["::trainc::train::TrainDialect"];
  let options = [
    Option<"maxSide", "max-side", "int64_t", "256", "largest shorter side of a result that is widened">
  ];
}

#endif // TRAINC_TRANSFORMS_WIDENPRODUCTS_TD
