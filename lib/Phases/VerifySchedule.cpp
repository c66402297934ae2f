// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `verify-schedule`.

#include "dialects/Train/Collectives/Collectives.h"
#include "lib/Phases/Functions.h"
#include "lib/Phases/Phases.h"
#include "mlir/IR/Matchers.h"
#include "trainc/Analysis/StridedViews.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace trainc {
#define GEN_PASS_DEF_VERIFYSCHEDULEPASS
#include "lib/Phases/Phases.h.inc"
} // namespace trainc

namespace {
constexpr llvm::StringLiteral kPhase = "schedule",
                              kLeaves =
                                  "kernels (train.fusion), library calls, views and constants";

bool hasPlace(Operation *op) {
  switch (getFusionRole(op)) {
  case FusionRole::Library:
    return true;
  // Views are no kernels of their own; everything else of this kind has to be in one.
  case FusionRole::View:
  case FusionRole::Access:
    return isa<StridedViewOpInterface>(op) || matchPattern(op, m_Constant()) || isJoinedInPlace(op);
  default:
    return isa<FusionOp>(op);
  }
}

/// The first op that a plan would have no command for, also in the bodies of calls; null: none.
Operation *findHomeless(Block &block) {
  for (Operation &op : block.without_terminator()) {
    if (!hasPlace(&op))
      return &op;
    // Kernels are what code generation reads.
    if (isa<FusionOp>(op))
      continue;
    for (Region &region : op.getRegions())
      if (Operation *inner = findHomeless(region.front()))
        return inner;
  }
  return nullptr;
}

struct VerifySchedule final : public trainc::impl::VerifySchedulePassBase<VerifySchedule> {
  void runOnOperation() override {
    markAllAnalysesPreserved();
    if (failed(phases::checkFunctions(getOperation(), kPhase, kLeaves)))
      return signalPassFailure();
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (Operation *op = findHomeless(function.getBody().front())) {
        (void)phases::refuseOp(op, kPhase, kLeaves);
        return signalPassFailure();
      }
    if (failed(checkCollectives()))
      signalPassFailure();
  }

  /// What ranks may run at the same time calls the same.
  LogicalResult checkCollectives() {
    struct Calls {
      func::FuncOp of;
      SmallVector<Operation *> calls;
    };
    DenseMap<Attribute, Calls> known;
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      Attribute with = function->getAttr(kInStepAttr);
      if (!with)
        continue;
      SmallVector<Operation *> calls;
      for (Operation &op : function.getBody().front())
        if (op.hasTrait<CollectiveCall>())
          calls.push_back(&op);
      auto agree = [](Operation *a, Operation *b) {
        return a->getName() == b->getName() && a->getOperandTypes() == b->getOperandTypes() &&
               a->getResultTypes() == b->getResultTypes();
      };
      auto [first, isNew] = known.try_emplace(with, Calls{function, calls});
      if (!isNew && !llvm::equal(calls, first->second.calls, agree))
        return phases::refuse(function, kPhase)
               << "ranks that run @" << function.getName() << " and @" << first->second.of.getName()
               << " at once make equal calls to each other";
    }
    return success();
  }
};
} // namespace
