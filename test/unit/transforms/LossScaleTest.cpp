// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The loss scale over steps: it changes nothing but itself while gradients fit, and an overflow
// costs one step.
#include "PassHarness.h"

#include "gtest/gtest.h"
#include <cmath>

using namespace mlir;
using namespace trainc;
using namespace trainc::transforms;

namespace {
constexpr const char *kModel = R"(func.func @forward(
    %w: tensor<3xf32> {train.role = "parameter", train.name = "w", train.trainable},
    %x: tensor<3xf32> {train.role = "input", train.name = "x"})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %r = train.sqrt %w : tensor<3xf32>
  %p = train.mul %r, %x : tensor<3xf32>
  %0 = train.reduce sum %p axes = [0] : tensor<3xf32> -> tensor<f32>
  return %0 : tensor<f32>
})";

using Values = std::map<std::string, std::vector<double>>;

class LossScale : public ::testing::Test {
protected:
  /// Runs @step; the state that it leaves is that of the next one.
  double step(Values &values, bool scaled) {
    std::string pipeline = "autodiff,attach-optimizer{kind=adam clip},form-steps{";
    auto module = harness.run(kModel, pipeline + (scaled ? " loss-scaling}" : "}"));
    EXPECT_TRUE(bool(module));
    auto results = harness.evaluate(*module, "step", values);
    values["step"][0] += 1;
    double loss = results["loss:loss"][0].data[0];
    gradNorm = results["output:grad_norm"][0].data[0];
    for (auto &[name, tensors] : results)
      if (name.rfind("update:", 0) == 0)
        values[name.substr(7)] = tensors[0].data;
    return loss;
  }
  static Values start() {
    return {{"w", {1, 2, 3}},
            {"x", {0.5, -1, 2}},
            {"grad_scale", {1}},
            {"lr", {0.1}},
            {"weight_decay", {0.01}},
            {"clip_norm", {0.3}},
            {"step", {1}},
            {"nonfinite", {0}},
            {"w/exp_avg", {0, 0, 0}},
            {"w/exp_avg_sq", {0, 0, 0}},
            {"loss_scale", {0}},
            {"growth_count", {0}},
            {"skipped_steps", {0}}};
  }
  PassHarness harness;
  /// Of the last step.
  double gradNorm = 0;
};
} // namespace

TEST_F(LossScale, changesNoUpdate) {
  Values plain = start(), scaled = start();
  for (int i = 0; i < 3; ++i) {
    Values before = scaled;
    EXPECT_EQ(step(plain, false), step(scaled, true));
    // Of the gradients of the loss itself, before they are clipped to 0.3.
    double squares = 0;
    for (int e = 0; e < 3; ++e)
      squares += std::pow(start()["x"][e] / (2 * std::sqrt(before["w"][e])), 2);
    EXPECT_NEAR(gradNorm, std::sqrt(squares), 1e-6);
    for (const char *name : {"w", "w/exp_avg", "w/exp_avg_sq"})
      for (int e = 0; e < 3; ++e)
        EXPECT_NEAR(plain[name][e], scaled[name][e], 1e-12) << name;
  }
  EXPECT_EQ(scaled["loss_scale"][0], 65536);
  EXPECT_EQ(scaled["growth_count"][0], 3);
  EXPECT_EQ(scaled["skipped_steps"][0], 0);
}

TEST_F(LossScale, overflowsCostOneStep) {
  Values values = start(), expected = start();
  step(values, true);
  step(expected, true);
  Values before = values;
  // The square root's derivative at 0 is infinite, the loss is finite.
  values["w"][0] = 0;
  step(values, true);
  EXPECT_TRUE(std::isinf(gradNorm));
  EXPECT_EQ(values["w"], (std::vector<double>{0, before["w"][1], before["w"][2]}));
  EXPECT_EQ(values["w/exp_avg"], before["w/exp_avg"]);
  EXPECT_EQ(values["w/exp_avg_sq"], before["w/exp_avg_sq"]);
  EXPECT_EQ(values["nonfinite"][0], 0);
  EXPECT_EQ(values["loss_scale"][0], 32768);
  EXPECT_EQ(values["growth_count"][0], 0);
  EXPECT_EQ(values["skipped_steps"][0], 1);
  // The optimizer does not count it: its next update is the second.
  values["w"] = before["w"];
  step(values, true);
  step(expected, true);
  for (int e = 0; e < 3; ++e)
    EXPECT_NEAR(values["w"][e], expected["w"][e], 1e-12);
  EXPECT_EQ(values["growth_count"][0], 1);
}

TEST_F(LossScale, growsAfterManyGoodSteps) {
  Values values = start();
  values["loss_scale"] = {1024};
  values["growth_count"] = {1999};
  step(values, true);
  EXPECT_EQ(values["loss_scale"][0], 2048);
  EXPECT_EQ(values["growth_count"][0], 0);
}

TEST_F(LossScale, badLossKeepsTheScale) {
  Values values = start();
  values["w"][0] = -1;
  EXPECT_TRUE(std::isnan(step(values, true)));
  EXPECT_EQ(values["nonfinite"][0], 1);
  EXPECT_EQ(values["loss_scale"][0], 0);
  EXPECT_EQ(values["skipped_steps"][0], 0);
  EXPECT_EQ(values["w"], (std::vector<double>{-1, 2, 3}));
}

TEST_F(LossScale, accumulatedGradientsAreThoseOfTheLoss) {
  auto module =
      harness.run(kModel, "autodiff,attach-optimizer{kind=adam},form-steps{loss-scaling}");
  ASSERT_TRUE(module);
  Values values = start();
  values["loss_scale"] = {4096};
  // The accumulator has the parameter's name: both are 4.
  values["w"] = {4, 4, 4};
  auto micro = harness.evaluate(*module, "micro", values);
  EXPECT_NEAR(micro["update:w"][0].data[2], 4 + 2 * 0.25, 1e-12);
  EXPECT_EQ(micro.count("update:loss_scale"), 0u);
  auto update = harness.evaluate(*module, "update", values);
  EXPECT_EQ(update["update:growth_count"][0].data[0], 1);
}
