// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `test-token-inputs`: remarks, at each function, which of its inputs hold tokens or
// labels and what marks padding in them.
#include "test/lib/TestPasses/TestPasses.h"

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassRegistry.h"
#include "trainc/Analysis/TokenInputs.h"

using namespace mlir;
using namespace trainc;

namespace {
struct TestTokenInputs : PassWrapper<TestTokenInputs, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TestTokenInputs)

  StringRef getArgument() const override { return "test-token-inputs"; }
  StringRef getDescription() const override { return "finds inputs of tokens and labels"; }

  void runOnOperation() override {
    for (const TokenInput &found : findTokenInputs(getOperation())) {
      InFlightDiagnostic remark = getOperation().emitRemark();
      remark << (found.role == TokenRole::Label ? "label " : "embed ") << found.input.getArgNumber()
             << ", " << found.uses.size() << " uses";
      if (found.padValue)
        remark << ", pad " << *found.padValue;
      if (found.mask)
        remark << ", mask " << found.mask.getArgNumber();
      remark << (found.byMask ? ", by mask" : "")
             << (found.knowsPadding() ? "" : ", padding unknown");
    }
  }
};
} // namespace

void testdialect::registerTestTokenInputsPass() { PassRegistration<TestTokenInputs>(); }
