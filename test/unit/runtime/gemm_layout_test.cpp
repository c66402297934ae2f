// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How products with arbitrary strides become column-major calls (CUDA): every layout is carried out
// here by a plain column-major multiplication and compared with the definition.

#include "device/cuda/blas_layout.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>

using namespace trainrt;
using namespace trainrt::cuda;

namespace {

struct Matrix {
  /// Strides of the two matrix axes, then of the batch axes.
  std::vector<int64_t> strides;
  int64_t size = 1;
};

class Generator {
public:
  explicit Generator(unsigned seed) : random(seed) {}

  int64_t below(int64_t limit) { return int64_t(random() % uint64_t(limit)); }

  /// Axes in a random order with gaps; a matrix axis is innermost, and `repeat` may repeat batch
  /// axes.
  Matrix operand(const std::vector<int64_t> &extents, bool repeat) {
    std::vector<size_t> order(extents.size());
    for (size_t i = 0; i < order.size(); ++i)
      order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    auto inner = std::find_if(order.begin(), order.end(), [](size_t axis) { return axis < 2; });
    std::rotate(order.begin(), inner, inner + 1);
    Matrix result;
    result.strides.resize(extents.size());
    int64_t stride = 1;
    bool dense = below(2) == 0;
    for (size_t axis : order) {
      if (repeat && axis >= 2 && below(3) == 0)
        continue; // stride 0
      result.strides[axis] = stride;
      result.size += stride * (extents[axis] - 1);
      stride *= extents[axis];
      if (!dense && below(2) == 0)
        stride += below(3);
    }
    // An axis of extent 1 may have any stride.
    for (size_t axis = 0; axis < extents.size(); ++axis)
      if (extents[axis] == 1 && below(2) == 0)
        result.strides[axis] = below(7);
    return result;
  }

private:
  std::mt19937 random;
};

using Values = std::vector<double>;

void multiply(const GemmCall &call, const Values &a, const Values &b, Values &c) {
  std::vector<int64_t> index(call.batch.size());
  for (;;) {
    int64_t atA = 0, atB = 0, atC = 0;
    for (size_t i = 0; i < index.size(); ++i) {
      atA += index[i] * call.aBatch[i];
      atB += index[i] * call.bBatch[i];
      atC += index[i] * call.cBatch[i];
    }
    for (int64_t i = 0; i < call.m; ++i)
      for (int64_t j = 0; j < call.n; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < call.k; ++k)
          sum += a.at(size_t(atA + i * call.aM + k * call.aK)) *
                 b.at(size_t(atB + k * call.bK + j * call.bN));
        c.at(size_t(atC + i * call.cM + j * call.cN)) = sum;
      }
    size_t axis = index.size();
    while (axis > 0 && ++index[axis - 1] == call.batch[axis - 1])
      index[--axis] = 0;
    if (axis == 0)
      return;
  }
}

/// What a BLAS does with the layout.
void carryOut(const GemmLayout &layout, const Values &a, const Values &b, Values &c) {
  std::vector<BatchAxis> axes = layout.loops;
  axes.push_back(layout.batch);
  std::vector<int64_t> index(axes.size());
  for (;;) {
    int64_t atA = 0, atB = 0, atC = 0;
    for (size_t i = 0; i < index.size(); ++i) {
      atA += index[i] * axes[i].a;
      atB += index[i] * axes[i].b;
      atC += index[i] * axes[i].c;
    }
    const Values &x = layout.swapped ? b : a, &y = layout.swapped ? a : b;
    int64_t atX = layout.swapped ? atB : atA, atY = layout.swapped ? atA : atB;
    for (int64_t i = 0; i < layout.rows; ++i)
      for (int64_t j = 0; j < layout.columns; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < layout.k; ++k)
          sum += x.at(size_t(atX + (layout.transposeX ? k + i * layout.ldX : i + k * layout.ldX))) *
                 y.at(size_t(atY + (layout.transposeY ? j + k * layout.ldY : k + j * layout.ldY)));
        c.at(size_t(atC + i + j * layout.ldD)) = sum;
      }
    size_t axis = index.size();
    while (axis > 0 && ++index[axis - 1] == axes[axis - 1].extent)
      index[--axis] = 0;
    if (axis == 0)
      return;
  }
}

GemmCall dense(int64_t m, int64_t n, int64_t k) {
  GemmCall call;
  call.m = m, call.n = n, call.k = k;
  call.aM = k, call.aK = 1, call.bK = n, call.bN = 1, call.cM = n, call.cN = 1;
  return call;
}

void addBatch(GemmCall &call, int64_t extent, int64_t a, int64_t b, int64_t c) {
  call.batch.push_back(extent);
  call.aBatch.push_back(a);
  call.bBatch.push_back(b);
  call.cBatch.push_back(c);
}

} // namespace

TEST(GemmLayout, ArbitraryStrides) {
  for (unsigned seed = 0; seed < 4000; ++seed) {
    Generator random(seed);
    GemmCall call;
    call.m = 1 + random.below(5);
    call.n = 1 + random.below(5);
    call.k = 1 + random.below(5);
    for (int64_t i = random.below(4); i > 0; --i)
      call.batch.push_back(1 + random.below(4));
    auto extents = [&](int64_t first, int64_t second) {
      std::vector<int64_t> all = {first, second};
      all.insert(all.end(), call.batch.begin(), call.batch.end());
      return all;
    };
    Matrix a = random.operand(extents(call.m, call.k), true);
    Matrix b = random.operand(extents(call.k, call.n), true);
    Matrix c = random.operand(extents(call.m, call.n), false);
    call.aM = a.strides[0], call.aK = a.strides[1];
    call.bK = b.strides[0], call.bN = b.strides[1];
    call.cM = c.strides[0], call.cN = c.strides[1];
    call.aBatch.assign(a.strides.begin() + 2, a.strides.end());
    call.bBatch.assign(b.strides.begin() + 2, b.strides.end());
    call.cBatch.assign(c.strides.begin() + 2, c.strides.end());
    GemmLayout layout;
    Status status = layoutGemm(call, layout);
    ASSERT_TRUE(status.ok()) << "seed " << seed << ": " << status.message();
    EXPECT_GE(layout.ldX, layout.transposeX ? layout.k : layout.rows) << "seed " << seed;
    EXPECT_GE(layout.ldY, layout.transposeY ? layout.columns : layout.k) << "seed " << seed;
    EXPECT_GE(layout.ldD, layout.rows) << "seed " << seed;

    Values valuesA(size_t(a.size)), valuesB(size_t(b.size));
    for (double &value : valuesA)
      value = double(random.below(17)) - 8;
    for (double &value : valuesB)
      value = double(random.below(17)) - 8;
    // What lies between C's elements stays.
    Values expected(size_t(c.size), 1000), found = expected;
    multiply(call, valuesA, valuesB, expected);
    carryOut(layout, valuesA, valuesB, found);
    ASSERT_EQ(expected, found) << "seed " << seed;
  }
}

TEST(GemmLayout, BatchWithOneWeightIsOneProduct) {
  GemmCall call = dense(128, 64, 32);
  addBatch(call, 8, 128 * 32, 0, 128 * 64);
  addBatch(call, 3, 8 * 128 * 32, 0, 8 * 128 * 64);
  GemmLayout layout;
  ASSERT_TRUE(layoutGemm(call, layout).ok());
  EXPECT_EQ(layout.batch.extent, 1);
  EXPECT_TRUE(layout.loops.empty());
  EXPECT_EQ(layout.rows, 64);
  EXPECT_EQ(layout.columns, 3 * 8 * 128);
}

TEST(GemmLayout, HeadsBetweenRowsAreOneAxisAndALoop) {
  // q of [batch 2, rows 5, heads 3, 8] times k of the same layout.
  GemmCall call = dense(5, 5, 8);
  call.aM = 24, call.bK = 1, call.bN = 24;
  addBatch(call, 2, 120, 120, 75);
  addBatch(call, 3, 8, 8, 25);
  GemmLayout layout;
  ASSERT_TRUE(layoutGemm(call, layout).ok());
  EXPECT_EQ(layout.batch.extent, 3);
  ASSERT_EQ(layout.loops.size(), 1u);
  EXPECT_EQ(layout.loops[0].extent, 2);
}

TEST(GemmLayout, ABiasLiesAlongTheRowsOfTheCall) {
  GemmCall call = dense(6, 1, 4);
  GemmLayout layout;
  ASSERT_TRUE(layoutGemm(call, layout).ok());
  EXPECT_FALSE(layout.swapped); // the longer columns
  call.epilogue = GemmEpilogue::Bias;
  ASSERT_TRUE(layoutGemm(call, layout).ok());
  EXPECT_TRUE(layout.swapped);
  EXPECT_EQ(layout.rows, 1);
  call = dense(6, 5, 4);
  call.epilogue = GemmEpilogue::Bias;
  call.cM = 1, call.cN = 6;
  EXPECT_EQ(layoutGemm(call, layout).code(), Code::Unsupported);
}

TEST(GemmLayout, Refuses) {
  GemmLayout layout;
  GemmCall call = dense(4, 4, 4);
  call.aM = 8, call.aK = 2;
  Status status = layoutGemm(call, layout);
  EXPECT_EQ(status.code(), Code::Unsupported);
  EXPECT_NE(status.message().find("operand A of extents 4 x 4 has strides 8, 2"), std::string::npos)
      << status.message();
  call = dense(4, 4, 4);
  call.bK = 3; // rows overlap
  EXPECT_EQ(layoutGemm(call, layout).code(), Code::Unsupported);
  call = dense(4, 4, 4);
  addBatch(call, 2, 16, 16, 0);
  EXPECT_EQ(layoutGemm(call, layout).code(), Code::Unsupported);
}
