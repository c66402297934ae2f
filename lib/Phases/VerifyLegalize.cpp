// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `verify-legalize`.

#include "lib/Phases/Functions.h"
#include "lib/Phases/Phases.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace trainc {
#define GEN_PASS_DEF_VERIFYLEGALIZEPASS
#include "lib/Phases/Phases.h.inc"
} // namespace trainc

namespace {
constexpr llvm::StringLiteral kPhase = "legalize",
                              kLeaves = "train.symbol and @forward, of ops of the train dialect";

struct VerifyLegalize final : public trainc::impl::VerifyLegalizePassBase<VerifyLegalize> {
  void runOnOperation() override {
    markAllAnalysesPreserved();
    if (failed(check()))
      signalPassFailure();
  }

  LogicalResult check() {
    func::FuncOp forward;
    for (Operation &op : *getOperation().getBody()) {
      if (isa<SymbolOp>(op))
        continue;
      auto function = dyn_cast<func::FuncOp>(op);
      if (!function)
        return phases::refuseOp(&op, kPhase, kLeaves);
      if (function.getName() != "forward")
        return phases::refuse(function, kPhase)
               << "the only function is @forward, not @" << function.getName();
      forward = function;
    }
    // Symbols alone are no model.
    if (!forward)
      return phases::refuse(getOperation(), kPhase)
             << "there is a function @forward, and here is none";
    return success(succeeded(phases::checkFunction(forward, kPhase,
                                                   {{"parameter", "input", "hyper"},
                                                    {"loss", "output", "gradient", "update"}})) &&
                   succeeded(phases::checkGraphOps(forward, kPhase, kLeaves)));
  }
};
} // namespace
