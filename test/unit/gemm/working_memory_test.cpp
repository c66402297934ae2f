// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What is told ahead of the memory for packing is what the calls take: exactly with one thread, at
// most with several.
#include "device/cpu/attention.h"
#include "device/cpu/gemm.h"
#include "device/thread_pool.h"
#include "format/memory/working_memory.h"

#include <gtest/gtest.h>

#include <vector>

using namespace trainrt;

namespace {

/// A batch of row-major products.
struct Product {
  int64_t matrices, m, n, k;
  bool transposed = false; ///< C's rows lie side by side

  void run(ThreadPool &pool, WorkingMemory &told) const {
    std::vector<float> a(size_t(matrices * m * k)), b(size_t(matrices * k * n)),
        c(size_t(matrices * m * n));
    const int64_t aStride = m * k, bStride = k * n, cStride = m * n;
    GemmArgs args = {a.data(),
                     b.data(),
                     c.data(),
                     m,
                     n,
                     k,
                     k,
                     1,
                     n,
                     1,
                     transposed ? 1 : n,
                     transposed ? m : 1,
                     1,
                     &matrices,
                     &aStride,
                     &bStride,
                     &cStride,
                     1,
                     0};
    gemmF32(args, pool);
    told.addGemm(args);
  }
};

TEST(WorkingMemory, IsWhatProductsTake) {
  for (Product product :
       {Product{1, 3, 5, 7}, Product{1, 300, 200, 700}, Product{1, 64, 3000, 600},
        Product{1, 3000, 64, 600, true}, Product{40, 20, 30, 40}, Product{2, 200, 200, 200},
        Product{1, 1, 100, 100}, Product{1, 40, 20, 3000}, Product{1, 20, 40, 3000, true},
        Product{2, 15, 300, 2100}}) {
    ThreadPool one(1), three(3);
    WorkingMemory toldOfOne(gemmTile(), 1), toldOfThree(gemmTile(), 3);
    product.run(one, toldOfOne);
    product.run(three, toldOfThree);
    SCOPED_TRACE(testing::Message()
                 << product.matrices << " " << product.m << " " << product.n << " " << product.k);
    EXPECT_EQ(toldOfOne.bytes(), int64_t(one.scratchBytes()));
    EXPECT_GE(toldOfThree.bytes(), int64_t(three.scratchBytes()));
  }
}

/// Of a matmul in a loop A and B are packed whole; nothing is packed by a thread for itself.
TEST(WorkingMemory, IsWhatAKeptOperandTakes) {
  const int64_t m = 64, n = 300, k = 700;
  std::vector<float> a(size_t(m * k)), b(size_t(k * n)), c(size_t(m * n));
  const GemmArgs args = {a.data(), b.data(), c.data(), m,       n,       k,       k,       1, n, 1,
                         n,        1,        0,        nullptr, nullptr, nullptr, nullptr, 1, 0};
  const GemmProblem problem(args, gemmTile());
  const int loop = 0;
  for (unsigned threads : {1u, 3u}) {
    ThreadPool pool(threads);
    WorkingMemory told(gemmTile(), threads);
    told.addGemm(args, {&loop, false, true});
    KeptB kept{static_cast<float *>(pool.shared(2, size_t(problem.keptFloats()) * 4))};
    gemmF32(args, pool, &kept);
    EXPECT_EQ(told.bytes(), int64_t(pool.scratchBytes()));
  }
}

TEST(WorkingMemory, IsTheMostOfSeveralCalls) {
  ThreadPool pool(1);
  WorkingMemory told(gemmTile(), 1);
  Product{1, 64, 3000, 600}.run(pool, told);
  Product{40, 20, 30, 40}.run(pool, told);
  EXPECT_EQ(told.bytes(), int64_t(pool.scratchBytes()));
  Product{1, 1, 1, 1}.run(pool, told);
  EXPECT_EQ(told.bytes(), int64_t(pool.scratchBytes()));
}

TEST(WorkingMemory, IsWhatAttentionTakes) {
  for (auto [length, band] : {std::pair{5, AttentionBand()}, {70, {}}, {500, {}}, {500, {40, 0}}})
    for (double dropout : {0.0, 0.5}) {
      constexpr int64_t heads = 2, depth = 24;
      const int64_t seed = 1;
      const int32_t offsets[] = {0, length};
      std::vector<float> values(size_t(length * heads * depth)), out(values.size()),
          dK(values.size()), dV(values.size()), stats(size_t(length * heads));
      AttentionMatrix<const float> in{values.data(), depth, heads * depth};
      auto result = [&](std::vector<float> &data) {
        return AttentionMatrix<float>{data.data(), depth, heads * depth};
      };
      AttentionArgs common{heads, heads,  length,  depth,   depth, in,      in,    in,
                           1,     length, offsets, nullptr, 1,     dropout, &seed, band};
      ThreadPool pool(1);
      WorkingMemory told(gemmTile(), 1);
      SCOPED_TRACE(testing::Message() << length << " " << dropout << " " << band.before);
      attentionForwardF32({common, result(out), stats.data()}, pool);
      told.addAttention({length, depth, depth, false, dropout > 0, band});
      EXPECT_GE(told.bytes(), int64_t(pool.scratchBytes()));
      EXPECT_LE(told.bytes(), int64_t(pool.scratchBytes()) + 8192);
      attentionBackwardF32({common, stats.data(), in, result(out), result(dK), result(dV)}, pool);
      told.addAttention({length, depth, depth, true, dropout > 0, band});
      EXPECT_GE(told.bytes(), int64_t(pool.scratchBytes()));
      EXPECT_LE(told.bytes(), int64_t(pool.scratchBytes()) + 8192);
    }
}

} // namespace
