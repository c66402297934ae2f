// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Composites are taken apart until none is left, since some are made of others.

#include "lib/Transforms/EliminatePadding/ElementaryCopy.h"
#include "dialects/Train/Ranges/Ranges.h"
#include "dialects/Train/TrainBuilder.h"
#include "dialects/Train/TrainDialect.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

static bool competes(Operation *op) {
  auto known = dyn_cast<RangeOpInterface>(op);
  return known && known.getContest();
}

/// `originals` maps each value of the copy to the values of the function that it computes.
ElementaryCopy::ElementaryCopy(func::FuncOp function) {
  IRMapping mapping;
  copy = cast<func::FuncOp>(function->clone(mapping));
  function.walk([&](Operation *op) {
    for (Value result : op->getResults())
      originals[mapping.lookup(result)].push_back(result);
  });
  while (true) {
    SmallVector<DecomposableOpInterface> composites;
    // What competes (a softmax, say) has ranges of its own that its parts would lose.
    copy.walk([&](DecomposableOpInterface op) {
      if (!competes(op))
        composites.push_back(op);
    });
    if (composites.empty())
      break;
    for (DecomposableOpInterface op : composites) {
      OpBuilder builder(op);
      TrainBuilder tb(builder, op->getLoc());
      SmallVector<Value> results;
      op.decompose(tb, results);
      // Before the op goes: a new one may get its address.
      for (auto [old, made] : llvm::zip_equal(op->getResults(), results)) {
        SmallVector<Value, 1> moved = std::move(originals[old]);
        originals.erase(old);
        llvm::append_range(originals[made], moved);
      }
      op->replaceAllUsesWith(results);
      op->erase();
    }
  }
}

ElementaryCopy::~ElementaryCopy() { copy.erase(); }
