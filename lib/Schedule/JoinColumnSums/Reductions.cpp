// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels whose reductions are of one kind.

#include "lib/Schedule/JoinColumnSums/Reductions.h"

#include "trainc/Analysis/StridedViews.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

std::optional<Reductions> trainc::findReductions(FusionOp fusion) {
  Reductions found;
  for (Operation &op : fusion.getBody().front().without_terminator()) {
    if (getFusionRole(&op) == FusionRole::Standalone)
      return std::nullopt;
    auto reduction = dyn_cast<ReductionOpInterface>(op);
    if (!reduction)
      continue;
    SmallVector<DimAttr> space = getDims(op.getOperand(0));
    SmallVector<int64_t> axes = reduction.getReducedAxes();
    if (found.count++ == 0) {
      found.space = space;
      found.axes = axes;
    } else if (found.space != space || found.axes != axes) {
      return std::nullopt;
    }
  }
  if (found.count == 0)
    return std::nullopt;
  return found;
}
