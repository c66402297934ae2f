// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sessions that are ranks: their steps are those of one session with all micro-batches.

#include "session/ranks/rank_group.h"
#include "tiny_package.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace trainrt;
using namespace trainrt::test;

namespace {

struct Tiny {
  explicit Tiny(const TinyOptions &options = distributedTiny()) {
    writeTinyPackage(folder / "m.tpk", options);
    EXPECT_TRUE(Package::open(folder / "m.tpk", package).ok());
    settings.threads = 2;
  }
  Status emulate(int world) { return RankGroup::create(package, settings, world, first, group); }
  Status alone() { return Session::create(package, settings, first); }
  Status step(const std::vector<Batch> &batches, const StepOptions &options, StepResult &result) {
    return group ? group->step(*first, batches, options, result)
                 : first->step(batches, options, result);
  }
  /// Parameters and state.
  std::vector<unsigned char> values() {
    std::vector<unsigned char> all;
    for (size_t i = 0; i < package->program().parameters.size(); ++i) {
      ArrayView array;
      EXPECT_TRUE(first->parameter(i, array).ok());
      const auto *begin = static_cast<const unsigned char *>(array.data);
      all.insert(all.end(), begin, begin + array.bytes);
    }
    for (size_t i = 0; i < package->program().state.size(); ++i) {
      ArrayView array;
      EXPECT_TRUE(first->state(i, array).ok());
      const auto *begin = static_cast<const unsigned char *>(array.data);
      all.insert(all.end(), begin, begin + array.bytes);
    }
    return all;
  }

  TemporaryFolder folder;
  std::shared_ptr<const Package> package;
  SessionOptions settings;
  std::unique_ptr<Session> first;
  std::unique_ptr<RankGroup> group;
};

} // namespace

TEST(SessionRanks, MakeTheStepsOfOne) {
  const TinyBatch batches[4] = {TinyBatch(6), TinyBatch(3, 2), TinyBatch(5, 3), TinyBatch(4, 4)};
  for (AccumulateBy by : {AccumulateBy::Mean, AccumulateBy::Rows})
    for (size_t count : {1, 2, 3, 4}) {
      Tiny one, ranks;
      ASSERT_TRUE(one.alone().ok());
      ASSERT_TRUE(ranks.emulate(4).ok());
      EXPECT_EQ(ranks.group->world(), 4);
      std::vector<Batch> all;
      for (size_t i = 0; i < count; ++i)
        all.push_back(batches[i].batch());
      StepOptions options;
      options.accumulateBy = by;
      for (int step = 1; step <= 3; ++step) {
        StepResult expected, found;
        const Status status = ranks.step(all, options, found);
        ASSERT_TRUE(status.ok()) << status.message();
        ASSERT_TRUE(one.step(all, options, expected).ok());
        EXPECT_EQ(found.step, step);
        EXPECT_EQ(found.loss, expected.loss);
        EXPECT_EQ(ranks.values(), one.values()) << count << " batches";
      }
    }
}

TEST(SessionRanks, FollowWhatACallerSets) {
  Tiny one, ranks;
  ASSERT_TRUE(one.alone().ok());
  ASSERT_TRUE(ranks.emulate(2).ok());
  const TinyBatch a(4), b(4, 2);
  const float w[3] = {1, 2, 3}, momentum[3] = {0.5f, 0.25f, 0};
  for (Tiny *tiny : {&one, &ranks}) {
    ASSERT_TRUE(tiny->first->setParameter(0, {w, DType::F32, {3}, 12}).ok());
    ASSERT_TRUE(tiny->first->setState(0, {momentum, DType::F32, {3}, 12}).ok());
    tiny->first->restored(7, 3);
    StepResult result;
    ASSERT_TRUE(tiny->step({a.batch(), b.batch()}, {}, result).ok());
    EXPECT_EQ(result.step, 8);
  }
  EXPECT_EQ(ranks.values(), one.values());
}

TEST(SessionRanks, GiveFactorsAndTellOfTheStepBefore) {
  Tiny one, ranks;
  ASSERT_TRUE(one.alone().ok());
  ASSERT_TRUE(ranks.emulate(2).ok());
  const TinyBatch a(4), b(2, 2);
  const double weights[2] = {0.75, 0.5};
  StepOptions options;
  options.weights = weights;
  StepResult expected, found;
  ASSERT_TRUE(one.step({a.batch(), b.batch()}, options, expected).ok());
  options.lag = true;
  ASSERT_TRUE(ranks.step({a.batch(), b.batch()}, options, found).ok());
  EXPECT_EQ(found.step, 0);
  ASSERT_TRUE(ranks.first->finish(found).ok());
  EXPECT_EQ(found.step, 1);
  EXPECT_EQ(found.loss, expected.loss);
  EXPECT_EQ(ranks.values(), one.values());
  const double wrong[2] = {0.75, INFINITY};
  options.weights = wrong;
  const Status status = ranks.step({a.batch(), b.batch()}, options, found);
  EXPECT_EQ(status.message().find("rank 1: weights[0]: inf is no factor of a loss"), 0u)
      << status.message();
}

TEST(SessionRanks, AreAllToldWhatOneCannotDo) {
  Tiny ranks;
  ASSERT_TRUE(ranks.emulate(2).ok());
  const TinyBatch good(4);
  TinyBatch bad(4, 2);
  bad.id[1] = 99;
  const std::vector<unsigned char> before = ranks.values();
  StepResult result;
  Status status = ranks.step({good.batch(), bad.batch()}, {}, result);
  EXPECT_EQ(status.code(), Code::BadData);
  EXPECT_EQ(status.message().find("rank 1: "), 0u) << status.message();
  EXPECT_EQ(ranks.values(), before);
  status = ranks.step({}, {}, result);
  EXPECT_EQ(status.message(), "a step needs at least one batch on some rank");
  ranks.first->cancel();
  status = ranks.step({good.batch(), good.batch()}, {}, result);
  EXPECT_EQ(status.code(), Code::Cancelled);
  bad.id[1] = 1;
  bad.x[0] = NAN;
  status = ranks.step({good.batch(), bad.batch()}, {}, result);
  EXPECT_EQ(status.code(), Code::Nonfinite);
  EXPECT_EQ(ranks.values(), before);
  StepOptions options;
  options.allowNonfinite = options.last = true;
  ASSERT_TRUE(ranks.step({good.batch(), bad.batch()}, options, result).ok());
  EXPECT_TRUE(result.nonfinite && result.last);
  ASSERT_TRUE(ranks.step({good.batch(), good.batch()}, {}, result).ok());
  EXPECT_FALSE(result.last);
  EXPECT_NE(ranks.values(), before);
}

TEST(SessionRanks, AreRefused) {
  Tiny ranks;
  for (int world : {0, -1, 65}) {
    const Status status = ranks.emulate(world);
    EXPECT_NE(status.message().find("ranks cannot be emulated: there may be 1 to 64"),
              std::string::npos);
  }
  ASSERT_TRUE(ranks.emulate(2).ok());
  const TinyBatch batch(4);
  StepResult result;
  const Status status = ranks.first->gradients({batch.batch()}, {}, result);
  EXPECT_NE(status.message().find("gradients without an update are for one rank: ranks exchange "
                                  "theirs within the update"),
            std::string::npos);
  Tiny alone{TinyOptions()};
  EXPECT_NE(alone.emulate(2).message().find(
                "the package is for one rank, not for 2; compile it with --distribute data"),
            std::string::npos);
  EXPECT_TRUE(alone.emulate(1).ok());
  ASSERT_TRUE(alone.step({batch.batch()}, {}, result).ok());
}
