// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Properties of samplers, over many options: every row once, ranks in step and equally loaded,
// budgets kept, and the same plan again from any position.
#include "io/permutation.h"
#include "session/data/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

using namespace trainrt;

namespace {

using Rows = std::vector<int64_t>;

/// Long-tailed, as lengths of sentences are.
std::vector<int64_t> lengthsOf(int64_t rows, uint64_t seed) {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < rows; ++i) {
    const uint64_t bits = mixBits(seed * 1000003 + uint64_t(i));
    lengths.push_back(1 + int64_t((bits % 60) * ((bits >> 20) % 60)) / 30);
  }
  return lengths;
}

Sampler make(const SamplerOptions &options) {
  Sampler sampler;
  Status status = Sampler::create(options, sampler);
  EXPECT_TRUE(status.ok()) << status.message();
  return sampler;
}

/// [rank][round] of one epoch.
std::vector<std::vector<Rows>> epochOf(SamplerOptions options, int64_t epoch) {
  std::vector<std::vector<Rows>> ranks;
  for (options.rank = 0; options.rank < options.world; ++options.rank) {
    Sampler sampler = make(options);
    sampler.seek({epoch, 0});
    auto &rounds = ranks.emplace_back();
    while (sampler.position().epoch == epoch)
      rounds.push_back(sampler.next());
    EXPECT_EQ(int64_t(rounds.size()), sampler.batches(epoch));
    EXPECT_EQ(sampler.position().epoch, epoch + 1);
    EXPECT_EQ(sampler.position().index, 0);
  }
  return ranks;
}

int64_t longestOf(const SamplerOptions &options, const Rows &rows) {
  int64_t longest = 1;
  for (int64_t row : rows)
    longest = std::max(longest, options.lengths.empty() ? 1 : options.lengths[size_t(row)]);
  const int64_t multiple = options.lengthMultiple;
  return (longest + multiple - 1) / multiple * multiple;
}

/// [round], of the only rank.
std::vector<Rows> roundsOf(const SamplerOptions &options, int64_t epoch) {
  return epochOf(options, epoch)[0];
}

/// A variety of options, none of them special.
std::vector<SamplerOptions> variety() {
  std::vector<SamplerOptions> all;
  for (int64_t rows : {5, 64, 203, 1000})
    for (int64_t world : {1, 3, 4})
      for (int kind = 0; kind < 6; ++kind) {
        SamplerOptions o;
        o.rows = rows;
        o.world = world;
        o.seed = uint64_t(rows * 7 + world);
        o.lengths = lengthsOf(rows, o.seed);
        o.shuffle = kind != 1;
        o.batchSize = kind == 2 ? 0 : kind == 4 ? 1 : 8;
        o.tokensPerBatch = kind == 2 ? 300 : kind == 3 ? 200 : 0;
        o.lengthMultiple = kind == 3 ? 16 : 1;
        o.group = kind == 5 ? 1 : kind == 1 ? 100 : kind == 2 ? 33 : 0;
        o.dropTail = kind == 3;
        all.push_back(std::move(o));
      }
  return all;
}

TEST(Sampler, EveryRowOnceOverAllRanksButForTheTail) {
  for (const SamplerOptions &o : variety())
    for (int64_t epoch : {0, 1, 7}) {
      std::map<int64_t, int> counts;
      for (const auto &rounds : epochOf(o, epoch))
        for (const Rows &rows : rounds)
          for (int64_t row : rows)
            ++counts[row];
      const int64_t rest = o.rows % o.world;
      int64_t total = 0, twice = 0;
      for (auto [row, count] : counts) {
        ASSERT_TRUE(row >= 0 && row < o.rows);
        ASSERT_LE(count, 2);
        total += count;
        twice += count == 2;
      }
      if (o.dropTail) {
        EXPECT_EQ(total, o.rows - rest);
        EXPECT_EQ(twice, 0);
      } else {
        EXPECT_EQ(int64_t(counts.size()), o.rows);
        EXPECT_EQ(twice, rest ? o.world - rest : 0);
      }
    }
}

TEST(Sampler, RanksAreInStep) {
  for (const SamplerOptions &o : variety()) {
    auto ranks = epochOf(o, 2);
    for (const auto &rounds : ranks) {
      ASSERT_EQ(rounds.size(), ranks[0].size());
      for (size_t round = 0; round < rounds.size(); ++round) {
        ASSERT_EQ(rounds[round].size(), ranks[0][round].size());
        ASSERT_FALSE(rounds[round].empty());
      }
    }
  }
}

TEST(Sampler, BatchesKeepWithinTheirBudget) {
  for (const SamplerOptions &o : variety())
    for (const auto &rounds : epochOf(o, 1))
      for (const Rows &rows : rounds) {
        const int64_t unlimited = o.rows * 1000;
        ASSERT_LE(int64_t(rows.size()), o.batchSize ? o.batchSize : unlimited);
        ASSERT_LE(int64_t(rows.size()) * longestOf(o, rows),
                  o.tokensPerBatch ? o.tokensPerBatch : unlimited);
      }
}

TEST(Sampler, BudgetsAreUsed) {
  SamplerOptions o;
  o.rows = 4000;
  o.lengths = lengthsOf(o.rows, 3);
  o.tokensPerBatch = 1024;
  o.shuffle = true;
  auto used = [&] {
    double places = 0, tokens = 0;
    for (const Rows &rows : roundsOf(o, 0)) {
      places += double(rows.size()) * double(longestOf(o, rows));
      for (int64_t row : rows)
        tokens += double(o.lengths[size_t(row)]);
    }
    return std::pair(tokens / places, places / double(make(o).batches(0)));
  };
  auto [density, places] = used();
  EXPECT_GT(density, 0.95); // hardly any padding
  EXPECT_GT(places, 0.93 * 1024);
  o.group = 1;
  EXPECT_LT(used().first, 0.5);
}

/// In each round ranks differ by at most what the rows next to each other in it do.
TEST(Sampler, WorkIsBalancedInEveryRound) {
  for (const SamplerOptions &o : variety()) {
    if (o.world == 1 || o.group == 1)
      continue;
    auto ranks = epochOf(o, 3);
    for (size_t round = 0; round < ranks[0].size(); ++round) {
      std::vector<int64_t> work, all;
      for (const auto &rounds : ranks) {
        work.push_back(0);
        for (int64_t row : rounds[round]) {
          work.back() += o.lengths[size_t(row)];
          all.push_back(o.lengths[size_t(row)]);
        }
      }
      std::sort(all.rbegin(), all.rend());
      int64_t spread = 0;
      for (size_t i = 0; i < all.size(); i += size_t(o.world))
        spread = std::max(spread, all[i] - all[i + size_t(o.world) - 1]);
      auto [least, most] = std::minmax_element(work.begin(), work.end());
      ASSERT_LE(*most - *least, spread);
    }
  }
}

TEST(Sampler, WorkIsBalancedByTheComplexityThatIsGiven) {
  SamplerOptions o;
  o.rows = 2048;
  o.world = 4;
  o.batchSize = 16;
  o.shuffle = true;
  o.lengths = lengthsOf(o.rows, 5);
  for (int64_t length : o.lengths)
    o.complexities.push_back(double(length * length)); // attention
  auto efficiency = [&] {
    auto ranks = epochOf(o, 0);
    double used = 0, spent = 0; // every rank waits for the one with most work
    for (size_t round = 0; round < ranks[0].size(); ++round) {
      double most = 0;
      for (const auto &rounds : ranks) {
        double work = 0;
        for (int64_t row : rounds[round])
          work += o.complexities[size_t(row)];
        used += work;
        most = std::max(most, work);
      }
      spent += most * double(o.world);
    }
    return used / spent;
  };
  EXPECT_GT(efficiency(), 0.995);
  o.group = 1;
  EXPECT_LT(efficiency(), 0.8);
}

TEST(Sampler, ResumesAnywhere) {
  for (SamplerOptions o : variety()) {
    o.rank = o.world - 1;
    Sampler whole = make(o);
    for (int64_t stop = 0, end = std::min<int64_t>(2 * whole.batches(0), 40); stop < end; ++stop) {
      Sampler resumed = make(o);
      resumed.seek(whole.position());
      Sampler copy = whole;
      for (int i = 0; i < 3; ++i)
        ASSERT_EQ(resumed.next(), copy.next());
      whole.next();
    }
  }
}

TEST(Sampler, EpochsAndSeedsDiffer) {
  SamplerOptions o;
  o.rows = 200;
  o.batchSize = 8;
  o.shuffle = true;
  o.lengths = lengthsOf(o.rows, 1);
  auto first = epochOf(o, 1), second = epochOf(o, 2);
  EXPECT_NE(first, second);
  EXPECT_EQ(first, epochOf(o, 1));
  o.seed = 1;
  EXPECT_NE(first, epochOf(o, 1));
}

/// No saw-tooth: neighbours in time are not neighbours in length.
TEST(Sampler, ShuffledRoundsDoNotFollowLength) {
  SamplerOptions o;
  o.rows = 8000;
  o.batchSize = 8;
  o.shuffle = true;
  o.lengths = lengthsOf(o.rows, 9);
  std::vector<double> longest;
  for (const Rows &rows : roundsOf(o, 1))
    longest.push_back(double(longestOf(o, rows)));
  const double mean = std::accumulate(longest.begin(), longest.end(), 0.0) / double(longest.size());
  double variance = 0, covariance = 0;
  for (size_t i = 0; i + 1 < longest.size(); ++i) {
    variance += (longest[i] - mean) * (longest[i] - mean);
    covariance += (longest[i] - mean) * (longest[i + 1] - mean);
  }
  EXPECT_LT(std::abs(covariance / variance), 0.1);
}

TEST(Sampler, TheLargestRoundComesFirst) {
  for (SamplerOptions o : variety()) {
    if (o.group == 1)
      continue;
    auto ranks = epochOf(o, 0);
    auto size = [&](size_t round) {
      int64_t most = 0;
      for (const auto &rounds : ranks)
        most = std::max(most, int64_t(rounds[round].size()) * longestOf(o, rounds[round]));
      return most;
    };
    for (size_t round = 1; round < ranks[0].size(); ++round)
      ASSERT_GE(size(0), size(round));
    int64_t rows = 0, length = 0;
    make(o).largest(rows, length);
    EXPECT_EQ(rows * length, size(0));
  }
}

TEST(Sampler, WithoutShufflingRowsComeAboutInOrder) {
  SamplerOptions o;
  o.rows = 400;
  o.batchSize = 5;
  o.group = 50;
  o.lengths = lengthsOf(o.rows, 2);
  int64_t group = 0;
  for (const Rows &rows : roundsOf(o, 1)) {
    for (int64_t row : rows)
      EXPECT_EQ(row / 50, group / 10);
    ++group;
  }
}

TEST(Sampler, UnsortedSharesFollowTheOrder) {
  SamplerOptions o;
  o.rows = 10;
  o.batchSize = 2;
  o.world = 2;
  o.group = 1;
  EXPECT_EQ(epochOf(o, 0),
            (std::vector<std::vector<Rows>>{{{0, 2}, {4, 6}, {8}}, {{1, 3}, {5, 7}, {9}}}));
  o.fullBatches = true; // ten rows are two and a half rounds
  EXPECT_EQ(epochOf(o, 0),
            (std::vector<std::vector<Rows>>{{{0, 2}, {4, 6}, {8, 0}}, {{1, 3}, {5, 7}, {9, 1}}}));
  o.dropTail = true;
  EXPECT_EQ(epochOf(o, 0), (std::vector<std::vector<Rows>>{{{0, 2}, {4, 6}}, {{1, 3}, {5, 7}}}));
}

/// Pinned: a resumed run must see the plan that an older build began with.
TEST(Sampler, PlansNeverChange) {
  SamplerOptions o;
  o.rows = 12;
  o.lengths = {3, 9, 1, 7, 7, 2, 8, 4, 5, 6, 2, 10};
  o.tokensPerBatch = 20;
  o.shuffle = true;
  o.seed = 42;
  o.world = 2;
  EXPECT_EQ(make(o).hash(), 2026205468537638743u);
  EXPECT_EQ(epochOf(o, 0),
            (std::vector<std::vector<Rows>>{{{11, 3}, {0, 2}, {4, 7}}, {{1, 6}, {10, 5}, {9, 8}}}));
}

TEST(Sampler, HashesAreEqualForAllRanksAndDifferForAllElse) {
  SamplerOptions o;
  o.rows = 20;
  o.batchSize = 4;
  o.world = 2;
  o.lengths = lengthsOf(20, 1);
  const uint64_t hash = make(o).hash();
  SamplerOptions other = o;
  other.rank = 1;
  EXPECT_EQ(make(other).hash(), hash);
  other.seed = 1;
  EXPECT_NE(make(other).hash(), hash);
  other = o;
  ++other.lengths[7];
  EXPECT_NE(make(other).hash(), hash);
  other = o;
  other.complexities.assign(20, 1.0);
  EXPECT_NE(make(other).hash(), hash);
  other = o;
  other.group = 10;
  EXPECT_NE(make(other).hash(), hash);
}

TEST(Sampler, Refuses) {
  auto refused = [](SamplerOptions options, Code code, const std::string &words) {
    Sampler sampler;
    Status status = Sampler::create(std::move(options), sampler);
    EXPECT_EQ(status.code(), code);
    EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
  };
  SamplerOptions good;
  good.rows = 3;
  good.batchSize = 2;
  SamplerOptions o = good;
  o.rows = 0;
  refused(o, Code::InvalidArgument, "rows: 0; there must be one");
  o = good;
  o.group = -1;
  refused(o, Code::InvalidArgument,
          "batch_size, tokens_per_batch, group and together must not be negative, length_multiple "
          "must be "
          "above 0");
  o = good;
  o.batchSize = 0;
  refused(o, Code::InvalidArgument, "batch_size or tokens_per_batch must be given");
  o = good;
  o.rank = 1;
  refused(o, Code::InvalidArgument, "rank 1 is none of 1");
  o = good;
  o.world = 4;
  refused(o, Code::BadData, "3 rows are too few for 4 ranks; use fewer");
  o = good;
  o.fullBatches = o.dropTail = true;
  o.world = 2;
  refused(o, Code::BadData, "too few for one batch of 2 for each of 2 ranks");
  o.tokensPerBatch = 10;
  refused(o, Code::InvalidArgument, "full batches");
  o = good;
  o.tokensPerBatch = 10;
  o.lengths = {4, 11, 2};
  refused(o, Code::BadData, "row 1 needs 11 token positions, more than the 10 of a batch");
  o.lengths = {4, 9, 2};
  o.lengthMultiple = 8;
  refused(o, Code::BadData, "row 1 needs 16 token positions");
  o = good;
  o.complexities = {1, 2, NAN};
  refused(o, Code::BadData, "row 2: complexity nan");
  o = good;
  o.lengths = {1, -1, 1};
  refused(o, Code::BadData, "row 1: length -1");
}

} // namespace

TEST(Sampler, PutsBatchesOfEqualCostTogether) {
  SamplerOptions options;
  options.rows = 5000;
  options.lengths = lengthsOf(options.rows, 7);
  options.batchSize = 8;
  for (bool shuffle : {false, true})
    for (int64_t budget : {0, 400}) {
      options.shuffle = shuffle;
      options.tokensPerBatch = budget;
      options.together = 1;
      std::vector<Rows> single = epochOf(options, 1)[0];
      const uint64_t hash = make(options).hash();
      options.together = 4;
      const std::vector<Rows> four = epochOf(options, 1)[0];
      EXPECT_NE(make(options).hash(), hash);
      // Of a step of four ranks: what all of them wait for, and what they do.
      auto waited = [&](const std::vector<Rows> &rounds) {
        double sum = 0, most = 0;
        for (size_t i = 0; i + 4 <= rounds.size(); i += 4) {
          int64_t longest = 0;
          for (size_t j = i; j < i + 4; ++j) {
            const int64_t work = int64_t(rounds[j].size()) * longestOf(options, rounds[j]);
            longest = std::max(longest, work);
            sum += double(work);
          }
          most += 4 * double(longest);
        }
        return most / sum;
      };
      EXPECT_LT(waited(four), 1.15);
      EXPECT_GT(waited(single), budget ? 1.2 : 1.3);
      // The same batches in another order.
      std::vector<Rows> sorted = four;
      std::sort(sorted.begin(), sorted.end());
      std::sort(single.begin(), single.end());
      EXPECT_EQ(sorted, single);
    }
  options.together = -1;
  Sampler sampler;
  EXPECT_EQ(Sampler::create(options, sampler).code(), Code::InvalidArgument);
}
