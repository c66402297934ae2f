// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The passes that compute tokens only.
#ifndef TRAINC_TRANSFORMS_ELIMINATEPADDING_TD
#define TRAINC_TRANSFORMS_ELIMINATEPADDING_TD

include "mlir/Pass/PassBase.td"

def FindPaddingPass : Pass<"find-padding", "::mlir::ModuleOp"> {
  let summary = "proves that what lies at padding has no influence, and says under which conditions";
  let description = [{
    Padding is where the mask of the tokens (an input like attention_mask) is 0, or the ids are the padding id
    (`train.pad_token` on the input). Where neither is known, each input of integers as large as the ids is tried that
    is compared with a number or with itself: numbers of documents that share a row. Ids of other sizes have other
    masks. The pass follows what padding holds through `@forward`, taken apart into its elementary ops, and finds
    whether it can reach anything but padding: a masked score has weight 0, a masked sum adds 0, a loss ignores its
    label. If it cannot, `@forward` gets the attribute `train.padding` with the masks and with what must hold of a
    batch besides (labels at padding are the ignored one, the first place of every sample is a token ...), which the
    runtime checks. It comes before passes that raise or pack; none of them changes what the proof is about.

    Remarks, of category `find-padding`: `Found`, or `Declined` with the node at fault.
  }];
  let dependentDialects = ["::trainc::train::TrainDialect"];
}

def EliminatePaddingPass : Pass<"eliminate-padding", "::mlir::ModuleOp"> {
  let summary = "a variant of the step that computes tokens only";
  let description = [{
    For a `@forward` with `train.padding`, makes the nested module `@packed` with a variant of it in which the tokens
    of a batch lie behind each other: values [samples, positions, ...] become [1, tokens, ...], the number of tokens
    being a symbol that the runtime counts. Every op whose axis map has the two axes as parallel loops is computed so;
    any other gets its operands put back into the rectangle, for that op alone, with zeros at padding.

    Later passes run on both modules; `merge-variants` brings the functions together.

    ```mlir
    // find-padding,eliminate-padding
    train.symbol @batch min 1 input "input_ids" axis 0
    train.symbol @seq min 1 input "input_ids" axis 1
    func.func @forward(%table: tensor<9x4xf32> {train.role = "parameter", train.name = "table", train.trainable},
        %ids: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "input_ids"},
        %mask: tensor<?x?xi64, #train.dims<batch, seq>> {train.role = "input", train.name = "attention_mask"})
        -> (tensor<?x4xf32, #train.dims<batch, 4>> {train.role = "loss", train.name = "loss"}) {
      %0 = train.gather %table, %ids axis = 0 : tensor<9x4xf32>, tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
      %1 = train.exp %0 : tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
      %2 = train.cast %mask : tensor<?x?xi64, #train.dims<batch, seq>> -> tensor<?x?xf32, #train.dims<batch, seq>>
      %3 = train.broadcast %2 axes = [0, 1] : tensor<?x?xf32, #train.dims<batch, seq>> -> tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
      %4 = train.mul %1, %3 : tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
      %5 = train.reduce sum %4 axes = [1] : tensor<?x?x4xf32, #train.dims<batch, seq, 4>> -> tensor<?x4xf32, #train.dims<batch, 4>>
      return %5 : tensor<?x4xf32, #train.dims<batch, 4>>
    }
    // becomes
    train.symbol @count_attention_mask min 8 divisor 8 input "attention_mask" differs 0
    ...
    %18 = train.gather %table, %17 axis = 0 : tensor<9x4xf32>, tensor<1x?xi64, #train.dims<1, count_attention_mask>> -> tensor<1x?x4xf32, #train.dims<1, count_attention_mask, 4>>
    %19 = train.exp %18 : tensor<1x?x4xf32, #train.dims<1, count_attention_mask, 4>>
    ...
    %21 = train.reshape %20 : tensor<?x?xf32, #train.dims<batch, seq>> -> tensor<?xf32, #train.dims<batch*seq>>
    ...
    %25 = train.mul %19, %24 : tensor<1x?x4xf32, #train.dims<1, count_attention_mask, 4>>
    ...
    %27 = train.select_rows %26, %6 inverse %14 axis = 0 : (tensor<?x4xf32, #train.dims<count_attention_mask, 4>>, tensor<?xi32, #train.dims<batch*seq>>, tensor<?xi32, #train.dims<count_attention_mask>>) -> tensor<?x4xf32, #train.dims<batch*seq, 4>>
    ...
    %29 = train.reduce sum %28 axes = [1] : tensor<?x?x4xf32, #train.dims<batch, seq, 4>> -> tensor<?x4xf32, #train.dims<batch, 4>>
    ...
    ```

    Remarks, of category `eliminate-padding`: `Packed` with numbers of ops, `Rectangle` for each op that needs it.
  }];
  let dependentDialects = ["::trainc::train::TrainDialect"];
  let options = [
    Option<"bucket", "bucket", "int64_t", "8", "the number of tokens is a multiple of this">,
  ];
}

def MergeVariantsPass : Pass<"merge-variants", "::mlir::ModuleOp"> {
  let summary = "moves the functions of the nested module @packed beside those that they are variants of";
  let description = [{
    `@packed::@step` becomes `@step.packed` with `train.variant_of = "step"` and its conditions. `@step`, `@micro` and
    their variants say what they cost (`train.flops`), so that the runtime can choose, and hold a step's time against it.
  }];
  let dependentDialects = ["::trainc::train::TrainDialect"];
}

#endif // TRAINC_TRANSFORMS_ELIMINATEPADDING_TD
