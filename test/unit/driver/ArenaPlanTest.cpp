// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How near the planner comes to what no plan can be below: on every model that there is, on both
// targets, with all kept and with layers computed again, packed variants among them.

#include "lib/Driver/Phases/MemoryPasses.h"
#include "trainc/Import/Import.h"
#include "trainc/Schedule/Memory/MemoryTrials.h"

#include "dialects/ONNX/ONNXDialect.h"
#include "dialects/Plan/PlanDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Pass/PassManager.h"
#include "trainc/Registry/Registry.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace trainc;

namespace {

/// Bytes above the bound, as a part of it; alignment is in both.
constexpr double kLimit = 0.02;

std::vector<std::string> models() {
  std::vector<std::string> found;
  std::error_code error;
  for (llvm::sys::fs::directory_iterator it(TRAINC_MODELS, error), end; it != end && !error;
       it.increment(error))
    if (StringRef(it->path()).ends_with(".onnx"))
      found.push_back(it->path());
  llvm::sort(found);
  return found;
}

class ArenaPlanTest : public testing::TestWithParam<const Target *> {
protected:
  /// The functions that train, as the phase `graph` leaves them; null for graphs without.
  OwningOpRef<ModuleOp> load(const std::string &path, CompileOptions &options) {
    context.disableMultithreading();
    context.loadDialect<arith::ArithDialect, func::FuncDialect, math::MathDialect,
                        onnx::ONNXDialect, train::TrainDialect, plan::PlanDialect>();
    ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) { return success(); });
    ImportedModel imported;
    OwningOpRef<ModuleOp> module = importONNX(path, context, imported);
    LegalizeResult legalized;
    if (!module || failed(legalizeONNX(*module, options.legalize, legalized)))
      return {};
    options.graph.ownUpdates = legalized.ownUpdates;
    PassManager pm(&context, ModuleOp::getOperationName());
    buildGraphPipeline(pm, options.graph);
    return succeeded(pm.run(*module)) ? std::move(module) : OwningOpRef<ModuleOp>();
  }

  MLIRContext context;
};

TEST_P(ArenaPlanTest, IsNearTheBound) {
  const Target &target = *GetParam();
  size_t plans = 0, loaded = 0;
  for (const std::string &path : models()) {
    CompileOptions options;
    setTarget(options, {&target, {"sm_90"}});
    setPrecision(options, Precision::BF16);
    std::unique_ptr<codegen::KernelCodegen> codegen =
        target.createKernels(context, {options.processors});
    OwningOpRef<ModuleOp> module = load(path, options);
    if (!module) // an unrolled loop, or no parameters of its own: needs options
      continue;
    ++loaded;
    FailureOr<PackageInterface> interface = collectInterface(*module);
    ASSERT_TRUE(succeeded(interface)) << path;
    MemoryTrials trials(*module, *interface, trialOptions(options), *codegen);
    for (const char *config : {"", "level:1"}) {
      ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) { return success(); });
      FailureOr<const StepMemory *> memory = trials.make(config);
      ASSERT_TRUE(succeeded(memory)) << path;
      for (const FunctionMemory &function : (*memory)->functions)
        for (auto [rows, other] : {std::pair(3, 7), {8, 32}, {32, 512}}) {
          const std::string &batch = interface->batchSymbol;
          Sizes sizes = trials.sizes();
          if (!batch.empty())
            sizes = sizes.with(batch, rows);
          FailureOr<ArenaPeak> arena = function.evaluateArena(sizes.filled(other));
          if (failed(arena))
            continue;
          ++plans;
          const int64_t planned = arena->planned - arena->room;
          // The least plans are of some dozen blocks that have this alignment.
          constexpr int64_t block = 256;
          EXPECT_LE(double(planned), (1 + kLimit) * double(arena->lowerBound) + block)
              << path << " " << function.name().str() << " '" << config << "', " << rows << " x "
              << other;
        }
    }
  }
  EXPECT_GE(loaded, 40u);
  EXPECT_GE(plans, 6 * loaded);
}

INSTANTIATE_TEST_SUITE_P(Targets, ArenaPlanTest, testing::ValuesIn(getTargets()),
                         [](const auto &info) { return info.param->name().str(); });

} // namespace
