// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `test-group-launches`: groups the launches of plan functions, by kernels named
// KERNEL_grouped.
#include "test/lib/TestPasses/TestPasses.h"

#include "lib/Conversion/TrainToPlan/EarlyLaunches.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassRegistry.h"

using namespace mlir;
using namespace trainc;

namespace {
struct TestGroupLaunches : PassWrapper<TestGroupLaunches, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TestGroupLaunches)

  TestGroupLaunches() = default;
  TestGroupLaunches(const TestGroupLaunches &other) : PassWrapper(other) {}

  StringRef getArgument() const override { return "test-group-launches"; }
  StringRef getDescription() const override { return "groups the launches of plan functions"; }

  void runOnOperation() override {
    auto grouped = [](StringRef kernel) { return kernel.str() + "_grouped"; };
    for (auto function : getOperation().getOps<plan::FunctionOp>()) {
      if (early)
        moveLaunchesUp(function, grouped);
      groupLaunches(function, grouped);
    }
  }

  Option<bool> early{*this, "early", llvm::cl::desc("move small launches up first")};
};
} // namespace

void testdialect::registerTestGroupLaunchesPass() { PassRegistration<TestGroupLaunches>(); }
