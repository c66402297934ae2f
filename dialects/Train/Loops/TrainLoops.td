// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Steps one after the other (docs/design/loops.md). In a file of its own, as few passes look into a loop.

#ifndef TRAINC_TRAIN_LOOPS_TD
#define TRAINC_TRAIN_LOOPS_TD

include "dialects/Train/TrainBase.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"

def Train_LoopOp : Train_Op<"loop", [
    AttrSizedOperandSegments, IsolatedFromAbove, SingleBlock,
    DeclareOpInterfaceMethods<DifferentiableOpInterface, ["hasDerivative", "isDifferentiable", "isDifferentiableResult"]>,
    DeclareOpInterfaceMethods<FusionOpInterface, ["acceptsOperandLayout", "acceptsResultLayout"]>,
    DeclareOpInterfaceMethods<CostOpInterface, ["getFlops", "getRecomputeClass"]>]> {
  let summary = "a body that runs for each step, one after the other";
  let description = [{
    The body gets what is carried from step to step, a slice of each scanned operand (without its first axis, which has
    `steps` elements) and the invariants, and ends with `train.loop_yield` of what is carried on, then what is stacked. The
    results are what the last step has carried on, then the stacked values along a new first axis. With `reverse` the
    last slice comes first, and what is stacked lies where its slices do. Without a step the results are the initial values.
    Example: `%0:2 = train.loop(%h) scanned(%x) invariant(%w) steps <seq> : (tensor<2x4xf32>,
    tensor<?x2x4xf32, #train.dims<seq, 2, 4>>, tensor<4x4xf32>) -> (tensor<2x4xf32>, tensor<?x2x4xf32, #train.dims<seq, 2, 4>>) {...}`.
  }];
  let arguments = (ins Variadic<Train_AnyTensor>:$initial, Variadic<Train_AnyTensor>:$scanned,
                       Variadic<Train_AnyTensor>:$invariants, Train_DimAttr:$steps, UnitAttr:$reverse);
  let results = (outs Variadic<Train_AnyTensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    `(` $initial `)` `scanned` `(` $scanned `)` `invariant` `(` $invariants `)` `steps` $steps (`reverse` $reverse^)?
    attr-dict `:` functional-type(operands, $results) $body
  }];
  let extraClassDeclaration = [{
    ::mlir::Block *getBlock() { return &getBody().front(); }
    unsigned numCarried() { return getInitial().size(); }
    /// The body's arguments for the slices of scanned operands.
    ::mlir::Block::BlockArgListType getSlices() {
      return getBlock()->getArguments().slice(numCarried(), getScanned().size());
    }
    ::mlir::ResultRange getStacked() { return getResults().drop_front(numCarried()); }
    ::mlir::ResultRange getCarried() { return getResults().take_front(numCarried()); }
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let hasCanonicalizeMethod = 1;
}

def Train_LoopYieldOp : Train_Op<"loop_yield", [Terminator, ReturnLike, HasParent<"LoopOp">]> {
  let summary = "what a step of a loop carries on, then what it adds to the stacked results";
  let arguments = (ins Variadic<Train_AnyTensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

def Train_WithinOp : Train_Op<"within", [
    SameOperandsAndResultType,
    DeclareOpInterfaceMethods<AxisMapOpInterface>,
    DeclareOpInterfaceMethods<CostOpInterface>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DeclareOpInterfaceMethods<ElementAccessOpInterface, ["onlyMoves"]>,
    DeclareOpInterfaceMethods<FusionOpInterface>,
    DeclareOpInterfaceMethods<IndexOperandOpInterface>,
    DeclareOpInterfaceMethods<ReferenceOpInterface>]> {
  let summary = "the operand, whose integers must lie from 0 to `limit`: numbers of steps, indices";
  let description = [{
    Another value ends the run with the node's name, before the step where it comes straight from an input. `from_end`: as
    indices of an axis of size limit + 1 may, they lie from -(limit + 1) on; they are not changed.
    Example: `%1 = train.within %lengths to <seq> : tensor<?xi32, #train.dims<batch>>`.
  }];
  let arguments = (ins Train_IntTensor:$operand, Train_DimAttr:$limit, UnitAttr:$fromEnd);
  let results = (outs Train_IntTensor:$result);
  let assemblyFormat = "$operand `to` $limit (`from_end` $fromEnd^)? attr-dict `:` type($operand)";
}

#endif // TRAINC_TRAIN_LOOPS_TD
