// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `quantize-frozen`.
#ifndef TRAINC_TRANSFORMS_QUANTIZEFROZEN_TD
#define TRAINC_TRANSFORMS_QUANTIZEFROZEN_TD

include "mlir/Pass/PassBase.td"

def QuantizeFrozenPass : Pass<"quantize-frozen", "::mlir::ModuleOp"> {
  let summary = "weights of projections that are not trained are stored in 4 or 8 bits";
  let description = [{
    A parameter of @forward that is not trained, and that nothing but projections and sums of its elements (norms) read, gives way to its codes and
    scales; the number is made of them where it is used. `nf4` and `fp4` have 4 bits and a scale for each `block` elements
    in row-major order, with `double` of 8 bits themselves, in blocks of 256 around their mean (Dettmers et al., QLoRA,
    2023); `int8` has a scale for each row (LLM.int8, Dettmers et al. 2022). Bits are those of bitsandbytes. The runtime
    quantizes while it loads (`train.quantized` on the codes says what from). Heads, from whose result nothing is projected any
    more, stay as they are, as do parameters that `skip` matches.

    ```mlir
    func.func @forward(%w: tensor<8x16xf32> {train.role = "parameter", train.name = "proj.weight"},
                       %h: tensor<4x8xf32> {train.role = "parameter", train.name = "head.weight", train.trainable},
                       %x: tensor<4x16xf32> {train.role = "input", train.name = "x"})
        -> (tensor<4x4xf32> {train.role = "output", train.name = "y"}) {
      %0 = train.matmul %x, %w transposed : tensor<4x16xf32>, tensor<8x16xf32> -> tensor<4x8xf32>
      %1 = train.matmul %0, %h transposed : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x4xf32>
      return %1 : tensor<4x4xf32>
    }
    // becomes
    ...
    %1 = train.dequantize %w, %0, %scales block 64 : (tensor<64xi8>, tensor<16xf32>, tensor<2xf32>) -> tensor<8x16xf32>
    %2 = train.matmul %x, %1 transposed : tensor<4x16xf32>, tensor<8x16xf32> -> tensor<4x8xf32>
    %3 = train.matmul %2, %h transposed : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x4xf32>
    ...
    ```

    Remarks, of category `quantize-frozen`: `Quantized`, `NotQuantized` with the reason. Fails where nothing is quantized.
  }];
  let dependentDialects = ["::trainc::train::TrainDialect"];
  let options = [
    Option<"format", "format", "std::string", "\"nf4\"", "nf4, fp4 or int8">,
    Option<"block", "block", "int64_t", "64", "elements that share a scale (nf4, fp4): a power of two, 16 to 4096">,
    Option<"doubled", "double", "bool", "false", "scales are quantized too (nf4, fp4)">,
    Option<"scaleType", "scale-type", "std::string", "\"f32\"", "f32, bf16 or f16: what scales are stored in without double">,
    Option<"skip", "skip", "std::string", "", "ECMAScript expression of parameters that stay as they are">,
  ];
}

#endif // TRAINC_TRANSFORMS_QUANTIZEFROZEN_TD
