// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `test-input-rules`: remarks, at each function, what the values of its inputs must
// satisfy.
#include "test/lib/TestPasses/TestPasses.h"

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassRegistry.h"
#include "trainc/Analysis/InputRules.h"

using namespace mlir;
using namespace trainc;

namespace {
struct TestInputRules : PassWrapper<TestInputRules, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TestInputRules)

  StringRef getArgument() const override { return "test-input-rules"; }
  StringRef getDescription() const override { return "finds what values inputs may have"; }

  void runOnOperation() override {
    for (const InputRule &found : collectInputRules(getOperation())) {
      InFlightDiagnostic remark = getOperation().emitRemark() << "values of " << found.input;
      if (!found.begin.empty())
        remark << " at " << train::dimsToString(found.begin) << " to "
               << train::dimsToString(found.end);
      remark << " from " << found.rule.min.getConstant().value_or(INT64_MIN) << ", below "
             << found.rule.max.getConstant().value_or(INT64_MAX);
    }
  }
};
} // namespace

void testdialect::registerTestInputRulesPass() { PassRegistration<TestInputRules>(); }
