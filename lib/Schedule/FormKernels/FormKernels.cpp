// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Forms kernels in four steps: every op is assigned to a group; which values are stored and which
// are computed again is decided; the groups are ordered; and emitted.

#include "lib/Schedule/FormKernels/FormKernels.h"

#include "lib/Schedule/FormKernels/AssignGroups.h"
#include "lib/Schedule/FormKernels/EmitKernels.h"
#include "lib/Schedule/FormKernels/Order.h"

namespace trainc {
#define GEN_PASS_DEF_FORMKERNELSPASS
#include "lib/Schedule/FormKernels/FormKernels.h.inc"
} // namespace trainc

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace {
class FormKernelsPass : public trainc::impl::FormKernelsPassBase<FormKernelsPass> {
public:
  using Base::Base;
  /// Every op must say what it is before grouping begins: an op that is left out would be lost.
  void runOnOperation() override {
    if (failed(form(getOperation().getBody().front())))
      signalPassFailure();
  }

private:
  /// Of the blocks within first: an op with a body is a call like others.
  LogicalResult form(Block &block) {
    for (Operation &op : block.without_terminator()) {
      if (isa<train::FusionOp>(op))
        continue;
      if (getFusionRole(&op) == FusionRole::None)
        return op.emitError("op '") << op.getName() << "' does not say how it becomes a kernel";
      for (Region &region : op.getRegions())
        if (failed(form(region.front())))
          return failure();
    }
    KernelGroups groups(block, maxOps);
    assignGroups(block, groups, recomputeCost, unrelatedSums);
    const StoredValues values = decideStored(block, groups, recomputeCost);
    emitKernels(block, groups, values, orderGroups(block, groups, values, scheduleUpdates));
    return success();
  }
};
} // namespace
