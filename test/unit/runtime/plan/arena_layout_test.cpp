// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Workspaces lie where nothing else lives, take no more than was told, and give the second lane
// time where there is room.

#include "plan/arena_layout.h"

#include <gtest/gtest.h>
#include <random>

using namespace trainrt;

namespace {

constexpr int64_t MiB = int64_t(1) << 20;

/// A chain of commands: each writes a buffer of its size, which lives for as many commands more.
struct Chain {
  struct Link {
    int64_t bytes;
    int32_t lives;
  };
  explicit Chain(const std::vector<Link> &links, std::vector<bool> aside = {}) {
    const int32_t end = int32_t(links.size()) - 1;
    for (int32_t i = 0; i <= end; ++i) {
      Buffer &buffer = function.buffers.emplace_back();
      buffer.space = Space::Arena;
      buffer.first = i;
      buffer.last = std::min(end, i + links[size_t(i)].lives);
      plan.bufferBytes.push_back(links[size_t(i)].bytes);
      function.commands.emplace_back().operands = {{uint32_t(i), 0, Access::Write}};
    }
    plan.function = &function;
    plan.aside = std::move(aside);
    ArenaLayout layout =
        layOutArena(function, lifetimesOf(function, plan.bufferBytes, Space::Arena), plan.aside,
                    cudaPlanAlignment);
    plan.bufferOffsets = layout.offsets;
    plan.arenaBytes = layout.bytes;
    plan.arenaLowerBound = layout.lowerBound;
  }

  ArenaLayout with(const std::vector<int64_t> &workspaces) const {
    ArenaLayout layout = layOutWorkspaces(plan, workspaces, cudaPlanAlignment);
    auto overlap = [](int64_t a, int64_t aBytes, int64_t b, int64_t bBytes) {
      return a < b + bBytes && b < a + aBytes;
    };
    for (size_t i = 0; i < workspaces.size(); ++i) {
      if (!workspaces[i])
        continue;
      EXPECT_EQ(layout.workspaces[i] % cudaPlanAlignment, 0);
      EXPECT_LE(layout.workspaces[i] + workspaces[i], layout.bytes);
      for (size_t b = 0; b < function.buffers.size(); ++b)
        if (function.buffers[b].first <= int32_t(i) && int32_t(i) <= function.buffers[b].last)
          EXPECT_FALSE(
              overlap(layout.workspaces[i], workspaces[i], layout.offsets[b], plan.bufferBytes[b]))
              << "command " << i << ", buffer " << b;
    }
    EXPECT_LE(layout.bytes,
              plan.arenaBytes + mostBytesOfWorkspaces(plan, workspaces, cudaPlanAlignment));
    return layout;
  }

  Function function;
  ExecutionPlan plan;
};

TEST(ArenaLayout, AWorkspaceIsWhereNothingLives) {
  // 300 MiB in the middle, 100 at both ends.
  const Chain chain({{100 * MiB, 0}, {100 * MiB, 1}, {200 * MiB, 0}, {100 * MiB, 0}});
  ASSERT_EQ(chain.plan.arenaBytes, 300 * MiB);
  EXPECT_EQ(chain.with({200 * MiB, 0, 0, 200 * MiB}).bytes, 300 * MiB);
  EXPECT_EQ(chain.with({0, 0, 8 * MiB, 0}).bytes, 308 * MiB);
  EXPECT_EQ(chain.with({0, 0, 0, 0}).bytes, 300 * MiB);
}

TEST(ArenaLayout, BehindTheArenaWhereCommandsWaitForExchanges) {
  Chain chain({{100 * MiB, 0}, {300 * MiB, 0}, {100 * MiB, 0}});
  chain.plan.exchangeWaits = {0, 0, 1};
  const ArenaLayout layout = chain.with({200 * MiB, 0, 100 * MiB});
  EXPECT_EQ(layout.workspaces, (std::vector<int64_t>{300 * MiB, 0, 300 * MiB}));
  EXPECT_EQ(layout.bytes, 500 * MiB);
  EXPECT_EQ(layout.offsets, chain.plan.bufferOffsets);
}

TEST(ArenaLayout, EachLaneHasItsOwnWhereThatCostsNextToNothing) {
  const Chain chain({{100 * MiB, 0}, {300 * MiB, 0}, {100 * MiB, 0}}, {false, true, false});
  const ArenaLayout little = chain.with({16 * MiB, 8 * MiB, 8 * MiB});
  EXPECT_EQ(little.workspaces,
            (std::vector<int64_t>{chain.plan.arenaBytes, chain.plan.arenaBytes + 16 * MiB,
                                  chain.plan.arenaBytes}));
  EXPECT_LT(chain.with({200 * MiB, 64 * MiB, 0}).bytes, chain.plan.arenaBytes + 200 * MiB);
}

TEST(ArenaLayout, TheSecondLaneKeepsItsPlaceWhileThereIsRoom) {
  // Before the second lane begins memory is full, behind it there is room.
  std::vector<Chain::Link> links(20, {1 * MiB, 0});
  links[0] = {1000 * MiB, 1};
  std::vector<bool> aside(20);
  std::vector<int64_t> workspaces(20);
  aside[8] = aside[12] = true;
  workspaces[8] = workspaces[12] = 200 * MiB;
  const Chain chain(links, aside);
  const ArenaLayout layout = chain.with(workspaces);
  EXPECT_EQ(layout.workspaces[8], layout.workspaces[12]);
  EXPECT_EQ(layout.bytes, chain.plan.arenaBytes);
}

TEST(ArenaLayout, RandomOnesNeverOverlap) {
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    const size_t commands = 1 + random() % 40;
    std::vector<Chain::Link> links;
    std::vector<bool> aside;
    std::vector<int64_t> workspaces;
    for (size_t i = 0; i < commands; ++i) {
      links.push_back({int64_t(random() % 64) * MiB + 1, int32_t(random() % 10)});
      aside.push_back(round % 3 && random() % 3 == 0);
      workspaces.push_back(random() % 2 ? int64_t(random() % 256) * MiB + 5 : 0);
    }
    Chain(links, aside).with(workspaces);
  }
}

} // namespace
