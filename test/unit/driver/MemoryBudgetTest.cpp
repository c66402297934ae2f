// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The search for what to compute again, against every choice there is.

#include "trainc/Schedule/Memory/MemoryBudget.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "trainc/Registry/Registry.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace trainc;

namespace {

/// @step of blocks with a residual each, of matmuls, GELU, softmax and tanh of 64 columns.
std::string modelText(int blocks) {
  const std::string t = "tensor<?x64xf32, #train.dims<batch, 64>>", w = "tensor<64x64xf32>";
  std::string arguments = "%x: " + t + " {train.name = \"x\", train.role = \"input\"}", body;
  int values = 0, weights = 0;
  auto op = [&](const std::string &text) {
    body += "    %v" + std::to_string(++values) + " = " + text + "\n";
    return "%v" + std::to_string(values);
  };
  auto linear = [&](const std::string &x) {
    std::string name = "w" + std::to_string(weights++);
    arguments += ", %" + name + ": " + w + " {train.name = \"" + name +
                 "\", train.role = \"parameter\", train.trainable}";
    return op("train.matmul " + x + ", %" + name + " : " + t + ", " + w + " -> " + t);
  };
  std::string x = linear("%x");
  for (int i = 0; i < blocks; ++i) {
    std::string inner = op("train.gelu " + linear(x) + " : " + t);
    inner = op("train.softmax " + linear(inner) + " axis = 1 : " + t);
    inner = op("train.tanh " + linear(inner) + " : " + t);
    x = op("train.add " + x + ", " + inner + " : " + t);
  }
  std::string loss = op("train.reduce sum " + x + " axes = [0, 1] : " + t + " -> tensor<f32>");
  return "module {\n  train.symbol @batch min 1 input \"x\" axis 0\n  func.func @forward(" +
         arguments + ") -> (tensor<f32> {train.name = \"loss\", train.role = \"loss\"}) {\n" +
         body + "    return " + loss + " : tensor<f32>\n  }\n}\n";
}

class MemoryBudgetTest : public testing::Test {
protected:
  void load(int blocks) {
    DialectRegistry registry;
    registerAllDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    registerAllPasses();
    module = parseSourceString<ModuleOp>(modelText(blocks), &context);
    ASSERT_TRUE(module);
    PassManager pm(&context, ModuleOp::getOperationName());
    ASSERT_TRUE(succeeded(parsePassPipeline(
        "autodiff,attach-optimizer{kind=sgd},form-steps{micro=false},canonicalize,cse", pm)));
    ASSERT_TRUE(succeeded(pm.run(*module)));
    FailureOr<PackageInterface> collected = collectInterface(*module);
    ASSERT_TRUE(succeeded(collected));
    interface = std::move(*collected);
    codegen = options.target->createKernels(context, {});
    trials = std::make_unique<MemoryTrials>(*module, interface, options, *codegen);
  }
  int64_t arena(const std::string &config, const Sizes &sizes) {
    return trials->evaluate(config, sizes)->arena;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  TrialOptions options;
  PackageInterface interface;
  std::unique_ptr<codegen::KernelCodegen> codegen;
  std::unique_ptr<MemoryTrials> trials;
};

TEST_F(MemoryBudgetTest, NoChoiceIsCheaper) {
  load(2);
  const Sizes sizes = trials->sizes().with("batch", 1024);
  std::vector<BudgetClass> classes =
      budgetClasses(*trials, options.target->traits.speeds.f32, sizes);
  ASSERT_GE(classes.size(), 3u);
  int64_t plain = arena("", sizes);
  // Every number of every class.
  std::vector<std::pair<int64_t, double>> points;
  std::vector<size_t> counts(classes.size(), 0);
  for (bool more = true; more;) {
    double seconds = 0;
    for (auto [entry, count] : llvm::zip(classes, counts))
      seconds += entry.seconds * double(count) / double(entry.count);
    points.push_back({arena(budgetConfig(classes, counts), sizes), seconds});
    more = false;
    for (size_t i = 0; i < counts.size() && !more; ++i) {
      more = counts[i] < classes[i].count;
      counts[i] = more ? counts[i] + 1 : 0;
    }
  }
  int64_t least = plain;
  for (auto &[bytes, seconds] : points)
    least = std::min(least, bytes);
  ASSERT_LT(least, plain);
  int exact = 0, budgets = 0;
  for (int percent = 95; percent > 10; percent -= 5) {
    MemoryBudget budget;
    budget.fraction = percent / 100.;
    BudgetChoice choice;
    std::string problem;
    ASSERT_TRUE(succeeded(chooseForBudget(*trials, budget, options.target->traits.speeds.f32, sizes,
                                          "", choice, problem)));
    const auto limit = int64_t(double(plain) * budget.fraction);
    double best = INFINITY;
    for (auto &[bytes, seconds] : points)
      if (bytes <= limit)
        best = std::min(best, seconds);
    if (std::isinf(best)) {
      EXPECT_NE(problem.find("the least that a step can do with"), std::string::npos) << percent;
      continue;
    }
    ASSERT_EQ(problem, "") << percent;
    EXPECT_LE(choice.memory.arena, limit);
    EXPECT_EQ(choice.memory.arena, arena(choice.config, sizes));
    EXPECT_LE(choice.leastSeconds, best * (1 + 1e-9)) << percent;
    EXPECT_LE(choice.seconds, 1.1 * best) << percent;
    exact += choice.seconds <= best * (1 + 1e-9);
    ++budgets;
  }
  EXPECT_GE(budgets, 3);
  EXPECT_GE(2 * exact, budgets);
}

TEST_F(MemoryBudgetTest, DeepStepsTakeFewSchedules) {
  load(64);
  const Sizes sizes = trials->sizes().with("batch", 1024);
  for (int percent : {90, 75, 60, 45, 30}) {
    MemoryTrials fresh(*module, interface, options, *codegen);
    MemoryBudget budget;
    budget.fraction = percent / 100.;
    BudgetChoice choice;
    std::string problem;
    ASSERT_TRUE(succeeded(chooseForBudget(fresh, budget, options.target->traits.speeds.f32, sizes,
                                          "", choice, problem)));
    ASSERT_EQ(problem, "") << percent;
    EXPECT_LE(choice.memory.arena, int64_t(double(choice.plain.arena) * budget.fraction));
    EXPECT_LE(choice.seconds, 1.05 * choice.leastSeconds) << percent;
    EXPECT_LE(choice.trials, 8u) << percent;
  }
}

TEST_F(MemoryBudgetTest, FindsTheBatch) {
  load(4);
  const Sizes sizes = trials->sizes().with("batch", 1000);
  const int64_t whole = trials->evaluate("", sizes)->bytes();
  MemoryBudget budget;
  budget.fit = true;
  budget.bytes = whole / 2;
  BudgetChoice choice;
  std::string problem;
  ASSERT_TRUE(succeeded(chooseForBudget(*trials, budget, options.target->traits.speeds.f32, sizes,
                                        "batch", choice, problem)));
  EXPECT_EQ(problem, "");
  EXPECT_GT(choice.batch, 0);
  EXPECT_LE(choice.memory.bytes(), budget.bytes);
}

TEST_F(MemoryBudgetTest, CountsAllThatIsHeld) {
  load(4);
  const Sizes sizes = trials->sizes().with("batch", 256);
  const StepMemory::Total plain = *trials->evaluate("", sizes);
  ASSERT_GT(plain.workspace, 0);
  MemoryBudget budget;
  for (int64_t less : {int64_t(1), plain.arena / 8, plain.arena / 4}) {
    budget.bytes = plain.bytes() - less;
    BudgetChoice choice;
    std::string problem;
    ASSERT_TRUE(succeeded(chooseForBudget(*trials, budget, options.target->traits.speeds.f32, sizes,
                                          "", choice, problem)));
    EXPECT_EQ(problem, "");
    EXPECT_TRUE(choice.fits);
    EXPECT_LE(choice.memory.bytes(), budget.bytes);
    EXPECT_EQ(choice.memory.bytes(), trials->evaluate(choice.config, sizes)->bytes());
    EXPECT_EQ(choice.plain.bytes(), plain.bytes());
  }
  // What cannot be kept is told with all that holds it.
  budget.bytes = 1000;
  BudgetChoice least;
  std::string problem;
  ASSERT_TRUE(succeeded(chooseForBudget(*trials, budget, options.target->traits.speeds.f32, sizes,
                                        "", least, problem)));
  EXPECT_FALSE(least.fits);
  EXPECT_LT(least.memory.bytes(), plain.bytes());
  const std::string parts = "the least that a step can do with is " +
                            formatBytes(least.memory.bytes()) + ": " +
                            formatBytes((*trials->make(""))->parameters) + " of parameters, ";
  EXPECT_EQ(problem.substr(0, parts.size()), parts);
  for (const char *part : {" of outputs, ", " of workspace, ", " of activations and temporaries ",
                           "(without recompute: ", "), at the peak in 'step'"})
    EXPECT_NE(problem.find(part), std::string::npos) << part << " in " << problem;
}

TEST(MemoryBudgetText, Sizes) {
  MemoryBudget budget;
  EXPECT_EQ(parseMemoryBudget("40GB", budget), "");
  EXPECT_EQ(budget.bytes, 40000000000);
  EXPECT_EQ(parseMemoryBudget("1.5GiB", budget), "");
  EXPECT_EQ(budget.bytes, 1610612736);
  EXPECT_EQ(parseMemoryBudget("0.5", budget), "");
  EXPECT_EQ(budget.fraction, 0.5);
  EXPECT_EQ(parseMemoryBudget("fit:8G", budget), "");
  EXPECT_TRUE(budget.fit);
  EXPECT_EQ(budget.bytes, int64_t(8) << 30);
  for (const char *text : {"", "GB", "-1GB", "0", "1.5", "x", "fit:", "fit8GB", "1e30GB"})
    EXPECT_NE(parseMemoryBudget(text, budget), "") << text;
}

TEST(ByteSizes, AreRead) {
  EXPECT_EQ(parseByteSize("8GB"), 8000000000);
  EXPECT_EQ(parseByteSize("512 MiB"), 512 << 20);
  EXPECT_EQ(parseByteSize("1000"), 1000);
  for (const char *text : {"", "GB", "-1GB", "0", "0.5", "x", "fit:8GB", "8XB", "1e30GB"})
    EXPECT_EQ(parseByteSize(text), std::nullopt) << text;
}
} // namespace
