// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the ranks of a run send each other (docs/design/distribute.md). In a file of its own, since few passes know of
// more than one rank.

#ifndef TRAINC_TRAIN_COLLECTIVES_TD
#define TRAINC_TRAIN_COLLECTIVES_TD

include "dialects/Train/TrainBase.td"

// All ranks of a run make such a call together, each with tensors of its own, in the same order among all such calls. With
// `train.for_others` (unit) a rank makes it for the others alone, and it stays where nobody reads its results.
def Train_CollectiveCall : NativeOpTrait<"CollectiveCall"> {
  let cppNamespace = "::trainc::train";
}
// Such a call that adds up: where its results are of f32, all of its operands may be of bf16 or f16 instead, with sums of the
// same numbers in f32.
def Train_SumOverRanks : NativeOpTrait<"SumOverRanks"> {
  let cppNamespace = "::trainc::train";
}

class Train_CollectiveOp<string mnemonic, string recomputeClass = "::trainc::train::RecomputeClass::Never",
                         list<Trait> traits = []>
    : Op<Train_Dialect, mnemonic, !listconcat([
        Train_CollectiveCall, AlwaysSpeculatable, DeclareOpInterfaceMethods<MemoryEffectsOpInterface>, DeclareOpInterfaceMethods<AxisMapOpInterface>,
        DeclareOpInterfaceMethods<ReferenceOpInterface>,
        DeclareOpInterfaceMethods<FusionOpInterface, ["acceptsOperandLayout", "acceptsResultLayout"]>,
        DeclareOpInterfaceMethods<CostOpInterface, ["getFlops", "getRecomputeClass"]>], traits)> {
  let arguments = (ins Variadic<Train_AnyTensor>:$tensors);
  let results = (outs Variadic<Train_AnyTensor>:$results);
  let assemblyFormat = "$tensors attr-dict `:` functional-type($tensors, $results)";
  let hasVerifier = 1;
  let extraClassDefinition = [{
    ::trainc::train::AxisMap $cppClass::getAxisMap() {
      return ::trainc::train::detail::collectiveAxisMap(getOperation());
    }
    ::llvm::LogicalResult $cppClass::evaluate(::llvm::ArrayRef<::trainc::train::HostTensor> operands,
                                              const ::trainc::train::SymbolValues &symbols,
                                              ::llvm::MutableArrayRef<::trainc::train::HostTensor> results) {
      return ::trainc::train::detail::evaluateAlone(operands, symbols, results);
    }
    ::trainc::train::FusionRole $cppClass::getFusionRole() { return ::trainc::train::FusionRole::Library; }
    bool $cppClass::acceptsOperandLayout(unsigned operand, const ::trainc::train::StridedLayout &layout) {
      return ::trainc::train::detail::isRowMajor(getOperation()->getOperand(operand), layout);
    }
    bool $cppClass::acceptsResultLayout(unsigned result, const ::trainc::train::StridedLayout &layout) {
      return ::trainc::train::detail::isRowMajor(getOperation()->getResult(result), layout);
    }
    ::trainc::train::DimAttr $cppClass::getFlops() {
      return ::trainc::train::DimAttr::constant(getContext(), 0);
    }
    ::trainc::train::RecomputeClass $cppClass::getRecomputeClass() {
      return }] # recomputeClass # [{;
    }
    void $cppClass::getEffects(
        ::llvm::SmallVectorImpl<::mlir::MemoryEffects::EffectInstance> &effects) {
      if (getOperation()->hasAttr(::trainc::train::kForOthersAttr))
        effects.emplace_back(::mlir::MemoryEffects::Write::get());
    }
  }];
}

def Train_AllReduceOp : Train_CollectiveOp<"all_reduce", "::trainc::train::RecomputeClass::Never", [Train_SumOverRanks]> {
  let summary = "sums over all ranks";
  let description = [{
    Each result is the sum of that operand's values on all ranks, on every rank: 0 + x of rank 0 + x of rank 1 + ..., in
    this order. So a step of several ranks has the bits of one that adds up as many micro-batches. Operands of bf16 or f16
    have sums in f32, of the same numbers.
    Example: `%0:2 = train.all_reduce %w, %b : (tensor<4x3xf32>, tensor<3xf32>) -> (tensor<4x3xf32>, tensor<3xf32>)`.
  }];
}

// Of tensors that are cut into shards, whose units are `units`: a number of elements for each.
class Train_ShardingOp<string mnemonic, string recomputeClass = "::trainc::train::RecomputeClass::Never",
                       list<Trait> traits = []>
    : Train_CollectiveOp<mnemonic, recomputeClass, traits> {
  let arguments = (ins Variadic<Train_AnyTensor>:$tensors, DenseI64ArrayAttr:$units);
  let assemblyFormat = "$tensors `units` `=` $units attr-dict `:` functional-type($tensors, $results)";
}

def Train_ReduceScatterOp : Train_ShardingOp<"reduce_scatter", "::trainc::train::RecomputeClass::Never", [Train_SumOverRanks]> {
  let summary = "the rank's shard of the sums over all ranks";
  let description = [{
    As `train.all_reduce`, of which the rank gets shard(n, u) = ((n / u rounded up) + world - 1) floordiv world * u elements
    from rank * shard(n, u) on, n the elements of the tensor, u its unit; behind the tensor's end there are zeros.
    Example: `%0 = train.reduce_scatter %w units = [4] : (tensor<4x3xf32>) -> tensor<?x4xf32, #train.dims<floordiv(world + 2, world), 4>>`.
  }];
}

// Made again for each copy that reads it: kept for the backward pass, whole tensors would be in memory at once.
def Train_AllGatherOp : Train_ShardingOp<"all_gather", "::trainc::train::RecomputeClass::Free"> {
  let summary = "tensors of the shards of all ranks";
  let description = [{
    The shards behind each other, as `train.reduce_scatter` cuts them, without what is behind the tensor's end.
    Example: `%0 = train.all_gather %s units = [4] : (tensor<?x4xf32, #train.dims<floordiv(world + 2, world), 4>>) -> tensor<4x3xf32>`.
  }];
}

#endif // TRAINC_TRAIN_COLLECTIVES_TD
