// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `fuse-epilogues`.
#ifndef TRAINC_TRANSFORMS_FUSEEPILOGUES_TD
#define TRAINC_TRANSFORMS_FUSEEPILOGUES_TD

include "mlir/Pass/PassBase.td"

def FuseEpiloguesPass : Pass<"fuse-epilogues", "::mlir::func::FuncOp"> {
  let summary = "biases and tanh GELUs become a part of the matmul before them";
  let description = [{
    A library that multiplies matrices can add a bias, apply the tanh form of GELU and keep what it was applied to, or
    multiply with GELU's derivative and sum that over the rows, before it stores the matmul. Each saves a pass over
    memory. For matmuls of 16-bit types, after `decompose` and before `form-kernels`; casts to and from f32 and
    reshapes of leading axes may stand between the parts:

    - the matmul, a bias: where a library call reads the rounded sum (as the q, k and v of an attention), which is stored for it.
      A bias whose sum kernels alone read costs nothing there and stays.
    - the matmul, perhaps a bias, the tanh GELU: where its gradient reads the sum as well, and library calls the result.
      The sum is stored in the low type.
    - the matmul times a GELU's derivative, of a value that the second sort has stored. With `bias-gradient` the
      matmul also makes the sum over its rows: cuBLASLt 13 takes 0.28 ms longer for it at 16384x3072x768 on an
      H200, where a kernel for it takes 0.03 ms.

    The matmul is no longer rounded before the bias is added; the bias is, as weights are, and with `bias-gradient`
    its gradient. Declines (remark `NotFused`, with the reason) where the columns are no known multiple of 8 or the
    operands have a batch. Fusions are the remark `Fused`.

    ```mlir
    func.func @f(%x: tensor<4x8xbf16>, %w: tensor<8x8xbf16>, %b: tensor<8xf32>) -> tensor<4x8xbf16> {
      %0 = train.matmul %x, %w : tensor<4x8xbf16>, tensor<8x8xbf16> -> tensor<4x8xbf16>
      %1 = train.cast %0 : tensor<4x8xbf16> -> tensor<4x8xf32>
      %2 = train.broadcast %b axes = [1] : tensor<8xf32> -> tensor<4x8xf32>
      %3 = train.add %1, %2 : tensor<4x8xf32>
      %4 = train.cast %3 : tensor<4x8xf32> -> tensor<4x8xbf16>
      %5 = train.matmul %4, %w : tensor<4x8xbf16>, tensor<8x8xbf16> -> tensor<4x8xbf16>
      return %5 : tensor<4x8xbf16>
    }
    // becomes
    func.func @f(%x: tensor<4x8xbf16>, %w: tensor<8x8xbf16>, %b: tensor<8xf32>) -> tensor<4x8xbf16> {
      %0 = train.cast %b : tensor<8xf32> -> tensor<8xbf16>
      %1 = train.matmul %x, %w epilogue  bias with %0 : tensor<4x8xbf16>, tensor<8x8xbf16>, tensor<8xbf16> -> tensor<4x8xbf16>
      %2 = train.matmul %1, %w : tensor<4x8xbf16>, tensor<8x8xbf16> -> tensor<4x8xbf16>
      return %2 : tensor<4x8xbf16>
    }
    ```
  }];
  let dependentDialects = ["::trainc::train::TrainDialect"];
  let options = [
    Option<"biasGradient", "bias-gradient", "bool", "false",
           "also sum the gradient's rows, for the bias, in the matmul">,
  ];
}

#endif // TRAINC_TRANSFORMS_FUSEEPILOGUES_TD
