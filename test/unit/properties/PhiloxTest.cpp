// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Philox4x32-10 against the known answers of Random123 (its file kat_vectors), and what dropout
// builds on it.
#include "dialects/Train/Philox.h"
#include "dialects/Train/TrainDetail.h"
#include "gtest/gtest.h"
#include <cmath>
#include <vector>

using namespace trainc::train;

TEST(Philox, knownAnswers) {
  using namespace philox;
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, keysAreExactDoubles) {
  uint64_t key = philox::nodeKey(~0ull, 12, 3, 1, 0x0123456789abcdefull);
  EXPECT_LT(key, 1ull << 53);
  EXPECT_EQ(detail::rngKey({-1.0, 12, 3, 1}, 0x0123456789abcdef), double(key));
}

TEST(Philox, keysDependOnEveryPart) {
  uint64_t key = philox::nodeKey(1, 2, 3, 4, 5);
  EXPECT_NE(key, philox::nodeKey(9, 2, 3, 4, 5));
  EXPECT_NE(key, philox::nodeKey(1 + (1ull << 32), 2, 3, 4, 5));
  EXPECT_NE(key, philox::nodeKey(1, 9, 3, 4, 5));
  EXPECT_NE(key, philox::nodeKey(1, 2, 9, 4, 5));
  EXPECT_NE(key, philox::nodeKey(1, 2, 3, 9, 5));
  EXPECT_NE(key, philox::nodeKey(1, 2, 3, 4, 9));
  EXPECT_NE(key, philox::nodeKey(1, 2, 3, 4, 5 + (1ull << 32)));
}

TEST(Dropout, thresholdIsTheRatio) {
  EXPECT_EQ(philox::dropoutThreshold(0), 0u);
  EXPECT_EQ(philox::dropoutThreshold(0.5), 0x80000000u);
  EXPECT_EQ(philox::dropoutThreshold(1 - 1e-12), 0xffffffffu);
}

TEST(Dropout, keepsItsShareOfTenMillion) {
  constexpr int64_t rows = 2500, columns = 4000;
  for (double ratio : {0.1, 0.5}) {
    uint64_t key = philox::nodeKey(42, 1, 0, 0, 77);
    uint32_t threshold = philox::dropoutThreshold(ratio);
    int64_t kept = 0;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) {
        int64_t index[] = {i, j};
        kept += philox::elementWord(key, index, 2) >= threshold;
      }
    double count = double(rows) * columns, sigma = std::sqrt(count * ratio * (1 - ratio));
    EXPECT_LE(std::fabs(double(kept) - count * (1 - ratio)), 4 * sigma);
  }
}

/// Correlation of two masks of a million elements, in standard deviations.
static double correlation(uint64_t a, uint64_t b) {
  constexpr int64_t size = 1000;
  uint32_t threshold = philox::dropoutThreshold(0.5);
  int64_t sum = 0;
  for (int64_t i = 0; i < size; ++i)
    for (int64_t j = 0; j < size; ++j) {
      int64_t index[] = {i, j};
      bool x = philox::elementWord(a, index, 2) >= threshold;
      bool y = philox::elementWord(b, index, 2) >= threshold;
      sum += x == y ? 1 : -1;
    }
  return std::fabs(double(sum)) / double(size);
}

TEST(Dropout, masksAreUncorrelated) {
  uint64_t key = philox::nodeKey(42, 1, 0, 0, 77);
  EXPECT_LE(correlation(key, philox::nodeKey(42, 1, 0, 0, 78)), 4) << "two nodes";
  EXPECT_LE(correlation(key, philox::nodeKey(42, 2, 0, 0, 77)), 4) << "two steps";
  EXPECT_LE(correlation(key, philox::nodeKey(42, 1, 1, 0, 77)), 4) << "two micro-batches";
  EXPECT_LE(correlation(key, philox::nodeKey(42, 1, 0, 1, 77)), 4) << "two ranks";
  EXPECT_LE(correlation(key, philox::nodeKey(43, 1, 0, 0, 77)), 4) << "two seeds";
}

TEST(Dropout, everyCoordinateCounts) {
  uint64_t key = philox::nodeKey(1, 1, 0, 0, 1);
  std::vector<int64_t> index(6, 0);
  uint32_t origin = philox::elementWord(key, index.data(), index.size());
  for (size_t axis = 0; axis < index.size(); ++axis) {
    index[axis] = 1;
    EXPECT_NE(philox::elementWord(key, index.data(), index.size()), origin) << "axis " << axis;
    index[axis] = 0;
  }
  // Leading axes of size one change nothing.
  EXPECT_EQ(philox::elementWord(key, index.data(), 2), origin);
}

TEST(Detail, divisionAndModulo) {
  EXPECT_EQ(detail::floorMod(-7, 3), 2);
  EXPECT_EQ(detail::floorMod(7, -3), -2);
  EXPECT_EQ(detail::floorMod(6, 3), 0);
  EXPECT_TRUE(std::isnan(detail::maximum(1, std::nan(""))));
  EXPECT_TRUE(std::isnan(detail::maximum(std::nan(""), 1)));
}
