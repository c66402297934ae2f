// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `merge-variants`: the functions of @packed move beside the others, and all that train
// say what they cost.

#include "lib/Transforms/EliminatePadding/EliminatePadding.h"

#include "trainc/Analysis/Roles.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace trainc {
#define GEN_PASS_DEF_MERGEVARIANTSPASS
#include "lib/Transforms/EliminatePadding/EliminatePadding.h.inc"
} // namespace trainc

namespace {
/// As a sum of products of sizes: what is told depends on the batch that is at hand.
DimAttr countFlops(func::FuncOp function) {
  DimAttr flops = DimAttr::constant(function.getContext(), 0);
  function.walk([&](CostOpInterface op) { flops = flops + op.getFlops(); });
  return flops;
}

struct MergeVariantsPass : trainc::impl::MergeVariantsPassBase<MergeVariantsPass> {
  using MergeVariantsPassBase::MergeVariantsPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    mergePacked(module);
    // What a step costs is told of every one.
    // So that variants and their functions are compared by the same measure.
    for (StringRef name : {"step", "micro"})
      if (auto function = module.lookupSymbol<func::FuncOp>(name))
        function->setAttr(kFlopsAttr, countFlops(function));
  }

private:
  /// A function of @packed that has no counterpart, or reads no batch, is dropped with the module.
  static void mergePacked(ModuleOp module) {
    auto packed = module.lookupSymbol<ModuleOp>(kPackedModule);
    if (!packed)
      return;
    Attribute conditions = packed->getAttr(kConditionsAttr);
    SmallVector<func::FuncOp> functions(packed.getOps<func::FuncOp>());
    for (func::FuncOp function : functions) {
      auto base = module.lookupSymbol<func::FuncOp>(function.getName());
      // What reads no inputs computes the same in both: the update.
      bool reads = llvm::any_of(llvm::seq(function.getNumArguments()),
                                [&](unsigned i) { return getArgRole(function, i) == "input"; });
      if (!base || !reads)
        continue;
      function->remove();
      module.push_back(function);
      function->setAttr(kVariantOfAttr, base.getNameAttr());
      function->setAttr(kConditionsAttr, conditions);
      function->setAttr(kFlopsAttr, countFlops(function));
      function.setName((base.getName() + "." + kPackedModule).str());
    }
    packed.erase();
  }
};
} // namespace
