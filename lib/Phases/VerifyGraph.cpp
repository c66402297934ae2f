// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `verify-graph`.

#include "lib/Phases/Functions.h"
#include "lib/Phases/Phases.h"

using namespace mlir;
using namespace trainc;

namespace trainc {
#define GEN_PASS_DEF_VERIFYGRAPHPASS
#include "lib/Phases/Phases.h.inc"
} // namespace trainc

namespace {
constexpr llvm::StringLiteral kPhase = "graph",
                              kLeaves = "train.symbol and functions of ops of the train dialect";

struct VerifyGraph final : public trainc::impl::VerifyGraphPassBase<VerifyGraph> {
  void runOnOperation() override {
    markAllAnalysesPreserved();
    if (failed(phases::checkFunctions(getOperation(), kPhase, kLeaves)))
      return signalPassFailure();
    // Functions are checked; now what is in them.
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (failed(phases::checkGraphOps(function, kPhase, kLeaves)))
        return signalPassFailure();
  }
};
} // namespace
