// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `test-train-to-plan`: makes plan functions of functions that have library calls and
// views only.
#include "test/lib/TestPasses/TestPasses.h"

#include "lib/Conversion/TrainToPlan/TrainToPlan.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassRegistry.h"

using namespace mlir;
using namespace trainc;

namespace {
struct TestTrainToPlan : PassWrapper<TestTrainToPlan, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TestTrainToPlan)

  StringRef getArgument() const override { return "test-train-to-plan"; }
  StringRef getDescription() const override {
    return "makes plan functions; kernels have two stages and no code";
  }
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<plan::PlanDialect>();
  }

  void runOnOperation() override {
    auto named = [](train::FusionOp fusion) -> FailureOr<codegen::KernelInfo> {
      FailureOr<codegen::Structure> structure = codegen::analyzeFusion(fusion);
      if (failed(structure))
        return failure();
      codegen::KernelInfo info;
      info.form = structure->kind;
      const auto one = train::DimAttr::constant(fusion.getContext(), 1);
      for (const char *stage : {"first", "second"})
        info.stages.push_back({stage, one, 1, one});
      return info;
    };
    for (auto function : llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>()))
      if (failed(convertTrainToPlan(function, named)))
        return signalPassFailure();
  }
};
} // namespace

void testdialect::registerTestTrainToPlanPass() { PassRegistration<TestTrainToPlan>(); }
