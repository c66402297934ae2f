// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention over segments against its definition in f64, for every instruction set this machine
// has; dropout's mask against `train.dropout`'s rule; and promises about bits: not of threads,
// kernels, strides or other segments.
#include "device/cpu/attention.h"
#include "device/cpu/attention_kernels.h"
#include "device/thread_pool.h"

#include "dialects/Train/Philox.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

using namespace trainrt;

namespace {

std::vector<const AttentionKernels *> kernelSets() {
  std::vector<const AttentionKernels *> sets;
  if (auto *neon = attentionKernelsNeon())
    sets.push_back(neon);
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    sets.push_back(attentionKernelsAvx2());
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl"))
    sets.push_back(attentionKernelsAvx512());
#endif
  return sets;
}

enum class PositionsAre { Absent, Shifted, Ascending, Shuffled, Sparse };

struct Case {
  std::vector<int64_t> lengths;
  int64_t heads = 2, keyHeads = 2, depth = 32, width = 32, rest = 3;
  bool causal = false, headMajor = false;
  double dropout = 0;
  PositionsAre positions = PositionsAre::Absent;
  int64_t before = AttentionBand::all, after = AttentionBand::all;

  AttentionBand band() const { return {before, causal ? 0 : after}; }
  int64_t used() const { return std::accumulate(lengths.begin(), lengths.end(), int64_t(0)); }
  int64_t rows() const { return used() + rest; }
  int64_t longest() const { return *std::max_element(lengths.begin(), lengths.end()); }
};

/// [rows, heads, columns], or [heads, rows, columns]. NaNs at first: rows behind the segments are
/// not to be read, and all of a result is to be written.
struct Tensor {
  Tensor(const Case &test, int64_t heads, int64_t columns)
      : head(test.headMajor ? test.rows() * columns : columns),
        row(test.headMajor ? columns : heads * columns),
        data(size_t(test.rows() * heads * columns), std::numeric_limits<float>::quiet_NaN()) {}
  float &operator()(int64_t h, int64_t t, int64_t c) {
    return data[size_t(h * head + t * row + c)];
  }
  AttentionMatrix<const float> input() const { return {data.data(), head, row}; }
  AttentionMatrix<float> output() { return {data.data(), head, row}; }
  void fill(const Case &test, int64_t heads, int64_t columns, std::mt19937 &random) {
    std::normal_distribution<float> normal;
    for (int64_t t = 0; t < test.used(); ++t)
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t c = 0; c < columns; ++c)
          (*this)(h, t, c) = normal(random);
  }

  int64_t head, row;
  std::vector<float> data;
};

struct Problem {
  explicit Problem(const Case &test)
      : test(test), q(test, test.heads, test.depth), k(test, test.keyHeads, test.depth),
        v(test, test.keyHeads, test.width), dO(test, test.heads, test.width),
        o(test, test.heads, test.width), dQ(test, test.heads, test.depth),
        dK(test, test.keyHeads, test.depth), dV(test, test.keyHeads, test.width),
        stats(size_t(test.rows() * test.heads), std::numeric_limits<float>::quiet_NaN()) {
    std::mt19937 random(7);
    q.fill(test, test.heads, test.depth, random);
    k.fill(test, test.keyHeads, test.depth, random);
    v.fill(test, test.keyHeads, test.width, random);
    dO.fill(test, test.heads, test.width, random);
    offsets.push_back(0);
    for (int64_t length : test.lengths) {
      offsets.push_back(offsets.back() + int32_t(length));
      std::vector<int32_t> at(static_cast<size_t>(length));
      int32_t next = test.positions == PositionsAre::Absent ? 0 : int32_t(random() % 9);
      for (int32_t &position : at) {
        position = next;
        next += test.positions <= PositionsAre::Shifted  ? 1
                : test.positions == PositionsAre::Sparse ? 1 + int32_t(random() % 1000)
                                                         : 1 + int32_t(random() % 3);
      }
      if (test.positions == PositionsAre::Shuffled)
        std::shuffle(at.begin(), at.end(), random);
      samples.resize(positions.size() + at.size(), int32_t(offsets.size() + random() % 3));
      positions.insert(positions.end(), at.begin(), at.end());
    }
    positions.resize(size_t(test.rows()));
    samples.resize(positions.size());
    samples.insert(samples.end(), positions.begin(), positions.end());
  }

  AttentionArgs args() const {
    AttentionArgs args;
    args.heads = test.heads, args.keyHeads = test.keyHeads, args.rows = test.rows();
    args.depth = test.depth, args.width = test.width;
    args.q = q.input(), args.k = k.input(), args.v = v.input();
    args.segments = int64_t(test.lengths.size()), args.longest = test.longest();
    args.offsets = offsets.data();
    args.positions = test.positions == PositionsAre::Absent ? nullptr : samples.data();
    args.scale = scale();
    args.dropout = test.dropout;
    args.seed = seed;
    args.band = test.band();
    return args;
  }
  float scale() const { return 1 / std::sqrt(float(test.depth)); }
  void run(ThreadPool &pool, const AttentionKernels &kernels) {
    ASSERT_EQ(attentionForwardF32({args(), o.output(), stats.data()}, pool, kernels), -1);
    ASSERT_EQ(attentionBackwardF32(
                  {args(), stats.data(), dO.input(), dQ.output(), dK.output(), dV.output()}, pool,
                  kernels),
              -1);
  }
  std::vector<std::vector<float> *> results() {
    return {&o.data, &stats, &dQ.data, &dK.data, &dV.data};
  }

  /// o, stats, dQ, dK, dV by definition.
  std::vector<std::vector<double>> reference() {
    namespace philox = trainc::train::philox;
    std::vector<std::vector<double>> all;
    for (std::vector<float> *result : results())
      all.emplace_back(result->size());
    auto at = [](const Tensor &tensor, int64_t h, int64_t t) {
      return size_t(h * tensor.head + t * tensor.row);
    };
    const int64_t group = test.heads / test.keyHeads;
    for (size_t g = 0; g < test.lengths.size(); ++g)
      for (int64_t h = 0; h < test.heads; ++h)
        for (int64_t i = offsets[g]; i < offsets[g + 1]; ++i) {
          const AttentionBand band = test.band();
          const int64_t kh = h / group, begin = std::max<int64_t>(offsets[g], i - band.before),
                        end = std::min<int64_t>(offsets[g + 1], i + band.after + 1);
          std::vector<double> p, factor, dP;
          double highest = -INFINITY, sum = 0, dot = 0;
          for (int64_t j = begin; j < end; ++j) {
            double s = 0;
            for (int64_t c = 0; c < test.depth; ++c)
              s += double(q(h, i, c)) * k(kh, j, c);
            p.push_back(s * scale());
            highest = std::max(highest, p.back());
            const int64_t sample =
                test.positions == PositionsAre::Absent ? int64_t(g) : samples[size_t(i)];
            const int64_t index[] = {sample, h, positions[size_t(i)], positions[size_t(j)]};
            const bool kept =
                test.dropout == 0 || philox::elementWord(uint64_t(seed[0]), index, 4) >=
                                         philox::dropoutThreshold(test.dropout);
            factor.push_back(kept ? 1 / (1 - test.dropout) : 0);
          }
          for (double &s : p)
            sum += s = std::exp(s - highest);
          all[1][size_t(i * test.heads + h)] = highest + std::log(sum);
          for (size_t j = 0; j < p.size(); ++j) {
            p[j] /= sum;
            double slope = 0;
            for (int64_t c = 0; c < test.width; ++c) {
              const int64_t key = begin + int64_t(j);
              all[0][at(o, h, i) + size_t(c)] += p[j] * factor[j] * v(kh, key, c);
              all[4][at(dV, kh, key) + size_t(c)] += p[j] * factor[j] * dO(h, i, c);
              slope += double(dO(h, i, c)) * v(kh, key, c);
            }
            dP.push_back(slope * factor[j]);
            dot += p[j] * dP[j];
          }
          for (size_t j = 0; j < p.size(); ++j) {
            const double dS = p[j] * (dP[j] - dot) * scale();
            for (int64_t c = 0; c < test.depth; ++c) {
              all[2][at(dQ, h, i) + size_t(c)] += dS * k(kh, begin + int64_t(j), c);
              all[3][at(dK, kh, begin + int64_t(j)) + size_t(c)] += dS * q(h, i, c);
            }
          }
        }
    return all;
  }

  const Case test;
  Tensor q, k, v, dO, o, dQ, dK, dV;
  std::vector<float> stats;
  /// The second half of `samples` is `positions` once more.
  std::vector<int32_t> offsets, positions, samples;
  const int64_t seed[2] = {0x123456789abcd, 77};
};

std::vector<Case> cases() {
  std::vector<Case> all;
  const std::vector<int64_t> mixed = {37, 1, 128, 0, 65, 5, 2}, small = {7, 16, 0, 1, 33};
  for (bool causal : {false, true}) {
    for (int64_t depth : {8, 32, 64, 80})
      all.push_back({.lengths = mixed, .depth = depth, .width = depth, .causal = causal});
    all.push_back({.lengths = small, .depth = 5, .width = 9, .causal = causal});
    all.push_back({.lengths = mixed, .heads = 6, .keyHeads = 2, .causal = causal});
    all.push_back({.lengths = small, .heads = 4, .keyHeads = 1, .rest = 0, .causal = causal});
    all.push_back({.lengths = mixed, .causal = causal, .headMajor = true});
    all.push_back({.lengths = {512, 700}, .heads = 1, .keyHeads = 1, .causal = causal});
    all.push_back({.lengths = {0, 0}, .causal = causal});
    // Windows within a tile of rows, of several, of more than the longest.
    for (int64_t before : {0, 1, 15, 16, 70, 600})
      for (int64_t after : {0, 1, 33, 1000})
        all.push_back({.lengths = {200, 1, 0, 65},
                       .heads = 2,
                       .keyHeads = 1,
                       .depth = 8,
                       .width = 8,
                       .causal = causal,
                       .before = before,
                       .after = after});
    all.push_back({.lengths = {300}, .rest = 0, .causal = causal, .after = 2});
    for (PositionsAre positions : {PositionsAre::Absent, PositionsAre::Shifted,
                                   PositionsAre::Shuffled, PositionsAre::Sparse})
      all.push_back({.lengths = {70, 5, 133},
                     .depth = 16,
                     .width = 16,
                     .causal = causal,
                     .dropout = 0.2,
                     .positions = positions,
                     .before = 21,
                     .after = 18});
    for (PositionsAre positions :
         {PositionsAre::Absent, PositionsAre::Shifted, PositionsAre::Ascending,
          PositionsAre::Shuffled, PositionsAre::Sparse})
      all.push_back({.lengths = mixed,
                     .heads = 4,
                     .keyHeads = 2,
                     .depth = 16,
                     .width = 16,
                     .causal = causal,
                     .dropout = 0.1,
                     .positions = positions});
  }
  return all;
}

TEST(Attention, AgreesWithItsDefinition) {
  ThreadPool pool(2);
  for (const AttentionKernels *kernels : kernelSets())
    for (const Case &test : cases()) {
      SCOPED_TRACE(std::string(kernels->name) + ", case " + std::to_string(test.lengths.size()) +
                   " segments, depth " + std::to_string(test.depth) + ", heads " +
                   std::to_string(test.heads) + (test.causal ? ", causal" : "") + ", window " +
                   std::to_string(test.before) + " " + std::to_string(test.after) + ", dropout " +
                   std::to_string(test.dropout));
      Problem problem(test);
      problem.run(pool, *kernels);
      const std::vector<std::vector<double>> expected = problem.reference();
      const std::vector<std::vector<float> *> found = problem.results();
      const char *names[] = {"o", "stats", "dQ", "dK", "dV"};
      for (size_t r = 0; r < found.size(); ++r) {
        double worst = 0, largest = 0;
        for (size_t i = 0; i < found[r]->size(); ++i) {
          const double error = std::fabs((*found[r])[i] - expected[r][i]);
          worst = error <= worst ? worst : error; // also takes NaN
          largest = std::max(largest, std::fabs(expected[r][i]));
        }
        EXPECT_LE(worst, 2e-6 * std::max(largest, 1.0)) << names[r];
      }
      // Behind the segments there are zeros, not nearly zeros.
      for (int64_t t = test.used(); t < test.rows(); ++t)
        for (int64_t h = 0; h < test.heads; ++h) {
          EXPECT_EQ(problem.stats[size_t(t * test.heads + h)], 0);
          for (int64_t c = 0; c < test.depth; ++c)
            EXPECT_EQ(problem.dQ(h, t, c), 0);
        }
    }
}

// A bias of the keys moves all scores of a row alike, which its weights do not see: its gradient is
// 0 but for rounding in each element, not for an error that all rows share.
TEST(Attention, GradientsOfARowsScoresAddUpToZero) {
  ThreadPool pool(1);
  for (const AttentionKernels *kernels : kernelSets())
    for (double dropout : {0.0, 0.25}) {
      Case test{{90, 130}};
      test.dropout = dropout;
      Problem problem(test);
      // Far from 0, where what the forward keeps of a row's scores has few digits.
      for (int64_t t = 0; t < test.used(); ++t)
        for (int64_t h = 0; h < test.heads; ++h)
          problem.q(h, t, 0) = problem.k(h, t, 0) = 40;
      problem.run(pool, *kernels);
      for (int64_t h = 0; h < test.heads; ++h)
        for (int64_t c = 0; c < test.depth; ++c) {
          double sum = 0, size = 0;
          for (int64_t t = 0; t < test.used(); ++t) {
            sum += double(problem.dK(h, t, c));
            size += std::abs(double(problem.dK(h, t, c)));
          }
          EXPECT_LE(std::abs(sum), 1e-7 * size) << kernels->name << " " << dropout << " " << c;
        }
    }
}

TEST(Attention, BitsDependOnTheSegmentAlone) {
  ThreadPool one(1), three(3);
  for (const Case &test : cases()) {
    Problem first(test);
    first.run(one, *kernelSets().front());
    for (const AttentionKernels *kernels : kernelSets())
      for (ThreadPool *pool : {&one, &three}) {
        Problem again(test);
        again.run(*pool, *kernels);
        for (size_t r = 0; r < first.results().size(); ++r)
          EXPECT_EQ(std::memcmp(first.results()[r]->data(), again.results()[r]->data(),
                                first.results()[r]->size() * sizeof(float)),
                    0)
              << kernels->name << ", " << pool->size() << " threads";
      }
  }
}

TEST(Attention, OtherSegmentsAndStridesLeaveBitsAlone) {
  ThreadPool pool(2);
  const Case alone = {.lengths = {70}, .rest = 0, .causal = true},
             among = {.lengths = {3, 70, 200}, .rest = 9, .causal = true, .headMajor = true};
  Problem first(alone), second(among);
  auto copy = [&](Tensor &from, Tensor &to, int64_t columns) {
    for (int64_t t = 0; t < 70; ++t)
      for (int64_t h = 0; h < 2; ++h)
        for (int64_t c = 0; c < columns; ++c)
          to(h, t + 3, c) = from(h, t, c);
  };
  copy(first.q, second.q, 32), copy(first.k, second.k, 32), copy(first.v, second.v, 32);
  copy(first.dO, second.dO, 32);
  first.run(pool, *kernelSets().back());
  second.run(pool, *kernelSets().back());
  for (auto [a, b] : {std::pair(&first.o, &second.o),
                      {&first.dQ, &second.dQ},
                      {&first.dK, &second.dK},
                      {&first.dV, &second.dV}})
    for (int64_t t = 0; t < 70; ++t)
      for (int64_t h = 0; h < 2; ++h)
        for (int64_t c = 0; c < 32; ++c)
          ASSERT_EQ((*a)(h, t, c), (*b)(h, t + 3, c));
}

TEST(Attention, NamesTheFirstOffsetThatIsWrong) {
  ThreadPool pool(1);
  auto run = [&](std::vector<int32_t> offsets, int64_t longest) {
    Case test = {.lengths = {4, 4}, .rest = 2};
    Problem problem(test);
    problem.offsets = offsets;
    AttentionArgs args = problem.args();
    args.longest = longest;
    return attentionForwardF32({args, problem.o.output(), nullptr}, pool);
  };
  EXPECT_EQ(run({0, 4, 8}, 4), -1);
  EXPECT_EQ(run({1, 4, 8}, 4), 0);
  EXPECT_EQ(run({0, 5, 4}, 8), 2);
  EXPECT_EQ(run({0, 4, 9}, 4), 2);  // too long
  EXPECT_EQ(run({0, 4, 11}, 9), 2); // behind the rows
  EXPECT_EQ(run({0, -1, 8}, 9), 1);
}

TEST(Attention, ScoresThatAreNotNumbersStayVisible) {
  ThreadPool pool(1);
  for (const AttentionKernels *kernels : kernelSets())
    for (float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      Problem problem({.lengths = {20, 5}, .heads = 1, .keyHeads = 1});
      problem.q(0, 3, 0) = bad;
      problem.run(pool, *kernels);
      EXPECT_TRUE(std::isnan(problem.o(0, 3, 0)));
      EXPECT_FALSE(std::isnan(problem.o(0, 4, 0)));
      EXPECT_FALSE(std::isnan(problem.o(0, 21, 0)));
    }
}

// Scores far apart: weights of exactly 0, none that is not a number.
TEST(Attention, LargeScores) {
  ThreadPool pool(1);
  for (const AttentionKernels *kernels : kernelSets()) {
    Problem problem({.lengths = {40}, .heads = 1, .keyHeads = 1});
    for (float &x : problem.q.data)
      x *= 1e4f;
    problem.run(pool, *kernels);
    const std::vector<double> expected = problem.reference()[0];
    for (int64_t t = 0; t < 40; ++t)
      for (int64_t c = 0; c < 32; ++c) {
        const size_t at = size_t(t * 32 + c);
        EXPECT_NEAR(problem.o.data[at], expected[at], 1e-2);
      }
  }
}

} // namespace
