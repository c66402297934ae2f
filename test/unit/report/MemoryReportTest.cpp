// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The numbers of a report, and that nothing of a model can break out of the page.
#include "trainc/Report/MemoryReport.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Parser/Parser.h"
#include "trainc/Registry/Registry.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace trainc;

namespace {

/// Two values of 16 n bytes are kept for the backward, then one of 32 n is made of them.
constexpr StringLiteral kStep = R"(
train.symbol @n min 1 input "x" axis 0
plan.function @step {
  %x = plan.buffer input "x" : tensor<?x4xf32, #train.dims<n, 4>>
  %w = plan.buffer parameter "w" : tensor<100xf32>
  %loss = plan.buffer output "loss" : tensor<f32>
  %a = plan.buffer arena : tensor<?x4xf32, #train.dims<n, 4>> loc("first")
  %b = plan.buffer arena : tensor<?x4xf32, #train.dims<n, 4>> loc("<b>&\"second\"")
  %g = plan.buffer arena : tensor<?x8xf32, #train.dims<n, 8>> loc("gradient")
  plan.launch "k"(%x, %a) inputs 1 dims <n> work <n> grain 16 scratch <100>
  plan.launch "k"(%a, %b, %loss) inputs 1 dims <n> work <n> grain 16 scratch <0>
  plan.launch "k"(%a, %b, %g) inputs 2 dims <n> work <n> grain 16 scratch <0> loc("at <the> peak")
  plan.launch "k"(%g, %w) inputs 1 dims <n> work <n> grain 16 scratch <0>
}
)";

/// The same with the first value computed again.
constexpr StringLiteral kRecomputed = R"(
train.symbol @n min 1 input "x" axis 0
plan.function @step {
  %x = plan.buffer input "x" : tensor<?x4xf32, #train.dims<n, 4>>
  %w = plan.buffer parameter "w" : tensor<100xf32>
  %loss = plan.buffer output "loss" : tensor<f32>
  %a = plan.buffer arena : tensor<?x4xf32, #train.dims<n, 4>> loc("first")
  %b = plan.buffer arena : tensor<?x4xf32, #train.dims<n, 4>> loc("<b>&\"second\"")
  %again = plan.buffer arena : tensor<?x4xf32, #train.dims<n, 4>> loc("first")
  %g = plan.buffer arena : tensor<?x8xf32, #train.dims<n, 8>> loc("gradient")
  plan.launch "k"(%x, %a) inputs 1 dims <n> work <n> grain 16 scratch <100>
  plan.launch "k"(%a, %b, %loss) inputs 1 dims <n> work <n> grain 16 scratch <0>
  plan.launch "k"(%x, %again) inputs 1 dims <n> work <n> grain 16 scratch <0>
  plan.launch "k"(%again, %b, %g) inputs 2 dims <n> work <n> grain 16 scratch <0>
  plan.launch "k"(%g, %w) inputs 1 dims <n> work <n> grain 16 scratch <0>
}
)";

class MemoryReportTest : public testing::Test {
protected:
  MemoryReportTest() {
    DialectRegistry registry;
    registerAllDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }

  MemoryReport make(StringRef text, const Target &target = getHostTarget()) {
    modules.push_back(parseSourceString<ModuleOp>(text, &context));
    EXPECT_TRUE(modules.back());
    auto tensor = [&](StringRef name, StringRef type) {
      InterfaceTensor tensor;
      tensor.name = name.str();
      tensor.type = cast<RankedTensorType>(parseType(type, &context));
      return tensor;
    };
    interface = {};
    interface.inputs = {tensor("x", "tensor<?x4xf32, #train.dims<n, 4>>")};
    interface.parameters = {tensor("w", "tensor<100xf32>"), tensor("frozen", "tensor<10xf32>")};
    interface.parameters[0].trainable = true;
    interface.state = {tensor("w/exp_avg", "tensor<100xf32>")};
    interface.outputs = {tensor("loss", "tensor<f32>")};
    interface.outputs[0].isLoss = true;
    interface.batchSymbol = "n";
    MemoryReport report(*modules.back(), interface, target, /*accumulate=*/1, /*world=*/1,
                        /*embedded=*/false);
    report.model = "a<b>.onnx";
    return report;
  }

  static std::string print(void (*printer)(const MemoryReport &, raw_ostream &),
                           const MemoryReport &report) {
    std::string text;
    llvm::raw_string_ostream out(text);
    printer(report, out);
    return text;
  }

  MLIRContext context;
  std::vector<OwningOpRef<ModuleOp>> modules;
  PackageInterface interface;
};

TEST_F(MemoryReportTest, Totals) {
  MemoryReport report = make(kStep);
  EXPECT_TRUE(failed(report.step.evaluate(report.sizes)));
  FailureOr<StepMemory::Total> total = report.step.evaluate(report.sizes.with("n", 100));
  ASSERT_TRUE(succeeded(total));
  // Multiples of 64.
  EXPECT_EQ(report.step.parameters, 448);
  EXPECT_EQ(report.step.state, 448);
  EXPECT_EQ(report.step.gradients, 0);
  EXPECT_EQ(total->arena, 2 * 1600 + 3200);
  EXPECT_EQ(total->outputs, 64);
  EXPECT_EQ(total->workspace, 128);
  EXPECT_EQ(total->workspaceOfOthers, 128);
  EXPECT_EQ(total->bytes(), 2 * 448 + 6400 + 64 + 128);

  MemoryReport gpu = make(kStep, *findTarget("cuda"));
  total = gpu.step.evaluate(gpu.sizes.with("n", 100));
  ASSERT_TRUE(succeeded(total));
  EXPECT_EQ(gpu.step.parameters, 512 + 256); // the frozen one, too
  EXPECT_EQ(total->inputs, 2 * 1792);
}

TEST_F(MemoryReportTest, WhatIsOnTheHostIsBesideThePeak) {
  std::string moved = kStep.str();
  auto replace = [&](StringRef from, StringRef to) {
    const size_t at = moved.rfind(from);
    ASSERT_NE(at, std::string::npos);
    moved.replace(at, from.size(), to);
  };
  replace("(%a, %b, %g)", "(%a2, %b, %g)");
  replace("plan.launch \"k\"(%a2", "plan.copy %h to %a2 bytes <16*n>\n  plan.launch \"k\"(%a2");
  replace("plan.launch \"k\"(%a, %b",
          "%h = plan.buffer host : tensor<?x4xf32, #train.dims<n, 4>>\n"
          "  %a2 = plan.buffer arena : tensor<?x4xf32, #train.dims<n, 4>>\n"
          "  plan.copy %a to %h bytes <16*n>\n  plan.launch \"k\"(%a, %b");
  MemoryReport before = make(kStep, *findTarget("cuda")), report = make(moved, *findTarget("cuda"));
  FailureOr<StepMemory::Total> plain = before.step.evaluate(before.sizes.with("n", 100)),
                               total = report.step.evaluate(report.sizes.with("n", 100));
  ASSERT_TRUE(succeeded(plain) && succeeded(total));
  EXPECT_EQ(plain->host, 0);
  EXPECT_EQ(total->host, 1792);
  EXPECT_EQ(total->bytes(), plain->bytes());
  report.sizes = report.sizes.with("n", 100);
  EXPECT_NE(print(printMemoryText, report).find("pinned on host            1.8 KiB"),
            std::string::npos)
      << print(printMemoryText, report);
  EXPECT_EQ(print(printMemoryText, before).find("pinned"), std::string::npos);
}

TEST_F(MemoryReportTest, LargestBatch) {
  MemoryReport report = make(kStep);
  // 64 bytes a row, all padded alike where n is a multiple of 4.
  const int64_t fixed = 2 * 448 + 64 + 128;
  for (int64_t n : {4, 100, 1 << 20})
    for (int64_t less : {0, 1}) {
      const int64_t found = report.step.largest(report.sizes, "n", fixed + 64 * n - less);
      FailureOr<StepMemory::Total> total = report.step.evaluate(report.sizes.with("n", found)),
                                   more = report.step.evaluate(report.sizes.with("n", found + 1));
      EXPECT_LE(total->bytes(), fixed + 64 * n - less);
      EXPECT_GT(more->bytes(), fixed + 64 * n - less);
      EXPECT_EQ(found == n, less == 0);
    }
  EXPECT_EQ(report.step.largest(report.sizes, "n", fixed), 0);
}

TEST_F(MemoryReportTest, NamesAreEscaped) {
  MemoryReport report = make(kStep);
  report.sizes = report.sizes.with("n", 100);
  const std::string page = print(printMemoryHtml, report);
  EXPECT_NE(page.find("&lt;b&gt;&amp;&quot;second&quot;"), std::string::npos);
  EXPECT_NE(page.find("at &lt;the&gt; peak"), std::string::npos);
  EXPECT_NE(page.find("a&lt;b&gt;.onnx"), std::string::npos);
  EXPECT_EQ(page.find("<b>"), std::string::npos);
  EXPECT_EQ(page.find("<the>"), std::string::npos);
  EXPECT_EQ(page.find("http"), std::string::npos);
  EXPECT_EQ(page.find("src="), std::string::npos);
  EXPECT_EQ(page.find("instead of"), std::string::npos);
  EXPECT_EQ(page.find("without recompute"), std::string::npos);
}

TEST_F(MemoryReportTest, WhatRecomputeChanged) {
  MemoryReport before = make(kStep), report = make(kRecomputed);
  before.sizes = before.sizes.with("n", 100);
  report.sizes = report.sizes.with("n", 100);
  report.baseline = &before;
  const std::string text = print(printMemoryText, report);
  EXPECT_NE(text.find("recompute: activations 6.2 KiB instead of 6.2 KiB, 5 commands instead of 4; "
                      "no longer kept are\n       1.6 KiB  f32  first  16*n\n"),
            std::string::npos)
      << text;
  // Every category beside what it would be.
  EXPECT_NE(text.find("                     with recompute    without\n"
                      "  parameters                  448 B      448 B  448\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("\n  peak                      7.3 KiB    7.3 KiB  7488\n"),
            std::string::npos)
      << text;
  const std::string page = print(printMemoryHtml, report);
  EXPECT_NE(page.find("<th class=\"n\">without recompute</th>"), std::string::npos);
  EXPECT_NE(page.find("<tr><td>outputs</td><td class=\"n\">64 B</td><td class=\"n\">64 B</td>"),
            std::string::npos);
  EXPECT_NE(page.find("class=\"before\" points="), std::string::npos);
  EXPECT_NE(page.find("No longer kept:</p>\n<table>\n<tr><td>f32  first</td>"), std::string::npos);
}

} // namespace
