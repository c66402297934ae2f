// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Learning-rate schedules: values at the ends and in the middle, and what is refused.
#include "cli/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace trainrt::run;

namespace {

LrSchedule good(const std::string &text) {
  std::string error;
  std::optional<LrSchedule> schedule = LrSchedule::parse(text, error);
  EXPECT_TRUE(schedule) << text << ": " << error;
  return schedule.value_or(LrSchedule{});
}

TEST(Schedule, Constant) {
  LrSchedule schedule = good("constant");
  EXPECT_EQ(schedule.at(1, 0.1), 0.1);
  EXPECT_EQ(schedule.at(1000000, 0.1), 0.1);
}

TEST(Schedule, WarmUpRisesToTheBase) {
  LrSchedule schedule = good("constant,warmup=4");
  EXPECT_DOUBLE_EQ(schedule.at(1, 0.1), 0.025);
  EXPECT_DOUBLE_EQ(schedule.at(4, 0.1), 0.1);
  EXPECT_DOUBLE_EQ(schedule.at(5, 0.1), 0.1);
}

TEST(Schedule, LinearFallsToMin) {
  LrSchedule schedule = good("linear,total=10,min=0.01");
  EXPECT_DOUBLE_EQ(schedule.at(1, 0.11), 0.11);
  EXPECT_DOUBLE_EQ(schedule.at(6, 0.11), 0.06);
  EXPECT_DOUBLE_EQ(schedule.at(11, 0.11), 0.01);
  EXPECT_DOUBLE_EQ(schedule.at(99, 0.11), 0.01);
}

/// PyTorch: CosineAnnealingLR(optimizer, T_max=8, eta_min=0.002), the rate in effect at each step.
TEST(Schedule, CosineIsPyTorchs) {
  LrSchedule schedule = good("cosine,total=8,min=0.002");
  for (int step = 1; step <= 9; ++step)
    EXPECT_NEAR(schedule.at(step, 0.1), 0.002 + 0.098 * (1 + std::cos(M_PI * (step - 1) / 8)) / 2,
                1e-15);
}

TEST(Schedule, WarmUpThenCosine) {
  LrSchedule schedule = good("cosine,warmup=10,total=110");
  EXPECT_DOUBLE_EQ(schedule.at(5, 1), 0.5);
  EXPECT_DOUBLE_EQ(schedule.at(11, 1), 1);
  EXPECT_DOUBLE_EQ(schedule.at(61, 1), 0.5);
  EXPECT_NEAR(schedule.at(111, 1), 0, 1e-16);
}

TEST(Schedule, Refusals) {
  for (const char *text : {"", "step", "cosine,warmup", "cosine,warmup=x", "cosine,warmup=-1",
                           "linear,total=0", "linear,min=-1", "linear,min=nan", "linear,speed=3",
                           "linear,,total=3", "cosine,warmup=20,total=10", "cosine,total=1e3"}) {
    std::string error;
    EXPECT_FALSE(LrSchedule::parse(text, error)) << text;
    EXPECT_FALSE(error.empty()) << text;
  }
}

TEST(Schedule, Text) {
  EXPECT_EQ(good("constant").text(), "constant");
  EXPECT_EQ(good("cosine,warmup=10,total=500,min=1e-5").text(),
            "cosine, warm-up 10, total 500, min 1e-05");
}

} // namespace
