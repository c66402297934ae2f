// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `distribute`: gradients of a rank become those of all ranks.

#include "lib/Transforms/Distribute/Distribute.h"

#include "dialects/Train/Collectives/Collectives.h"
#include "mlir/IR/Remarks.h"
#include "trainc/Transforms/Support/StepBuilder.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace trainc {
#define GEN_PASS_DEF_DISTRIBUTEPASS
#include "lib/Transforms/Distribute/Distribute.h.inc"
} // namespace trainc

namespace {
/// What travels together.
struct Bucket {
  SmallVector<Value> gradients;
  int64_t bytes = 0;
};

struct DistributePass : trainc::impl::DistributePassBase<DistributePass> {
  using DistributePassBase::DistributePassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto update = module.lookupSymbol<func::FuncOp>("update");
    if (!update) {
      module.emitError("expected the function @update: run attach-optimizer first");
      return signalPassFailure();
    }
    if (bucket < 1) {
      module.emitError("expected buckets of at least a byte, got ") << int64_t(bucket);
      return signalPassFailure();
    }
    if (auto gradients = module.lookupSymbol<func::FuncOp>("gradients"))
      for (unsigned i = 0; i < gradients.getNumResults(); ++i)
        if (getResultRole(gradients, i) == "update") {
          gradients.emitError("the forward pass changes '")
              << getResultName(gradients, i) << "', which each rank would do in its own way";
          return signalPassFailure();
        }
    build(module, update);
  }

private:
  void build(ModuleOp module, func::FuncOp update) {
    StepBuilder step(module, "exchange", update.getLoc());
    SmallVector<unsigned> arguments;
    SmallVector<Bucket> buckets;
    for (unsigned i = 0; i < update.getNumArguments(); ++i) {
      if (getArgRole(update, i) != "gradient")
        continue;
      BlockArgument like = update.getArgument(i);
      Value gradient = step.argument("gradient", getArgName(update, i),
                                     accumulatorType(like.getType()), like.getLoc());
      arguments.push_back(i);
      if (buckets.empty() || buckets.back().bytes >= bucket ||
          getElementType(buckets.back().gradients.front()) != getElementType(gradient))
        buckets.emplace_back();
      buckets.back().gradients.push_back(gradient);
      // Of parameters, whose sizes are known.
      buckets.back().bytes += *getBytes(gradient.getType()).getConstant();
    }
    SmallVector<Value> sums;
    int64_t bytes = 0;
    for (const Bucket &one : buckets) {
      llvm::append_range(sums, buildAllReduce(step.builder(), update.getLoc(), one.gradients));
      bytes += one.bytes;
    }
    for (auto [i, sum] : llvm::zip_equal(arguments, sums))
      step.result(sum, DictionaryAttr::get(
                           module.getContext(),
                           {{StringAttr::get(module.getContext(), kRoleAttr),
                             StringAttr::get(module.getContext(), "gradient")},
                            {StringAttr::get(module.getContext(), kNameAttr),
                             StringAttr::get(module.getContext(), getArgName(update, i))}}));
    step.finish();
    remark::passed(update.getLoc(),
                   remark::RemarkOpts::name("Exchanged").category("distribute").function("update"))
        << remark::add("{0} bytes of gradients are summed up over all ranks: of {1} parameters, in "
                       "{2} buckets",
                       bytes, sums.size(), buckets.size());
  }
};
} // namespace
