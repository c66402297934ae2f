// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `raise-attention`.
#ifndef TRAINC_TRANSFORMS_RAISEATTENTION_TD
#define TRAINC_TRANSFORMS_RAISEATTENTION_TD

include "mlir/Pass/PassBase.td"

def RaiseAttentionPass : Pass<"raise-attention", "::mlir::func::FuncOp"> {
  let summary = "softmax(q k^T * scale + mask) v becomes one op where a fused kernel can run it";
  let description = [{
    Matches what exporters write for scaled dot product attention: a softmax over the last axis, its operand a
    matmul with factors, masks and casts behind it, its result (with or without dropout) the left side
    of another matmul, neither read by anything else. Factors are found before the matmul, on either
    side, and behind it. Keys and values that are repeated for groups of heads are taken from before the
    repetition.

    A mask is added (a float, 0 where a column is visible) or selects (a boolean, the other side -inf or the
    least float). It is taken apart into what all must hold. "column <= row + columns - rows", made of
    coordinates or a constant triangle, becomes the op's `causal`; "row - column < 512" or "abs(row - column) <= 64"
    or a constant band becomes its window (`before`, `after`); the rest becomes its `bias`, computed once
    at the smallest shape that it depends on, with the low type's least finite value for -inf. What is masked or added before a factor
    is multiplied by it. A bias that is finite and far above any mask by the ranges of what it is made of (ALiBi's slopes times
    positions) hides nothing; where all rows have the same, it stays in f32. So no row is
    all -inf in the library, and where the model's own value of a fully masked row differs, it is put back:
    zeros for a guarded softmax, the mean of v for a mask of the least float. Two things differ there: a row
    of NaN (unguarded, -inf) becomes finite, and beside a causal mask, or in f16, no gradient reaches q and k
    from a row whose scores the least float has absorbed; none reaches the bias from it either.

    ```mlir
    func.func @f(%q: tensor<2x4x16x64xbf16>, %k: tensor<2x4x16x64xbf16>, %v: tensor<2x4x16x64xbf16>) -> tensor<2x4x16x64xbf16> {
      %eighth = train.full 0.125 : bf16 : tensor<2x4x16x16xbf16>
      %s = train.matmul %q, %k transposed : tensor<2x4x16x64xbf16>, tensor<2x4x16x64xbf16> -> tensor<2x4x16x16xbf16>
      %m = train.mul %s, %eighth : tensor<2x4x16x16xbf16>
      %p = train.softmax %m axis = 3 : tensor<2x4x16x16xbf16>
      %o = train.matmul %p, %v : tensor<2x4x16x16xbf16>, tensor<2x4x16x64xbf16> -> tensor<2x4x16x64xbf16>
      return %o : tensor<2x4x16x64xbf16>
    }
    // becomes
    func.func @f(%q: tensor<2x4x16x64xbf16>, %k: tensor<2x4x16x64xbf16>, %v: tensor<2x4x16x64xbf16>) -> tensor<2x4x16x64xbf16> {
      %result, %stats = train.attention %q, %k, %v {dropout = 0.000000e+00 : f64, scale = 1.250000e-01 : f64}
          : (tensor<2x4x16x64xbf16>, tensor<2x4x16x64xbf16>, tensor<2x4x16x64xbf16>) -> (tensor<2x4x16x64xbf16>, tensor<2x4x16xf32>)
      return %result : tensor<2x4x16x64xbf16>
    }
    ```

    Where q, k and v are tokens that `eliminate-padding` put back into a rectangle, and the result is packed again,
    the op runs on the packed tokens, a segment a sample (`train.attention` with `offsets`), if no mask is left for
    tokens but a causal one or a window (which counts places: `train.conditions` has to have it that no padding lies
    between tokens); a segment a document, if tokens see those with the same number in the input that tells
    padding, and `train.conditions` has it that each document is in one piece. `segments` is for targets that have no
    other fused attention: it raises these only, in f32.

    Where tokens see only those of the same number, and the numbers count how often positions begin anew (`cumsum(diff(positions)
    != 1)`), rows are documents behind each other already: the op runs on all tokens, a segment a document, without a variant.
    `train.symbol`s have to count the `sequences` of the positions, which `eliminate-padding` sees to. That the column's position is at most
    the row's is the order of columns then, and how far they are apart is how far columns are. `sequences` raises these only, and
    attention that nothing but a window masks (each row is a segment then), on targets that have no other fused attention.

    A bias through which parameters get a gradient (relative positions of T5) is raised with `bias-gradient`. The op has a gradient of
    a bias [1, heads, rows, columns]. One that differs by sample is computed as heads of one sample: q, k and v are [1, batch * heads, rows,
    depth], copied if they do not lie so. An axis of heads or rows that has size 1 is repeated. Such a bias is computed in the shape
    [batch * heads, rows, columns], with what it transposes (DeBERTa's p2c) stored in the low type.

    Matmuls may have samples and heads in one axis where the softmax has them apart.

    Run it before autodiff and before mixed-precision, after canonicalization. Declines where the scores or
    weights are read elsewhere, the head size is above 256 or no multiple of 8, or
    the type is none that the fused kernel has. The dropout's mask is the library's, not that of
    `train.dropout`; `exact-dropout` declines instead.

    Remarks, of category `raise-attention`: `Raised` with what was found, `NotRaised` with the reason.
  }];
  let dependentDialects = ["::trainc::train::TrainDialect"];
  let options = [
    Option<"type", "type", "std::string", "\"\"",
           "what attention of f32 is rounded to (bf16, f16); empty: it stays in parts">,
    Option<"exactDropout", "exact-dropout", "bool", "false",
           "leave attention with dropout in parts, whose masks are the same on every target">,
    Option<"segments", "segments", "bool", "false", "raise attention of packed tokens only, in f32">,
    Option<"sequences", "sequences", "bool", "false",
           "raise attention of documents that positions tell apart only, in f32">,
    Option<"biasGradient", "bias-gradient", "bool", "false",
           "raise attention whose bias needs a gradient, which the fused kernel computes">,
  ];
}

#endif // TRAINC_TRANSFORMS_RAISEATTENTION_TD
