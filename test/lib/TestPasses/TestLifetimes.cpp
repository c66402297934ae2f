// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `test-lifetimes`: remarks, at each buffer of a plan function, its lifetime and, at the
// function, how large its arena is where all symbols are `size`; with `loss` its phases instead.
#include "test/lib/TestPasses/TestPasses.h"

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassRegistry.h"
#include "trainc/Analysis/Phases.h"

using namespace mlir;
using namespace trainc;

namespace {
struct TestLifetimes : PassWrapper<TestLifetimes, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TestLifetimes)

  TestLifetimes() = default;
  TestLifetimes(const TestLifetimes &other) : PassWrapper(other) {}
  StringRef getArgument() const override { return "test-lifetimes"; }
  StringRef getDescription() const override { return "finds lifetimes of buffers"; }

  void runOnOperation() override {
    for (auto function : getOperation().getOps<plan::FunctionOp>()) {
      FunctionLifetimes lifetimes(function);
      for (const BufferLifetime &life : lifetimes.buffers)
        plan::BufferOp(life.buffer).emitRemark()
            << life.bytes.str() << " bytes, commands " << life.first << " to " << life.last;
      if (!loss.empty()) {
        Phases phases = getPhases(lifetimes, loss);
        function.emitRemark() << "forward to " << phases.forwardEnd << ", backward to "
                              << phases.backwardEnd << " of " << lifetimes.commands.size()
                              << " commands";
        continue;
      }
      auto all = [&](StringRef) -> std::optional<int64_t> {
        return size ? std::optional<int64_t>(size) : std::nullopt;
      };
      for (const Target *target : getTargets()) {
        FailureOr<ArenaPeak> peak = getArenaPeak(function, all, target->traits.memory);
        if (failed(peak))
          function.emitRemark("no sizes");
        else
          function.emitRemark() << target->name() << ": " << peak->planned << " bytes, at least "
                                << peak->lowerBound;
      }
    }
  }

  Option<int64_t> size{*this, "size", llvm::cl::desc("value of all symbols; 0: none")};
  Option<std::string> loss{*this, "loss", llvm::cl::desc("phases for this loss instead of sizes")};
};
} // namespace

void testdialect::registerTestLifetimesPass() { PassRegistration<TestLifetimes>(); }
