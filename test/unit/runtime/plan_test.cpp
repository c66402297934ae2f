// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The memory planner: random lifetimes never overlap in memory, and simple cases are optimal.

#include "core/plan.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>

using namespace trainrt;

namespace {

void expectSound(const std::vector<PlanBuffer> &buffers, const Plan &plan) {
  ASSERT_EQ(plan.offsets.size(), buffers.size());
  EXPECT_GE(plan.peak, plan.lowerBound);
  for (size_t i = 0; i < buffers.size(); ++i) {
    EXPECT_EQ(plan.offsets[i] % planAlignment, 0);
    EXPECT_GE(plan.offsets[i], 0);
    if (buffers[i].bytes > 0) {
      EXPECT_LE(plan.offsets[i] + buffers[i].bytes, plan.peak);
    }
    for (size_t j = 0; j < i; ++j) {
      bool together = buffers[i].first <= buffers[j].last && buffers[j].first <= buffers[i].last;
      bool overlap = plan.offsets[i] < plan.offsets[j] + buffers[j].bytes &&
                     plan.offsets[j] < plan.offsets[i] + buffers[i].bytes;
      ASSERT_FALSE(together && overlap && buffers[i].bytes && buffers[j].bytes)
          << "buffers " << j << " and " << i;
    }
  }
}

} // namespace

TEST(Plan, RandomLifetimesNeverOverlap) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<PlanBuffer> buffers(random() % 60);
    int commands = 1 + int(random() % 40);
    for (PlanBuffer &buffer : buffers) {
      buffer.bytes = random() % 8 ? int64_t(random() % 5000) : 0;
      buffer.first = int32_t(random() % unsigned(commands));
      buffer.last = std::min(commands - 1, buffer.first + int32_t(random() % 10));
    }
    Plan plan = planMemory(buffers);
    expectSound(buffers, plan);
    Plan again = planMemory(buffers);
    EXPECT_EQ(plan.offsets, again.offsets);
  }
}

TEST(Plan, ChainNeedsTwoBuffers) {
  std::vector<PlanBuffer> chain;
  for (int i = 0; i < 20; ++i)
    chain.push_back({1000, i, i + 1});
  Plan plan = planMemory(chain);
  expectSound(chain, plan);
  EXPECT_EQ(plan.lowerBound, 2048);
  EXPECT_EQ(plan.peak, plan.lowerBound);
}

TEST(Plan, ForwardAndBackwardReachTheBound) {
  // Activations live from their forward to their backward command: nested lifetimes.
  std::vector<PlanBuffer> buffers;
  int depth = 30;
  for (int i = 0; i < depth; ++i) {
    buffers.push_back({64 * (1 + i % 5), i, 2 * depth - i});
    buffers.push_back({64 * 3, i, i + 1});
  }
  Plan plan = planMemory(buffers);
  expectSound(buffers, plan);
  EXPECT_LE(double(plan.peak), 1.1 * double(plan.lowerBound));
}

TEST(Plan, Empty) {
  EXPECT_EQ(planMemory({}).peak, 0);
  EXPECT_EQ(planMemory({{0, 0, 5}, {0, 1, 2}}).peak, 0);
}
