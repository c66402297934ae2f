// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `mixed-precision`.
#ifndef TRAINC_TRANSFORMS_MIXEDPRECISION_TD
#define TRAINC_TRANSFORMS_MIXEDPRECISION_TD

include "mlir/Pass/PassBase.td"

def MixedPrecisionPass : Pass<"mixed-precision", "::mlir::func::FuncOp"> {
  let summary = "ops that gain from it read and write a 16-bit float type, everything else stays in f32";
  let description = [{
    Ops with `LowPrecisionOpInterface` (matmuls, attention) get casts around them: their f32 operands
    are rounded to the low type, and what they give in it is widened to f32. Run it before autodiff: the
    gradients of the casts are casts, so that the backward matmuls follow, and every use has a cast of its
    own, so that gradients of one value are summed in f32. CSE then leaves one cast a value.

    A cast stands at the op that computes the value: it moves over ops that only move elements (reshape,
    transpose, slice, split), so that the kernel which computes the value writes the low one. Elements of an op's result
    that are taken by indices are of its type, too: their gradients are rounded, added in f32, and the sums are rounded.

    Declines where an operand is made of integers only, as the positions of a rotary embedding are: bf16 holds
    integers up to 256, f16 up to 2048. (Masks, which have no gradient, may be.) Operands of f64 stay.

    ```mlir
    func.func @f(%x: tensor<4x8xf32>, %w: tensor<8x2xf32>) -> tensor<4x2xf32> {
      %0 = train.matmul %x, %w : tensor<4x8xf32>, tensor<8x2xf32> -> tensor<4x2xf32>
      return %0 : tensor<4x2xf32>
    }
    // becomes
    func.func @f(%x: tensor<4x8xf32>, %w: tensor<8x2xf32>) -> tensor<4x2xf32> {
      %0 = train.cast %x : tensor<4x8xf32> -> tensor<4x8xbf16>
      %1 = train.cast %w : tensor<8x2xf32> -> tensor<8x2xbf16>
      %2 = train.matmul %0, %1 : tensor<4x8xbf16>, tensor<8x2xbf16> -> tensor<4x2xbf16>
      %3 = train.cast %2 : tensor<4x2xbf16> -> tensor<4x2xf32>
      return %3 : tensor<4x2xf32>
    }
    ```

    Behind convolutions the low type carries on as PyTorch's autocast has it: batch normalisation, activations, sums and pools of
    16-bit tensors give 16-bit tensors (`CarriedTypeOpInterface`), while a parameter's scale (layer scale), the statistics
    of a sample (layer and group normalisation) and exponentials give f32. Of these values some are rounded, and all their readers get
    the rounded number: those that an op in the low type reads, those in which several tensors end (residual sums,
    concatenations), and what pools read. The gradient is rounded there, too. What lies in between is a kernel's own and
    stays in f32. So a residual stream is stored once, in the low type. Values that no convolution is part of stay as they were.

    With `parameters`, arguments with the role of a parameter become arguments of the low type as well, and
    with them gradients and optimizer state, which take a parameter's type. Parameters that are not trained
    and have rank 0 or 1 (frequencies, buffers) stay. The low type carries on everywhere then, by the rules above, as it does in
    a PyTorch model of that type: a transformer's residual stream is stored in it.

    With `products`, for a target whose library has matmuls alone in the low type, all else stays in f32.

    Remarks, of category `mixed-precision`: `Lowered` for every op, `NotLowered` with the reason, `Carried`
    for values that are rounded where they are stored.
  }];
  let dependentDialects = ["::trainc::train::TrainDialect"];
  let options = [
    Option<"type", "type", "std::string", "\"bf16\"", "the low type: bf16 or f16">,
    Option<"parameters", "parameters", "bool", "false", "parameters are of the low type, too">,
    Option<"products", "products", "bool", "false", "matmuls alone: the target computes all else in f32">,
  ];
}

#endif // TRAINC_TRANSFORMS_MIXEDPRECISION_TD
