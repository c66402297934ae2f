// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks on GPUs begin a step before the one before it has ended, and tell each other of both in
// between: whatever becomes of one, the values are those of ranks that wait.

#include "cuda_ranks_fixture.h"
#include "session/ranks/rank_group.h"

namespace {

class RanksThatLag : public CudaRanks {
protected:
  void SetUp() override {
    CudaRanks::SetUp();
    TinyOptions unchecked = togetherTiny();
    unchecked.valueRule = false; // only the kernel meets bad indices
    open(unchecked);
    lag.lag = true;
  }
  static TinyBatch bad(unsigned seed) {
    TinyBatch batch(4, seed);
    batch.x[1] = NAN;
    return batch;
  }
  static TinyBatch wrong() {
    TinyBatch batch(4, 2);
    batch.id[1] = 9;
    return batch;
  }
  /// Steps with these batches of a rank, the last one finished. The results in their order.
  static Status steps(Session &session, const std::vector<TinyBatch> &list,
                      const StepOptions &options, std::vector<StepResult> &results) {
    StepResult result;
    for (const TinyBatch &batch : list) {
      TRAINRT_TRY(session.step({batch.batch()}, options, result));
      if (result.step)
        results.push_back(result);
    }
    if (!options.lag)
      return {};
    TRAINRT_TRY(session.finish(result));
    results.push_back(result);
    return {};
  }

  StepOptions lag;
};

TEST_F(RanksThatLag, MakeTheStepsOfOne) {
  const Bytes expected = alone(firstBatches(2), 4);
  const std::vector<Rank> ranks = run(2, [this](Session &session, int rank) {
    StepResult result;
    for (int step = 0; step < 4; ++step) {
      TRAINRT_TRY(session.step({batches[rank].batch()}, lag, result));
      EXPECT_EQ(result.step, step);
      EXPECT_EQ(session.stepCount(), step);
    }
    TRAINRT_TRY(session.finish(result));
    EXPECT_EQ(result.step, 4);
    return Status();
  });
  for (const Rank &rank : ranks) {
    ASSERT_TRUE(rank.status.ok()) << rank.status.message();
    EXPECT_EQ(rank.steps, 4);
    EXPECT_EQ(rank.values, expected);
  }
}

TEST_F(RanksThatLag, BeginAStepBeforeTheLastOneHasEnded) {
  nccl->stuckGroup = 4; // one to connect; the gradient of the first step
  const std::vector<Rank> ranks = run(2, [this](Session &session, int rank) {
    StepResult result;
    const Status first = session.step({batches[rank].batch()}, lag, result);
    EXPECT_TRUE(first.ok()) << first.message();
    EXPECT_EQ(result.step, 0);
    return session.step({batches[rank].batch()}, lag, result);
  });
  expectLost(ranks, "step 1: exchange of the gradient of parameter 'w': the others have not come "
                    "within 1 s");
}

TEST_F(RanksThatLag, LeaveOutWhatIsNotFinite) {
  std::vector<TinyBatch> lists[2];
  for (unsigned i = 0; i < 6; ++i) {
    lists[0].push_back(TinyBatch(6, i));
    // Once alone, once twice in turn, and the last one.
    lists[1].push_back(i == 1 || i == 3 || i == 4 ? bad(i) : TinyBatch(3, 10 + i));
  }
  lists[0].push_back(bad(6));
  lists[1].push_back(TinyBatch(3, 16));
  StepOptions allow;
  allow.allowNonfinite = lag.allowNonfinite = true;
  std::vector<StepResult> results[2][2];
  std::vector<Rank> ranks[2];
  for (const bool lags : {false, true})
    ranks[lags] = run(2, [&](Session &session, int rank) {
      return steps(session, lists[rank], lags ? lag : allow, results[lags][rank]);
    });
  for (int rank = 0; rank < 2; ++rank) {
    ASSERT_TRUE(ranks[1][rank].status.ok()) << ranks[1][rank].status.message();
    EXPECT_EQ(ranks[1][rank].values, ranks[0][rank].values);
    EXPECT_EQ(ranks[1][rank].steps, 7);
    ASSERT_EQ(results[1][rank].size(), results[0][rank].size());
    for (size_t i = 0; i < results[0][rank].size(); ++i) {
      EXPECT_EQ(results[1][rank][i].step, int64_t(i + 1));
      EXPECT_EQ(results[1][rank][i].nonfinite, results[0][rank][i].nonfinite) << i;
      if (!results[0][rank][i].nonfinite)
        EXPECT_EQ(results[1][rank][i].loss, results[0][rank][i].loss) << i;
    }
  }
}

TEST_F(RanksThatLag, HaveTheStateBeforeAStepThatIsNotFinite) {
  const Bytes expected = alone(firstBatches(2), 1);
  const std::vector<Rank> ranks = run(2, [this](Session &session, int rank) {
    StepResult result;
    TRAINRT_TRY(session.step({batches[rank].batch()}, lag, result));
    TRAINRT_TRY(session.step({(rank ? bad(1) : batches[0]).batch()}, lag, result));
    const Status status = session.step({batches[rank].batch()}, lag, result);
    EXPECT_EQ(status.code(), Code::Nonfinite) << status.message();
    EXPECT_EQ(result.step, 2);
    return session.finish(result);
  });
  for (const Rank &rank : ranks) {
    ASSERT_TRUE(rank.status.ok()) << rank.status.message();
    EXPECT_EQ(rank.steps, 1);
    EXPECT_EQ(rank.values, expected);
  }
}

TEST_F(RanksThatLag, TellOfBadIndicesThatAKernelMeets) {
  const Bytes expected = alone(firstBatches(2), 2);
  const std::vector<Rank> ranks = run(2, [this](Session &session, int rank) {
    StepResult result;
    TRAINRT_TRY(session.step({batches[rank].batch()}, lag, result));
    TRAINRT_TRY(session.step({(rank ? wrong() : batches[0]).batch()}, lag, result));
    const Status status = session.step({batches[rank].batch()}, lag, result);
    EXPECT_EQ(status.code(), Code::BadData);
    EXPECT_EQ(status.message(), "rank 1: node '/model/Gather': index 9 at position 1 of its "
                                "indices is out of range");
    TRAINRT_TRY(session.finish(result));
    EXPECT_EQ(result.step, 0);
    // Neither that step nor the one behind it has happened.
    return session.step({batches[rank].batch()}, {}, result);
  });
  for (const Rank &rank : ranks) {
    ASSERT_TRUE(rank.status.ok()) << rank.status.message();
    EXPECT_EQ(rank.steps, 2);
    EXPECT_EQ(rank.values, expected);
  }
}

TEST_F(RanksThatLag, MakeAStepAgainWhoseBadIndexOnlyOneHasMet) {
  lag.allowNonfinite = true;
  const Bytes expected = alone(firstBatches(2), 2);
  const std::vector<Rank> ranks = run(2, [this](Session &session, int rank) {
    StepResult result;
    TRAINRT_TRY(session.step({batches[rank].batch()}, lag, result));
    TRAINRT_TRY(session.step({(rank ? bad(1) : batches[0]).batch()}, lag, result));
    // Begun, left out by the flag, and begun again.
    TRAINRT_TRY(session.step({(rank ? wrong() : batches[0]).batch()}, lag, result));
    EXPECT_EQ(result.step, 2);
    EXPECT_TRUE(result.nonfinite);
    const Status status = session.finish(result);
    EXPECT_EQ(status.code(), Code::BadData) << status.message();
    return session.step({batches[rank].batch()}, {}, result);
  });
  for (const Rank &rank : ranks) {
    ASSERT_TRUE(rank.status.ok()) << rank.status.message();
    EXPECT_EQ(rank.values, expected);
  }
}

TEST_F(RanksThatLag, RefuseABatchBehindAStepUnderWay) {
  const Bytes expected = alone(firstBatches(2), 1);
  const std::vector<Rank> ranks = run(2, [this](Session &session, int rank) {
    StepResult result;
    TRAINRT_TRY(session.step({batches[rank].batch()}, lag, result));
    Batch odd = batches[rank].batch();
    if (rank)
      odd.pop_back();
    const Status status = session.step({odd}, lag, result);
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(status.message().substr(0, 7), "rank 1:") << status.message();
    TRAINRT_TRY(session.finish(result));
    EXPECT_EQ(result.step, 1);
    return Status();
  });
  for (const Rank &rank : ranks) {
    ASSERT_TRUE(rank.status.ok()) << rank.status.message();
    EXPECT_EQ(rank.values, expected);
  }
}

TEST_F(RanksThatLag, WaitWhereOneHasSeveralMicroBatches) {
  // The order of all ranks' micro-batches.
  std::unique_ptr<Session> one = make();
  StepResult result;
  ASSERT_TRUE(one->step(firstBatches(2), {}, result).ok());
  ASSERT_TRUE(one->step(firstBatches(3), {}, result).ok());
  ASSERT_TRUE(one->step(firstBatches(2), {}, result).ok());
  const Bytes expected = valuesOf(*one);
  const std::vector<Rank> ranks = run(2, [this](Session &session, int rank) {
    StepResult result;
    const std::vector<Batch> several = {batches[1].batch(), batches[2].batch()};
    TRAINRT_TRY(session.step({batches[rank].batch()}, lag, result));
    TRAINRT_TRY(session.step(rank ? several : firstBatches(1), lag, result));
    EXPECT_EQ(result.step, 1);
    TRAINRT_TRY(session.step({batches[rank].batch()}, lag, result));
    EXPECT_EQ(result.step, 2);
    return session.finish(result);
  });
  for (const Rank &rank : ranks) {
    ASSERT_TRUE(rank.status.ok()) << rank.status.message();
    EXPECT_EQ(rank.steps, 3);
    EXPECT_EQ(rank.values, expected);
  }
}

TEST_F(RanksThatLag, WaitForALostExchangeNoLongerWhereMemoryGrows) {
  nccl->stuckGroup = 4; // the gradient of the first step
  const TinyBatch large(500);
  const std::vector<Rank> ranks = run(2, [&](Session &session, int rank) {
    StepResult result;
    TRAINRT_TRY(session.step({batches[rank].batch()}, lag, result));
    EXPECT_EQ(session.step({large.batch()}, lag, result).code(), Code::RankLost);
    return session.finish(result);
  });
  expectLost(ranks, "step 1: exchange of the gradient of parameter 'w': the others have not come "
                    "within 1 s");
}

TEST_F(RanksThatLag, LeaveNoStepUnderWayWhereOneSessionIsCalled) {
  SessionOptions options;
  options.threads = 1;
  std::unique_ptr<Session> first;
  std::unique_ptr<RankGroup> group;
  ASSERT_TRUE(RankGroup::create(package, options, 2, first, group).ok());
  StepResult result;
  for (int step = 0; step < 3; ++step) {
    ASSERT_TRUE(group->step(*first, firstBatches(2), lag, result).ok());
    EXPECT_EQ(result.step, step);
  }
  ASSERT_TRUE(first->finish(result).ok());
  EXPECT_EQ(result.step, 3);
  const Bytes expected = alone(firstBatches(2), 3);
  EXPECT_EQ(valuesOf(*first), expected);
  // What has failed is told by the next call, which all ranks leave out.
  const TinyBatch nan = bad(1);
  ASSERT_TRUE(group->step(*first, {batches[0].batch(), nan.batch()}, lag, result).ok());
  EXPECT_EQ(group->step(*first, firstBatches(2), lag, result).code(), Code::Nonfinite);
  EXPECT_EQ(result.step, 4);
  EXPECT_EQ(valuesOf(*first), expected);
  ASSERT_TRUE(group->step(*first, firstBatches(2), lag, result).ok());
  ASSERT_TRUE(first->finish(result).ok());
  EXPECT_EQ(result.step, 4);
  EXPECT_EQ(valuesOf(*first), alone(firstBatches(2), 4));
}

TEST_F(RanksThatLag, KnowAtOnceThatOneEnds) {
  const std::vector<Rank> ranks = run(2, [this](Session &session, int rank) {
    StepResult result;
    TRAINRT_TRY(session.step({batches[rank].batch()}, lag, result));
    EXPECT_FALSE(result.last);
    StepOptions last = lag;
    last.last = rank == 1;
    TRAINRT_TRY(session.step({batches[rank].batch()}, last, result));
    EXPECT_TRUE(result.last);
    return session.finish(result);
  });
  for (const Rank &rank : ranks)
    EXPECT_TRUE(rank.status.ok()) << rank.status.message();
}

} // namespace
