// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What may run beside what.

#include "plan/overlap.h"

#include <gtest/gtest.h>
#include <set>

using namespace trainrt;

namespace {

std::set<int32_t> addTo(MemoryOrder &order, const std::vector<MemoryOrder::Range> &reads,
                        const std::vector<MemoryOrder::Range> &writes) {
  std::set<int32_t> before;
  order.add(reads, writes, [&](int32_t earlier) { before.insert(earlier); });
  return before;
}

Command kernel(const std::vector<uint32_t> &reads, const std::vector<uint32_t> &writes) {
  Command command;
  for (uint32_t buffer : reads)
    command.operands.push_back({buffer, 0, Access::Read});
  for (uint32_t buffer : writes)
    command.operands.push_back({buffer, 0, Access::Write});
  return command;
}

TEST(Overlap, BytesOrderCommands) {
  using Set = std::set<int32_t>;
  MemoryOrder order;
  EXPECT_EQ(addTo(order, {}, {{0, 100}}), Set());
  EXPECT_EQ(addTo(order, {{50, 60}}, {{200, 300}}), Set({0}));
  // What is written waits for the writer and for readers of the same bytes.
  EXPECT_EQ(addTo(order, {}, {{55, 70}}), Set({0, 1}));
  EXPECT_EQ(addTo(order, {{0, 10}}, {}), Set({0}));
  EXPECT_EQ(addTo(order, {{0, 10}}, {}), Set({0}));
  EXPECT_EQ(addTo(order, {{56, 57}}, {}), Set({2}));
  EXPECT_EQ(addTo(order, {{90, 210}}, {}), Set({0, 1}));
  EXPECT_EQ(addTo(order, {}, {{5, 6}}), Set({0, 3, 4}));
  EXPECT_EQ(addTo(order, {{0, 300}}, {}), Set({0, 1, 2, 7}));
  // In place, and nothing at all.
  EXPECT_EQ(addTo(order, {{400, 500}}, {{400, 500}}), Set());
  EXPECT_EQ(addTo(order, {{450, 450}}, {{450, 450}}), Set());
  EXPECT_EQ(addTo(order, {{450, 451}}, {}), Set({9}));
}

TEST(Overlap, WhatIsNeededLateIsAside) {
  // A chain; a gradient that begins at its second command and is needed by the last one only, over
  // two stages of a kernel.
  constexpr uint32_t length = 14, gradient = 20, partial = 21;
  Function function;
  function.buffers.resize(22);
  for (uint32_t i = 0; i < length; ++i) {
    function.commands.push_back(i + 1 == length ? kernel({i, gradient}, {i + 1})
                                                : kernel({i}, {i + 1}));
    if (i == 1)
      for (int stage = 0; stage < 2; ++stage)
        function.commands.push_back(kernel({2}, {gradient, partial}));
  }
  std::vector<bool> expected(length + 2);
  expected[2] = expected[3] = true;
  EXPECT_EQ(findAside(function), expected);
}

} // namespace
