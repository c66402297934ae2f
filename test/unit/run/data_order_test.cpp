// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The order of the data: consecutive and shuffled, wrapping and by epochs, resumed anywhere.
#include "cli/data/data_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

using namespace trainrt::run;
using Rows = std::vector<int64_t>;

namespace {

TEST(DataOrder, ConsecutiveBatchesWrapAroundFull) {
  DataOrder order(5, 2, false, 0);
  EXPECT_EQ(order.next(true), (Rows{0, 1}));
  EXPECT_EQ(order.next(true), (Rows{2, 3}));
  EXPECT_EQ(order.next(true), (Rows{4, 0}));
  EXPECT_EQ(order.next(true), (Rows{1, 2}));
  EXPECT_EQ(order.position(), (DataOrder::Position{1, 3}));
}

TEST(DataOrder, EpochsEndWithAShortBatch) {
  DataOrder order(5, 2, false, 0);
  EXPECT_EQ(order.batchesPerEpoch(false), 3);
  EXPECT_EQ(order.next(false), (Rows{0, 1}));
  EXPECT_EQ(order.next(false), (Rows{2, 3}));
  EXPECT_EQ(order.next(false), (Rows{4}));
  EXPECT_EQ(order.position(), (DataOrder::Position{1, 0}));
  EXPECT_EQ(order.next(false), (Rows{0, 1}));
}

TEST(DataOrder, StaticBatchesDropTheRest) {
  DataOrder order(5, 2, false, 0);
  EXPECT_EQ(order.batchesPerEpoch(true), 2);
  EXPECT_EQ(order.next(false, true), (Rows{0, 1}));
  EXPECT_EQ(order.next(false, true), (Rows{2, 3}));
  EXPECT_EQ(order.position(), (DataOrder::Position{1, 0}));
  EXPECT_TRUE(DataOrder(5, 6, false, 0).next(false, true).empty());
}

TEST(DataOrder, ABatchMayBeTheWholeFile) {
  DataOrder order(3, 3, false, 0);
  EXPECT_EQ(order.next(true), (Rows{0, 1, 2}));
  EXPECT_EQ(order.next(true), (Rows{0, 1, 2}));
  EXPECT_EQ(order.position(), (DataOrder::Position{2, 0}));
}

TEST(DataOrder, EveryEpochIsAnotherPermutation) {
  DataOrder order(100, 10, true, 7);
  std::vector<Rows> epochs;
  for (int epoch = 0; epoch < 3; ++epoch) {
    Rows rows;
    for (int batch = 0; batch < 10; ++batch)
      for (int64_t row : order.next(false))
        rows.push_back(row);
    EXPECT_EQ(rows, shuffledRows(100, 7, uint64_t(epoch)));
    epochs.push_back(rows);
    std::sort(rows.begin(), rows.end());
    for (int64_t i = 0; i < 100; ++i)
      EXPECT_EQ(rows[size_t(i)], i);
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
  EXPECT_NE(shuffledRows(100, 8, 0), epochs[0]);
}

/// Pinned: a resumed run must see the order that an older build of trainc-run began with.
TEST(DataOrder, TheShuffleNeverChanges) {
  EXPECT_EQ(shuffledRows(10, 0, 0), (Rows{1, 7, 6, 2, 0, 9, 8, 4, 5, 3}));
  EXPECT_EQ(shuffledRows(10, 42, 3), (Rows{5, 3, 9, 4, 8, 6, 0, 7, 2, 1}));
  EXPECT_EQ(shuffledRows(1, 5, 5), (Rows{0}));
  EXPECT_TRUE(shuffledRows(0, 5, 5).empty());
}

TEST(DataOrder, PermutationsAreUniform) {
  std::map<Rows, int> counts;
  for (uint64_t seed = 0; seed < 24000; ++seed)
    ++counts[shuffledRows(4, seed, 1)];
  EXPECT_EQ(counts.size(), 24u);
  for (const auto &[permutation, count] : counts) // 1000 expected, deviation 31
    EXPECT_NEAR(count, 1000, 150);
}

TEST(DataOrder, SeekContinuesExactly) {
  for (bool wrap : {true, false})
    for (int stop = 0; stop < 20; ++stop) {
      DataOrder whole(17, 4, true, 3);
      for (int i = 0; i < stop; ++i)
        whole.next(wrap);
      DataOrder resumed(17, 4, true, 3);
      resumed.seek(whole.position());
      for (int i = 0; i < 10; ++i)
        ASSERT_EQ(resumed.next(wrap), whole.next(wrap));
    }
}

TEST(DataOrder, SeekBeyondTheRowsBeginsTheNextEpoch) {
  DataOrder order(5, 2, false, 0);
  order.seek({2, 9});
  EXPECT_EQ(order.position(), (DataOrder::Position{3, 0}));
}

} // namespace
