// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `stream-weights`.
#ifndef TRAINC_TRANSFORMS_STREAMWEIGHTS_TD
#define TRAINC_TRANSFORMS_STREAMWEIGHTS_TD

include "mlir/Pass/PassBase.td"

def StreamWeightsPass : Pass<"stream-weights", "::mlir::func::FuncOp"> {
  let summary = "matmuls of few rows make their right factor as they read it";
  let description = [{
    A right factor that is computed from at most three quarters of its bytes, such as a quantized weight's numbers, is written to memory and
    read again by the library's matmul. With many rows that is little beside the matmul; with few it is most of the time, and the
    matmul becomes one that is `streamed`, whose kernel makes each element where it needs it. An addend goes with it. Which is
    better is decided by the most rows that there can be: `max-rows`, and `sizes`, the largest values of symbols as `name=value`.
    A symbol without one may be large.

    It has to be 16-bit floats, with a multiple of 64 to sum over and of 32 columns: what the kernel's tiles are.

    ```mlir
    func.func @forward(%x: tensor<8x64xbf16>, %codes: tensor<4096xi8>, %table: tensor<16xf32>, %scales: tensor<128xf32>) -> tensor<8x128xbf16> {
      %0 = train.dequantize %codes, %table, %scales block 64 : (tensor<4096xi8>, tensor<16xf32>, tensor<128xf32>) -> tensor<128x64xf32>
      %w = train.cast %0 : tensor<128x64xf32> -> tensor<128x64xbf16>
      %1 = train.matmul %x, %w transposed : tensor<8x64xbf16>, tensor<128x64xbf16> -> tensor<8x128xbf16>
      return %1 : tensor<8x128xbf16>
    }
    // becomes
    func.func @forward(%x: tensor<8x64xbf16>, %codes: tensor<4096xi8>, %table: tensor<16xf32>, %scales: tensor<128xf32>) -> tensor<8x128xbf16> {
      %0 = train.dequantize %codes, %table, %scales block 64
          : (tensor<4096xi8>, tensor<16xf32>, tensor<128xf32>) -> tensor<128x64xf32>
      %1 = train.cast %0 : tensor<128x64xf32> -> tensor<128x64xbf16>
      %2 = train.matmul %x, %1 transposed streamed 8 : tensor<8x64xbf16>, tensor<128x64xbf16> -> tensor<8x128xbf16>
      return %2 : tensor<8x128xbf16>
    }
    ```

    Run it after `accumulate-products` and `widen-products`, for GPUs. Remarks, of category `stream-weights`: `Streamed`,
    `NotStreamed`.
  }];
  let dependentDialects = ["::trainc::train::TrainDialect"];
  let options = [
    Option<"maxRows", "max-rows", "int64_t", "32", "most rows of a matmul that is streamed">,
    ListOption<"sizes", "sizes", "std::string", "largest values of symbols: name=value">
  ];
}

#endif // TRAINC_TRANSFORMS_STREAMWEIGHTS_TD
