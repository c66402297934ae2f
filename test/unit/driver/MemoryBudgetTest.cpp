// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The search for what to compute again, against every choice there is.

#include "lib/Driver/MemoryBudget.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "trainc/Registry.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace trainc;

namespace {

/// @step of blocks with a residual each, of matrix products, GELU, softmax and tanh of 64 columns.
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
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  CompileOptions options;
};

TEST_F(MemoryBudgetTest, NoChoiceIsCheaper) {
  load(2);
  MemoryTrials trials(*module, options);
  SymbolBounds symbols(*module);
  symbols.values["batch"] = 1024;
  std::vector<BudgetClass> classes = budgetClasses(trials, false, false, symbols);
  ASSERT_GE(classes.size(), 3u);
  int64_t plain = *trials.liveBytes("", symbols);
  // Every number of every class.
  std::vector<std::pair<int64_t, double>> points;
  std::vector<size_t> counts(classes.size(), 0);
  for (bool more = true; more;) {
    double seconds = 0;
    for (auto [entry, count] : llvm::zip(classes, counts))
      seconds += entry.seconds * double(count) / double(entry.count);
    points.push_back({*trials.liveBytes(budgetConfig(classes, counts), symbols), seconds});
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
    ASSERT_TRUE(
        succeeded(chooseForBudget(trials, budget, false, false, symbols, 0, choice, problem)));
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
    EXPECT_LE(choice.live, limit);
    EXPECT_EQ(choice.live, *trials.liveBytes(choice.config, symbols));
    EXPECT_LE(choice.leastSeconds, best * (1 + 1e-9)) << percent;
    EXPECT_LE(choice.seconds, 1.1 * best) << percent;
    exact += choice.seconds <= best * (1 + 1e-9);
    ++budgets;
  }
  EXPECT_GE(budgets, 3);
  EXPECT_GE(2 * exact, budgets);
}

TEST_F(MemoryBudgetTest, FindsTheBatch) {
  load(4);
  MemoryTrials trials(*module, options);
  SymbolBounds symbols(*module);
  symbols.values["batch"] = 1000;
  int64_t whole = *trials.liveBytes("", symbols) + trials.fixedBytes(symbols);
  MemoryBudget budget;
  budget.fit = true;
  budget.bytes = whole / 2;
  BudgetChoice choice;
  std::string problem;
  ASSERT_TRUE(
      succeeded(chooseForBudget(trials, budget, false, false, symbols, 1000, choice, problem)));
  EXPECT_EQ(problem, "");
  EXPECT_GT(choice.batch, 0);
  EXPECT_LE(choice.peak, budget.bytes);
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
  for (const char *text : {"", "GB", "-1GB", "0", "x", "fit:", "fit8GB", "1e30GB"})
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
