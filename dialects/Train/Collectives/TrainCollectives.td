// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the ranks of a run send each other (docs/design/distribute.md). In a file of its own, since few passes know of
// more than one rank.

#ifndef TRAINC_TRAIN_COLLECTIVES_TD
#define TRAINC_TRAIN_COLLECTIVES_TD

include "dialects/Train/TrainBase.td"

def CollectiveOpInterface : Train_Interface<"CollectiveOpInterface"> {
  let description = [{
    All ranks of a run make this call together, each with tensors of its own, in the same order among all such calls.
  }];
  let methods = [
    InterfaceMethod<[{
        whether the operands are added up, element by element, in the order of ranks from 0 on
      }], "bool", "addsUp">,
    InterfaceMethod<"whether the results are the parts of all ranks together", "bool", "gathers">,
  ];
}

class Train_CollectiveOp<string mnemonic, bit adds, bit gathers, list<Trait> traits = []>
    : Train_Op<mnemonic, !listconcat([
        DeclareOpInterfaceMethods<CollectiveOpInterface>,
        DeclareOpInterfaceMethods<AxisMapOpInterface>,
        DeclareOpInterfaceMethods<ReferenceOpInterface>,
        DeclareOpInterfaceMethods<FusionOpInterface, ["acceptsOperandLayout", "acceptsResultLayout"]>,
        DeclareOpInterfaceMethods<CostOpInterface, ["getFlops", "getRecomputeClass"]>], traits)> {
  let arguments = (ins Variadic<Train_AnyTensor>:$tensors);
  let results = (outs Variadic<Train_AnyTensor>:$results);
  let assemblyFormat = "$tensors attr-dict `:` functional-type($tensors, $results)";
  let hasVerifier = 1;
  let extraClassDefinition = [{
    bool $cppClass::addsUp() { return }] # !if(adds, "true", "false") # [{; }
    bool $cppClass::gathers() { return }] # !if(gathers, "true", "false") # [{; }
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
      return ::trainc::train::RecomputeClass::Never;
    }
  }];
}

def Train_AllReduceOp : Train_CollectiveOp<"all_reduce", 1, 1> {
  let summary = "sums over all ranks";
  let description = [{
    Each result is the sum of that operand's values on all ranks, on every rank: 0 + x of rank 0 + x of rank 1 + ..., in
    this order. So a step of several ranks has the bits of one that adds up as many micro-batches.
    Example: `%0:2 = train.all_reduce %w, %b : (tensor<4x3xf32>, tensor<3xf32>) -> (tensor<4x3xf32>, tensor<3xf32>)`.
  }];
}

#endif // TRAINC_TRAIN_COLLECTIVES_TD
