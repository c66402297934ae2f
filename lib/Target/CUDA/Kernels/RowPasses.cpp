// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions that need no pass of their own, and the order of the others.

#include "RowPasses.h"

using namespace mlir;
using namespace trainc::train;

namespace trainc::codegen {

/// In program order: a reduction's pass is the number of reductions that it waits for. Picks need
/// none, and a softmax's sum goes with its maximum where `rescale` allows it.
RowPasses::RowPasses(FusionOp fusion, const Structure &s, bool rescale) {
  Block &body = fusion.getBody().front();
  llvm::DenseMap<Value, unsigned> level;
  auto passAt = [&](unsigned index) -> RowPass & {
    if (passes.size() <= index)
      passes.resize(index + 1);
    return passes[index];
  };
  for (Operation &op : body.without_terminator()) {
    unsigned deepest = 0;
    for (Value operand : op.getOperands())
      deepest = std::max(deepest, level.lookup(operand));
    // With the pass that has its operand at hand: the row does not wait for it.
    if (llvm::is_contained(s.columnSums, &op)) {
      passAt(deepest).columnSums.push_back(&op);
    } else if (isa<ReductionOpInterface>(op)) {
      Value result = op.getResult(0);
      if (auto pick = matchPick(&op, s.kept, s.vectorAxis)) {
        picks[result] = *pick;
      } else {
        Operation *maximum = rescale ? matchMaximum(&op, s.kept) : nullptr;
        // The level of a maximum is one more than its pass.
        RowPass &pass = passAt(maximum ? level.lookup(maximum->getResult(0)) - 1 : deepest);
        auto found = llvm::find(pass.reductions, maximum);
        if (found != pass.reductions.end()) {
          pass.reductions.erase(found);
          pass.rescaled.push_back({maximum, &op});
          deepest = level.lookup(maximum->getResult(0));
        } else {
          // Also where another sum has the maximum already.
          passAt(deepest).reductions.push_back(&op);
          ++deepest;
        }
      }
    }
    for (Value value : op.getResults())
      level[value] = deepest;
  }
  for (auto [number, value] : llvm::enumerate(body.getTerminator()->getOperands()))
    if (getDims(value) == s.space && !llvm::is_contained(s.keptResults, number) &&
        !llvm::is_contained(s.columnResults, number))
      passAt(level.lookup(value)).results.push_back(number);
}

} // namespace trainc::codegen
