// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Values whose derivative is given, not derived (docs/plugins.md). In a file of its own: autodiff uses it up.

#ifndef TRAINC_TRAIN_CUSTOM_GRADIENT_TD
#define TRAINC_TRAIN_CUSTOM_GRADIENT_TD

include "dialects/Train/TrainBase.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"

def Train_CustomGradientOp : Train_Op<"custom_gradient", [
    AttrSizedOperandSegments, IsolatedFromAbove, SingleBlock,
    DeclareOpInterfaceMethods<DifferentiableOpInterface, ["isDifferentiable"]>,
    DeclareOpInterfaceMethods<DecomposableOpInterface>, DeclareOpInterfaceMethods<EvalModeOpInterface>,
    DeclareOpInterfaceMethods<FusionOpInterface>, DeclareOpInterfaceMethods<ReferenceOpInterface>]> {
  let summary = "values that were computed from `inputs`, with the gradient of the body";
  let description = [{
    The results are `outputs`. No gradient goes through these: the body gives those of the inputs whose numbers are
    `wrt`, from the inputs, the outputs and the cotangent of each output that is a float. As `jax.custom_vjp` and
    `torch.autograd.Function`.
    Example: `%0 = train.custom_gradient %y of %x wrt = [0] : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    { ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>, %g: tensor<4xf32>): train.custom_gradient_yield %g : tensor<4xf32> }`.
  }];
  let arguments = (ins Variadic<Train_AnyTensor>:$outputs, Variadic<Train_AnyTensor>:$inputs, DenseI64ArrayAttr:$wrt);
  let results = (outs Variadic<Train_AnyTensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$outputs `of` $inputs `wrt` `=` $wrt attr-dict `:` functional-type(operands, $results) $body";
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def Train_CustomGradientYieldOp : Train_Op<"custom_gradient_yield", [Terminator, ReturnLike, HasParent<"CustomGradientOp">]> {
  let summary = "the gradients of a `train.custom_gradient`, in the order of its `wrt`";
  let arguments = (ins Variadic<Train_AnyTensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

#endif // TRAINC_TRAIN_CUSTOM_GRADIENT_TD
