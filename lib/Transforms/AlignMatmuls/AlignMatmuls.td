// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `align-matmuls`.
#ifndef TRAINC_TRANSFORMS_ALIGNMATMULS_TD
#define TRAINC_TRANSFORMS_ALIGNMATMULS_TD

include "mlir/Pass/PassBase.td"

def AlignMatmulsPass : Pass<"align-matmuls", "::mlir::func::FuncOp"> {
  let summary = "pads matmuls of 16-bit types to extents that tensor cores load at full width";
  let description = [{
    A row of 50257 elements of 2 bytes begins at an odd multiple of 2 bytes, and a matmul that reads or writes
    such rows runs at a fraction of the speed. Static extents that lie contiguous in an operand or in the result are
    padded with zeros to a multiple of 8 (of 64 from 1024 on), and the result is sliced, unless they and the extent
    that they are multiplied with are both below 64.
    Channels and filters of convolutions that a library computes (one group) are padded to multiples of 8 in the same way.
    Kernels around the matmul do both on the way: a weight is padded where it is rounded, a slice is an offset.
    Zeros add nothing, so the values are those of the matmul before. Run it before autodiff, so that the
    backward matmuls are aligned too.

    ```mlir
    func.func @f(%x: tensor<4x64xbf16>, %w: tensor<64x67xbf16>) -> tensor<4x67xbf16> {
      %0 = train.matmul %x, %w : tensor<4x64xbf16>, tensor<64x67xbf16> -> tensor<4x67xbf16>
      return %0 : tensor<4x67xbf16>
    }
    // becomes
    func.func @f(%x: tensor<4x64xbf16>, %w: tensor<64x67xbf16>) -> tensor<4x67xbf16> {
      %0 = train.pad %w value = 0.000000e+00 : bf16 low = <0, 0> : tensor<64x67xbf16> -> tensor<64x72xbf16>
      %1 = train.matmul %x, %0 : tensor<4x64xbf16>, tensor<64x72xbf16> -> tensor<4x72xbf16>
      %2 = train.slice %1 starts = <0, 0> steps = [1, 1] : tensor<4x72xbf16> -> tensor<4x67xbf16>
      return %2 : tensor<4x67xbf16>
    }
    ```

    Remarks, of category `align-matmuls`: `Padded`, with the extents.
  }];
  let dependentDialects = ["::trainc::train::TrainDialect"];
}

#endif // TRAINC_TRANSFORMS_ALIGNMATMULS_TD
