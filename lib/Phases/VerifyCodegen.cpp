// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `verify-codegen`.

#include "dialects/Plan/PlanDialect.h"
#include "lib/Phases/Functions.h"
#include "lib/Phases/Phases.h"

using namespace mlir;
using namespace trainc;

namespace trainc {
#define GEN_PASS_DEF_VERIFYCODEGENPASS
#include "lib/Phases/Phases.h.inc"
} // namespace trainc

namespace {
constexpr llvm::StringLiteral kPhase = "codegen",
                              kLeaves = "train.symbol and plan.function, of ops of its dialect";

struct VerifyCodegen final : public trainc::impl::VerifyCodegenPassBase<VerifyCodegen> {
  void runOnOperation() override {
    markAllAnalysesPreserved();
    if (failed(check()))
      signalPassFailure();
  }

  LogicalResult check() {
    SmallVector<Operation *> functions;
    // Symbols and functions, in any order.
    for (Operation &op : *getOperation().getBody()) {
      if (isa<train::SymbolOp>(op))
        continue;
      auto function = dyn_cast<plan::FunctionOp>(op);
      if (!function)
        return phases::refuseOp(&op, kPhase, kLeaves);
      functions.push_back(function);
      for (Operation &command : function.getBody().front())
        if (!isa_and_nonnull<plan::PlanDialect>(command.getDialect()))
          return phases::refuseOp(&command, kPhase, kLeaves);
    }
    return phases::checkFunctionNames(getOperation(), kPhase, functions);
  }
};
} // namespace
