// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `decompose`: asks every composite for its parts.

#include "lib/Transforms/Decompose/Decompose.h"

#include "dialects/Train/Convolution/Convolution.h"
#include "trainc/Support/Location.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace trainc {
#define GEN_PASS_DEF_DECOMPOSEPASS
#include "lib/Transforms/Decompose/Decompose.h.inc"
} // namespace trainc

namespace {
struct DecomposePass : trainc::impl::DecomposePassBase<DecomposePass> {
  using DecomposePassBase::DecomposePassBase;

  void runOnOperation() override {
    if (convolutions && calls)
      getOperation()->walk(
          [](ConvolutionOpInterface op) { (void)(evenPads(op) || multiplyPieces(op)); });
    // Composites may be made of others: until none is left. Each turn replaces all there are, so it
    // ends if no composite contains itself.
    while (true) {
      SmallVector<DecomposableOpInterface> composites;
      getOperation()->walk([&](DecomposableOpInterface op) {
        if (!llvm::is_contained(keep, op->getName().getStringRef()) &&
            (!convolutions || isa<ConvolutionOpInterface>(*op)) && !(calls && isCall(op)))
          composites.push_back(op);
      });
      if (composites.empty())
        return;
      for (DecomposableOpInterface op : composites)
        if (failed(decompose(op)))
          return signalPassFailure();
    }
  }

private:
  static bool isCall(Operation *op) {
    auto fusion = dyn_cast<FusionOpInterface>(op);
    return fusion && fusion.getFusionRole() == FusionRole::Library;
  }

  LogicalResult decompose(DecomposableOpInterface op) {
    // Nothing needs to be computed for results that nobody uses.
    if (isOpTriviallyDead(op)) {
      op->erase();
      return success();
    }
    Operation *before = op->getPrevNode();
    OpBuilder builder(op);
    TrainBuilder tb(builder, op->getLoc());
    SmallVector<Value> results;
    op.decompose(tb, results);
    // A wrong type would show far from here.
    if (!llvm::equal(ValueRange(results).getTypes(), op->getResultTypes()))
      return op->emitError() << describeOp(op) << " has parts of other types than its results";
    Operation *last = op->getPrevNode();
    op->replaceAllUsesWith(results);
    op->erase();
    // Parts that only unused results needed; they lie between `before` and where the composite was.
    for (Operation *part = last; part != before;) {
      Operation *previous = part->getPrevNode();
      if (isOpTriviallyDead(part))
        part->erase();
      part = previous;
    }
    return success();
  }
};
} // namespace
