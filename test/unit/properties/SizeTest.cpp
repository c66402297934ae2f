// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Quotients of sizes: what they are simplified to has their values, and equal ones are one.
#include "dialects/Train/TrainDialect.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace trainc::train;

namespace {
class Sizes : public testing::Test {
protected:
  Sizes() {
    context.loadDialect<TrainDialect>();
    h = DimAttr::symbol(&context, "h");
    w = DimAttr::symbol(&context, "w");
  }

  DimAttr number(int64_t n) { return DimAttr::constant(&context, n); }
  DimAttr times(int64_t n, DimAttr x) { return number(n) * x; }
  /// The floor, by the definition.
  static int64_t floorOf(int64_t a, int64_t b) { return (a - ((a % b) + b) % b) / b; }
  static int64_t valueOf(DimAttr x, int64_t h, int64_t w) {
    auto lookup = [&](StringRef name) { return std::optional<int64_t>(name == "h" ? h : w); };
    return *x.evaluate(lookup);
  }

  MLIRContext context;
  DimAttr h, w;
};
} // namespace

// Of (k*w + c) / d, and of its quotients and rests in turn; also of sizes that no tensor has.
TEST_F(Sizes, quotientsOfQuotients) {
  for (int64_t k : {-3, -1, 1, 2, 3, 4, 6})
    for (int64_t c = -7; c <= 7; ++c)
      for (int64_t d : {1, 2, 3, 4, 6}) {
        const DimAttr inner = floorDiv(times(k, w) + number(c), number(d));
        const DimAttr rest = mod(times(k, w) + number(c), number(d));
        for (int64_t value = -9; value <= 9; ++value) {
          const int64_t a = k * value + c;
          ASSERT_EQ(valueOf(inner, 0, value), floorOf(a, d)) << inner.str() << " at " << value;
          ASSERT_EQ(valueOf(rest, 0, value), a - d * floorOf(a, d)) << rest.str();
        }
        for (int64_t m : {-1, 1, 2})
          for (int64_t s : {-3, 0, 1, 4})
            for (int64_t e : {2, 3, 4}) {
              const DimAttr outer = floorDiv(times(m, inner) + number(s), number(e));
              for (int64_t value = -5; value <= 5; ++value)
                ASSERT_EQ(valueOf(outer, 0, value), floorOf(m * floorOf(k * value + c, d) + s, e))
                    << outer.str() << " at " << value;
            }
      }
}

TEST_F(Sizes, quotientsOfSums) {
  for (int64_t i : {1, 2, 5})
    for (int64_t d : {2, 3})
      for (int64_t e : {2, 4}) {
        const DimAttr half = floorDiv(h + number(1), number(d)), third = floorDiv(w, number(3));
        const DimAttr all = floorDiv(half + times(i, third) + w - number(4), number(e));
        for (int64_t x = -4; x <= 9; ++x)
          for (int64_t y = -4; y <= 9; ++y)
            ASSERT_EQ(valueOf(all, x, y), floorOf(floorOf(x + 1, d) + i * floorOf(y, 3) + y - 4, e))
                << all.str();
      }
}

// Convolutions and pools of stride 2 that keep halves, whatever their window and padding.
TEST_F(Sizes, chainsAreOne) {
  auto strided = [&](DimAttr size, int64_t window, int64_t pad) {
    return floorDiv(size + number(2 * pad - window), number(2)) + number(1);
  };
  DimAttr pooled = w, narrow = w, wide = w;
  for (int i = 0; i < 3; ++i) {
    pooled = strided(pooled, 2, 0);
    narrow = strided(narrow, 3, 1);
    wide = strided(wide, 7, 3);
  }
  EXPECT_EQ(pooled.str(), "floordiv(w, 8)");
  EXPECT_EQ(narrow.str(), "floordiv(w + 7, 8)");
  EXPECT_EQ(narrow, wide);
  EXPECT_EQ(strided(w, 4, 1), floorDiv(w, number(2)));
  EXPECT_EQ(floorDiv(times(3, w), number(2)) - w, floorDiv(w, number(2)));
  EXPECT_EQ(floorDiv(times(2, w) + number(3), number(4)), floorDiv(w + number(1), number(2)));
  EXPECT_EQ(mod(w - number(6), number(4)), mod(w + number(2), number(4)));
}

// Numbers at the ends of what 64 bits hold.
TEST_F(Sizes, largeNumbers) {
  const DimAttr least = w + number(INT64_MIN), divisor = number(3);
  EXPECT_EQ(valueOf(floorDiv(least, divisor), 0, 5), floorOf(INT64_MIN + 5, 3));
  const DimAttr inner = floorDiv(w, number(INT64_MAX));
  EXPECT_EQ(floorDiv(inner + h, divisor).str(),
            "floordiv(floordiv(w, 9223372036854775807) + h, 3)");
}
