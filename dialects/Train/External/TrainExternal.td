// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Functions of plug-ins (docs/plugins.md). In a file of its own: no pass knows of them.

#ifndef TRAINC_TRAIN_EXTERNAL_TD
#define TRAINC_TRAIN_EXTERNAL_TD

include "dialects/Train/TrainBase.td"

def Train_FixedTypes : NativeOpTrait<"FixedTypes"> {
  let cppNamespace = "::trainc::train";
}

def Train_ExternalOp : Train_Op<"external", [
    Train_FixedTypes,
    DeclareOpInterfaceMethods<FusionOpInterface, ["acceptsOperandLayout", "acceptsResultLayout"]>,
    DeclareOpInterfaceMethods<CostOpInterface, ["getRecomputeClass"]>]> {
  let summary = "what a function of a plug-in computes";
  let description = [{
    All tensors are whole and row major. `symbol` is the function in the plug-in's shared object; with a `launch` (grid,
    block, bytes of dynamic shared memory) it is a kernel for a GPU instead, whose `arguments` are numbers of tensors
    (an integer; the operands come first), sizes (a `#train.dim`, 64 bits) and floats. `settings` are for the function:
    numbers, lists of numbers and strings. It gives the same for the same operands. Its derivative is that of the
    `train.custom_gradient` around it.
    Example: `train.external "scale" "scale_rows"(%x, %w) flops <6*n> : (tensor<?xf32, #train.dims<n>>, tensor<6xf32>) ->
    tensor<?xf32, #train.dims<n>>`.
  }];
  let arguments = (ins Variadic<Train_AnyTensor>:$inputs, StrAttr:$plugin, StrAttr:$symbol, Train_DimAttr:$flops,
                       OptionalAttr<DictionaryAttr>:$settings, OptionalAttr<Train_DimsAttr>:$launch,
                       OptionalAttr<ArrayAttr>:$arguments);
  let results = (outs Variadic<Train_AnyTensor>:$results);
  let assemblyFormat = [{
    $plugin $symbol `(` $inputs `)` `flops` $flops (`settings` $settings^)? (`launch` $launch^ `arguments` $arguments)?
    attr-dict `:` functional-type($inputs, $results)
  }];
  let hasVerifier = 1;
}

#endif // TRAINC_TRAIN_EXTERNAL_TD
