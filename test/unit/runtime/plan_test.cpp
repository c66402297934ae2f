// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The memory planner: random lifetimes never overlap in memory, programs run in a planned arena
// read what they have written, and simple cases are optimal.

#include "format/memory/arena_plan.h"

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

namespace {

/// A random program: commands that read values and make new ones, or write over one that they read;
/// views are other names of a buffer, by which it is read later.
struct Program {
  struct Command {
    std::vector<size_t> reads, writes; // buffers
  };
  std::vector<PlanBuffer> buffers;
  std::vector<Command> commands;

  explicit Program(std::mt19937 &random, size_t length) {
    std::vector<size_t> values; // the buffer of each
    for (size_t i = 0; i < length; ++i) {
      Command command;
      for (size_t reads = values.empty() ? 0 : random() % 4; reads > 0; --reads) {
        // Mostly something recent, sometimes something of long ago.
        const size_t back =
            random() % (random() % 4 ? std::min<size_t>(values.size(), 8) : values.size());
        command.reads.push_back(values[values.size() - 1 - back]);
      }
      if (!command.reads.empty() && random() % 4 == 0) {
        command.writes.push_back(command.reads.front()); // in place
        values.push_back(command.reads.front());
      } else {
        command.writes.push_back(buffers.size());
        values.push_back(buffers.size());
        buffers.push_back({int64_t(random() % 20000), int32_t(i), int32_t(i)});
      }
      if (random() % 3 == 0)
        values.push_back(values[random() % values.size()]); // a view
      for (const std::vector<size_t> *touched : {&command.reads, &command.writes})
        for (size_t buffer : *touched)
          buffers[buffer].last = int32_t(i);
      commands.push_back(std::move(command));
    }
  }

  /// Runs it in the arena of a plan, where a write leaves the buffer's number; whether every read
  /// finds it.
  bool runsIn(const Plan &plan) const {
    constexpr size_t nobody = SIZE_MAX;
    std::vector<size_t> arena(size_t(plan.peak / planAlignment), nobody);
    auto places = [&](size_t buffer, auto &&each) {
      const auto begin = size_t(plan.offsets[buffer] / planAlignment);
      for (int64_t i = 0; i < padded(buffers[buffer].bytes) / planAlignment; ++i)
        each(arena[begin + size_t(i)]);
    };
    bool intact = true;
    for (const Command &command : commands) {
      for (size_t buffer : command.reads)
        places(buffer, [&](size_t &owner) { intact &= owner == buffer; });
      for (size_t buffer : command.writes)
        places(buffer, [&](size_t &owner) { owner = buffer; });
    }
    return intact;
  }
};

} // namespace

TEST(Plan, ProgramsReadWhatTheyWrote) {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    // Some with more buffers than all orders are tried for.
    Program program(random, round % 30 ? 1 + random() % 120 : 900);
    Plan plan = planMemory(program.buffers);
    EXPECT_TRUE(program.runsIn(plan)) << round;
    // The check finds it where a buffer is somewhere else.
    if (program.buffers.size() > 20 && plan.peak > plan.lowerBound / 2) {
      for (int64_t &offset : plan.offsets)
        offset = 0;
      EXPECT_FALSE(program.runsIn(plan)) << round;
    }
  }
}

TEST(Plan, LargeStepsAreNearTheBound) {
  // Layers with kept and temporary values, computed again in the backward; gradients and updates.
  // One order of them does not do for all seeds.
  for (unsigned seed = 5; seed < 9; ++seed) {
    std::mt19937 random(seed);
    std::vector<PlanBuffer> buffers;
    const int layers = 60, ops = 20, length = 2 * layers * ops;
    const int64_t unit = 1 << 20;
    for (int layer = 0; layer < layers; ++layer)
      for (int op = 0; op < ops; ++op) {
        const int made = layer * ops + op, read = length - made;
        const int64_t bytes = unit * (1 + op * op % 5); // as in every layer
        buffers.push_back({bytes, made, op == 0 ? read : made + 1 + int(random() % 3)});
        buffers.push_back({bytes, read - ops / 2, read + 1});
        buffers.push_back({unit * int64_t(1 + op % 3), read, read + int(random() % 3)});
        buffers.push_back({8, made, made + 1});
      }
    Plan plan = planMemory(buffers);
    if (seed == 5)
      expectSound(buffers, plan);
    EXPECT_LE(double(plan.peak), 1.02 * double(plan.lowerBound)) << seed;
  }
}

TEST(Plan, WhatHardlyDecidesIsPlacedAgain) {
  // A layer's own values in every layer alike, and small ones that are kept: those that decide
  // about the peak fill it up to the bound, and then the others have no room where they are placed
  // last.
  std::mt19937 random(7);
  std::vector<PlanBuffer> buffers;
  const int layers = 24, ops = 50, back = 2 * ops, forward = layers * ops / 2;
  const int64_t unit = 1 << 14;
  std::vector<PlanBuffer> own;
  for (int op = 0; op < back; ++op) {
    const int duration = 1 << (random() % 7);
    const int64_t bytes = random() % 6 ? unit : (random() % 2 ? 2 : 4) * unit;
    own.push_back({bytes, op, std::min(back - 1, op + duration)});
  }
  for (int layer = 0; layer < layers; ++layer) {
    const int made = layer * ops / 2, begin = forward + (layers - 1 - layer) * back;
    buffers.push_back({unit, made, begin + back - 1});
    for (int i = 0; i < 3; ++i)
      buffers.push_back({64, made + i, begin + ops - 1});
    for (int i = 0; i < 2; ++i)
      buffers.push_back({unit / 64, made, begin + ops});
    for (int op = 0; op < ops / 2; ++op)
      buffers.push_back({own[size_t(op)].bytes, made + op, made + op + 1 + int(random() % 8)});
    for (const PlanBuffer &buffer : own)
      buffers.push_back({buffer.bytes, begin + buffer.first, begin + buffer.last});
  }
  Plan plan = planMemory(buffers);
  expectSound(buffers, plan);
  EXPECT_LE(double(plan.peak), 1.02 * double(plan.lowerBound));
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
  EXPECT_LE(double(plan.peak), 1.02 * double(plan.lowerBound));
}

TEST(Plan, Empty) {
  EXPECT_EQ(planMemory({}).peak, 0);
  EXPECT_EQ(planMemory({{0, 0, 5}, {0, 1, 2}}).peak, 0);
}
