// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks on GPUs that are emulated: as threads on one of them, and through a fake NCCL. Their steps
// are those of one session with all micro-batches; where one does not come, all end.

#include "cuda_ranks_fixture.h"
#include "session/estimate.h"
#include "session/ranks/rank_group.h"

#include <climits>

TEST_F(CudaRanks, OnOneGpuMakeTheStepsOfOne) {
  for (int world : {2, 3, 4}) {
    const Bytes expected = alone(firstBatches(world), 3);
    std::unique_ptr<Session> first;
    std::unique_ptr<RankGroup> group;
    SessionOptions options;
    options.threads = 1;
    ASSERT_TRUE(RankGroup::create(package, options, world, first, group).ok());
    const int64_t before = first->memory().scratch;
    StepResult result;
    for (int step = 0; step < 3; ++step) {
      Status status = group->step(*first, firstBatches(world), {}, result);
      ASSERT_TRUE(status.ok()) << status.message();
    }
    EXPECT_EQ(valuesOf(*first), expected) << world << " ranks";
    // A few floats of each other rank.
    EXPECT_EQ(first->memory().scratch - before, (world - 1) * 256);
    MemoryUse one, several;
    ASSERT_TRUE(estimateMemory(*package, {6}, 2, 1, one).ok());
    ASSERT_TRUE(estimateMemory(*package, {6}, 2, 1, several, false, world).ok());
    EXPECT_EQ(first->memory().scratch - before, several.scratch - one.scratch);
  }
  EXPECT_EQ(nccl->groups, 0);
}

TEST_F(CudaRanks, AddUpInTheirOrder) { expectSumsOfAnySize(false); }
TEST_F(CudaRanks, CutSumsIntoShardsAndGatherThem) { expectShardsOfAnySize(false); }
TEST_F(CudaRanks, GatherBytesOfAnyType) { expectBytesOfAnyType(false); }
TEST_F(CudaRanks, AddUpNarrowNumbersInF32) { expectNarrowOfAnySize(false, true); }
TEST_F(CudaRanks, ShareReplicas) { expectShardsOfReplicas(false); }

TEST_F(CudaRanks, EndWhereOthersGatherOtherSizes) {
  std::string said[2];
  unsigned char own[2][4] = {}, whole[2][8]; // what is enqueued may come to them later
  exchangeTogether(
      2, 0,
      [&](ExchangeOfOne &one) {
        const int rank = one.exchange.rank();
        const CutSize size = rank ? CutSize{8, 4} : CutSize{6, 3};
        const cuda::RankExchange::Tensor tensor{addressOf(whole[rank]), addressOf(own[rank]), size};
        ASSERT_TRUE(one.done[0].create(one.context, 0).ok());
        const Status status =
            one.exchange.run(Kind::AllGather, DType::U8, {&tensor, 1}, one.done[0], one.stream);
        EXPECT_EQ(status.code(), Code::RankLost);
        said[rank] = status.message();
      },
      false);
  EXPECT_NE((said[0] + said[1]).find(" sends other pieces than rank "), std::string::npos)
      << said[0] << "\n"
      << said[1];
}

TEST_F(CudaRanks, OneAloneExchangesNothing) {
  const Bytes expected = alone(firstBatches(2), 2);
  const int launches = fake->launches, captures = fake->captures;
  fake->launches = fake->captures = 0;
  // As if it were one of several: the same bits.
  setenv("TRAINRT_EXCHANGE", "always", 1);
  EXPECT_EQ(alone(firstBatches(2), 2), expected);
  EXPECT_EQ(fake->captures, captures);
  EXPECT_EQ(fake->launches, launches + 2); // the sums
  EXPECT_EQ(nccl->finalized, 1);
  EXPECT_EQ(nccl->destroyed, 1);
}

TEST_F(CudaRanks, ThroughNcclMakeTheStepsOfOne) {
  for (int world : {2, 3}) {
    nccl->finalized = nccl->destroyed = 0;
    expectStepsOfOne(world);
    EXPECT_EQ(nccl->destroyed, 3 * world);
  }
  EXPECT_EQ(nccl->sums, 0);
  EXPECT_EQ(nccl->aborted, 0);
  EXPECT_STREQ(getenv("NCCL_NVLS_ENABLE"), "0");
}

TEST_F(CudaRanks, MayHaveTheSumsOfNccl) {
  const std::vector<Rank> ranks = run(3, stepping(2), true);
  for (const Rank &rank : ranks) {
    ASSERT_TRUE(rank.status.ok()) << rank.status.message();
    EXPECT_EQ(rank.values, ranks[0].values);
  }
  EXPECT_EQ(nccl->sums, 2 * 3 + 2 * 3); // two each to connect
  EXPECT_EQ(nccl->pieces, nccl->sums + 3 * 2 * 2);
}

TEST_F(CudaRanks, LetNcclAddUpNarrowNumbersInF32) {
  constexpr int world = 3;
  constexpr int64_t size = 1001, shard = 334;
  const SumTypes types(DType::BF16, DType::F32);
  const std::vector<int64_t> shards = {shard};
  exchangeTogether(
      world, ExchangeWork::ofSumsInShards(types.bytes(), shards, world).deviceStaging(),
      [&](ExchangeOfOne &one) {
        const int rank = one.exchange.rank();
        const std::vector<BFloat16> values = narrowNumbers<BFloat16>(rank, 0, size);
        std::vector<float> sums(size, 7), own(shard, 7);
        const auto whole = one.exchange.reduced(DType::F32, addressOf(values.data()),
                                                addressOf(sums.data()), size);
        const cuda::RankExchange::Tensor cut{
            addressOf(values.data()), addressOf(own.data()), {size, shard}};
        one.run(Kind::AllReduce, types, {&whole, 1});
        one.run(Kind::ReduceScatter, types, {&cut, 1});
        one.finish();
        int64_t wrong = 0;
        for (int64_t i = 0; i < size; ++i) {
          float sum = 0; // as the fake one adds up
          for (int other = world; other-- > 0;)
            sum += float(narrowNumber<BFloat16>(other, 0, i));
          wrong += sums[size_t(i)] != sum;
        }
        // Shards are ours, in any case.
        for (int64_t i = 0; i < shard; ++i)
          wrong += own[size_t(i)] !=
                   (rank * shard + i < size ? narrowSum<BFloat16>(world, 0, rank * shard + i) : 0);
        EXPECT_EQ(wrong, 0) << rank;
      },
      true, 0, /*vendorSums=*/true);
  EXPECT_GT(nccl->sums, 0);
}

TEST_F(CudaRanks, OneAloneWidens) {
  // The gradient becomes what its first bytes are as bf16.
  const auto narrowTiny = [](fb::DType type) {
    TinyOptions options = distributedTiny();
    options.editProgram = [edit = options.editProgram, type](fb::ProgramT &program) {
      edit(program);
      auto constant = [&](int64_t value) {
        program.exprs.push_back({fb::ExprKind::constant, 0, 0, value});
        return uint32_t(program.exprs.size() - 1);
      };
      for (auto &function : program.functions) {
        if (function->name != "update")
          continue;
        auto buffer = std::make_unique<fb::BufferT>();
        buffer->space = fb::Space::arena;
        buffer->bytes = constant(12);
        buffer->last = 2;
        const auto wide = uint32_t(function->buffers.size()), zero = constant(0);
        function->buffers.push_back(std::move(buffer));
        const uint32_t elements = function->commands[0]->sizes[0];
        auto sum = std::make_unique<fb::CommandT>(), copy = std::make_unique<fb::CommandT>();
        fb::CollectiveT body;
        body.kind = fb::CollectiveKind::all_reduce;
        body.dtype = fb::DType::f32;
        body.sent = type;
        sum->op.Set(std::move(body));
        sum->operands = {{2, zero, fb::Access::read}, {wide, zero, fb::Access::write}};
        sum->sizes = {elements, elements};
        copy->op.Set(fb::CopyT());
        copy->operands = {{wide, zero, fb::Access::read}, {2, zero, fb::Access::write}};
        copy->sizes = {constant(12)};
        function->commands.insert(function->commands.begin(), std::move(copy));
        function->commands.insert(function->commands.begin(), std::move(sum));
      }
    };
    return options;
  };
  const Bytes plain = alone(firstBatches(2), 1);
  for (const fb::DType type : {fb::DType::bf16, fb::DType::f16}) {
    open(narrowTiny(type));
    unsetenv("TRAINRT_EXCHANGE");
    const Bytes widened = alone(firstBatches(2), 1);
    EXPECT_NE(widened, plain);
    // As what one adds up with itself.
    setenv("TRAINRT_EXCHANGE", "always", 1);
    EXPECT_EQ(alone(firstBatches(2), 1), widened);
  }
}

TEST_F(CudaRanks, ExchangeBesideOtherCommands) {
  for (bool needed : {true, false}) {
    open(overlappingTiny(needed));
    const Bytes expected = alone(firstBatches(2), 3);
    int captures[2] = {};
    for (bool isInline : {false, true}) {
      setenv("TRAINRT_EXCHANGE", isInline ? "inline" : "", 1);
      fake->captures = 0;
      SessionOptions options;
      for (bool synchronous : {false, true}) {
        options.synchronous = synchronous;
        for (const Rank &rank : run(2, stepping(3), false, options)) {
          ASSERT_TRUE(rank.status.ok()) << rank.status.message();
          EXPECT_EQ(rank.values, expected);
        }
      }
      captures[isInline] = fake->captures;
      EXPECT_EQ(nccl->mostCTAs, isInline ? INT_MIN : 16);
    }
    // `micro` is cut where a command waits, too: of each rank, for two turns.
    EXPECT_EQ(captures[0], captures[1] + (needed ? 2 * 2 : 0));
  }
  EXPECT_EQ(nccl->aborted, 0);
}

TEST_F(CudaRanks, ExchangeBesideOtherCommandsOnOneGpu) {
  open(overlappingTiny());
  const Bytes expected = alone(firstBatches(3), 2);
  std::unique_ptr<Session> first;
  std::unique_ptr<RankGroup> group;
  SessionOptions options;
  options.threads = 1;
  ASSERT_TRUE(RankGroup::create(package, options, 3, first, group).ok());
  StepResult result;
  for (int step = 0; step < 2; ++step) {
    const Status status = group->step(*first, firstBatches(3), {}, result);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  EXPECT_EQ(valuesOf(*first), expected);
}

TEST_F(CudaRanks, ExchangeInTheLastMicroBatch) {
  open(overlappingTiny());
  constexpr int steps = 2;
  auto body = [this](int rankWithout) {
    return [this, rankWithout](Session &session, int rank) {
      StepResult result;
      for (int step = 0; step < steps; ++step)
        TRAINRT_TRY(
            session.step(rank == rankWithout ? std::vector<Batch>{} : firstBatches(2), {}, result));
      return Status();
    };
  };
  // One to connect; the pieces and the sums of a step.
  const int groups = 2 * (1 + 2 * steps);
  for (bool synchronous : {false, true}) {
    SessionOptions options;
    options.synchronous = synchronous;
    nccl->groups = 0;
    std::vector<Rank> ranks = run(2, body(-1), false, options);
    ASSERT_TRUE(ranks[0].status.ok()) << ranks[0].status.message();
    EXPECT_EQ(ranks[0].values, ranks[1].values);
    EXPECT_EQ(nccl->groups, groups);
    // A rank without any takes part in it.
    nccl->groups = 0;
    ranks = run(2, body(1), false, options);
    ASSERT_TRUE(ranks[0].status.ok()) << ranks[0].status.message();
    EXPECT_EQ(ranks[0].values, alone(firstBatches(2), steps));
    EXPECT_EQ(ranks[1].values, ranks[0].values);
    EXPECT_EQ(nccl->groups, groups);
  }
  // As if one were several.
  nccl->groups = 0;
  const Bytes expected = alone(firstBatches(3), steps);
  EXPECT_EQ(nccl->groups, 0);
  const int launches = fake->launches;
  setenv("TRAINRT_EXCHANGE", "always", 1);
  EXPECT_EQ(alone(firstBatches(3), steps), expected);
  EXPECT_GE(fake->launches, launches + steps);
}

TEST_F(CudaRanks, MakeStepsThatAreOneFunction) {
  open(togetherTiny());
  for (int world : {2, 3}) {
    expectStepsOfOne(world);
    // Some have no batch.
    const Bytes expected = alone(firstBatches(1), 2);
    for (const Rank &rank : run(world, [this](Session &session, int rank) {
           StepResult result;
           for (int step = 0; step < 2; ++step)
             TRAINRT_TRY(session.step(firstBatches(rank == 0), {}, result));
           EXPECT_EQ(session.memory().gradients, 0);
           return Status();
         })) {
      ASSERT_TRUE(rank.status.ok()) << rank.status.message();
      EXPECT_EQ(rank.values, expected);
    }
  }
}

TEST_F(CudaRanks, NameTheGradientsOfAStep) {
  open(togetherTiny());
  nccl->stuckGroup = 6; // one to connect; of a step two for the verdict, and two for the gradient
  expectLost(run(2, stepping(3)), "step 2: exchange of ");
  nccl->stuckGroup = 4;
  expectLost(run(2, stepping(3)), "step 1: exchange of the gradient of parameter 'w': the others "
                                  "have not come within 1 s");
}

TEST_F(CudaRanks, ComeToOneVerdict) {
  TinyOptions unchecked = togetherTiny();
  unchecked.valueRule = false; // only the kernel meets bad indices
  open(unchecked);
  const Bytes expected = alone(firstBatches(2), 2);
  TinyBatch wrong(4, 2);
  wrong.id[1] = 9;
  SessionOptions options;
  for (bool synchronous : {false, true}) {
    options.synchronous = synchronous;
    auto body = [&](Session &session, int rank) {
      const Bytes before = valuesOf(session);
      StepResult result;
      const Status status = session.step({(rank ? wrong : batches[0]).batch()}, {}, result);
      EXPECT_EQ(status.code(), Code::BadData);
      EXPECT_EQ(status.message(), "rank 1: node '/model/Gather': index 9 at position 1 of its "
                                  "indices is out of range");
      EXPECT_EQ(valuesOf(session), before);
      return stepping(2)(session, rank);
    };
    for (const Rank &rank : run(2, body, false, options)) {
      ASSERT_TRUE(rank.status.ok()) << rank.status.message();
      EXPECT_EQ(rank.values, expected);
    }
  }
}

TEST_F(CudaRanks, EndWhereAnExchangeBesideOthersIsStuck) {
  open(overlappingTiny());
  nccl->stuckGroup = 4;
  expectLost(run(2, stepping(3)), "step 2: exchange of the gradient of parameter 'w': the others "
                                  "have not come within 1 s");
  EXPECT_EQ(nccl->aborted, 2);
}

TEST_F(CudaRanks, TellHowLongCommandsWaitForAnExchange) {
  open(overlappingTiny());
  std::vector<CommandRecord> told;
  SessionOptions options;
  options.commandDone = [&](const CommandRecord &record) {
    static std::mutex mutex;
    std::lock_guard lock(mutex);
    if (record.function && record.function->name == "micro")
      told.push_back(record);
  };
  const Bytes expected = alone(firstBatches(2), 1);
  for (const Rank &rank : run(2, stepping(1), false, options)) {
    ASSERT_TRUE(rank.status.ok()) << rank.status.message();
    EXPECT_EQ(rank.values, expected);
  }
  EXPECT_EQ(told.size(), 2 * 7u);
  // Nothing but a copy is beside it, which takes no time here.
  for (const CommandRecord &record : told)
    if (record.name == "all_reduce f32 of 1 tensor") {
      EXPECT_GT(record.waited, 0);
      EXPECT_LE(record.waited, record.seconds);
      EXPECT_GT(record.start, 0);
    }
}

TEST_F(CudaRanks, WithShardsMakeTheStepsOfOne) {
  const Bytes expected[] = {alone(firstBatches(1), 3), alone(firstBatches(2), 3),
                            alone(firstBatches(3), 3)},
              twoSteps = alone(firstBatches(2), 2);
  // Two of three elements are the first rank's, and none the third's.
  open(shardedTiny(2));
  for (int world : {2, 3}) {
    for (const Rank &rank : run(world, stepping(3))) {
      ASSERT_TRUE(rank.status.ok()) << rank.status.message();
      EXPECT_EQ(rank.values, expected[world - 1]) << world;
    }
    std::unique_ptr<Session> first;
    std::unique_ptr<RankGroup> group;
    SessionOptions options;
    options.threads = 1;
    ASSERT_TRUE(RankGroup::create(package, options, world, first, group).ok());
    StepResult result;
    for (int step = 0; step < 3; ++step)
      ASSERT_TRUE(group->step(*first, firstBatches(world), {}, result).ok());
    EXPECT_EQ(valuesOf(*first), expected[world - 1]) << world;
    EXPECT_EQ(first->memory().scratch, [&] {
      MemoryUse use;
      EXPECT_TRUE(estimateMemory(*package, {6}, 1, 1, use, false, world).ok());
      return use.scratch;
    }());
  }
  EXPECT_EQ(nccl->sums, 0);
  // NCCL adds up what is cut evenly, the rest we do.
  const std::vector<Rank> uneven = run(2, stepping(2), true);
  EXPECT_EQ(uneven[1].values, twoSteps) << uneven[0].status.message();
  EXPECT_EQ(nccl->sums, 2 * 2); // to connect
  open(shardedTiny(1));
  const std::vector<Rank> even = run(3, stepping(2), true);
  EXPECT_EQ(nccl->sums, 2 * 2 + 3 * 2 + 3 * 2);
  for (const Rank &rank : even)
    EXPECT_EQ(rank.values, even[0].values) << rank.status.message();
}

TEST_F(CudaRanks, OneAloneCopiesShards) {
  fake->captures = 0;
  const Bytes expected = alone(firstBatches(2), 2);
  const int captures = fake->captures;
  open(shardedTiny(4));
  fake->captures = fake->copiesWithin = 0;
  EXPECT_EQ(alone(firstBatches(2), 2), expected);
  // There and back, in the graphs of the update, which are half of them.
  EXPECT_EQ(fake->captures, captures);
  EXPECT_EQ(fake->copiesWithin, 2 * captures / 2);
  setenv("TRAINRT_EXCHANGE", "always", 1);
  EXPECT_EQ(alone(firstBatches(2), 2), expected);
}

TEST_F(CudaRanks, EndWhereShardsAreExchanged) {
  open(shardedTiny(2));
  nccl->failingGroup = 4; // one to connect, two a step
  expectLost(run(2, stepping(3)), "step 2: exchange of the gradient of parameter 'w': NCCL: ");
  EXPECT_EQ(nccl->aborted, 2);
  // The sums before it may be under way when the gather's error is seen.
  nccl->failingGroup = 5;
  expectLost(run(2, stepping(3)), "step 2: exchange of ");
  EXPECT_EQ(nccl->aborted, 4);
}

TEST_F(CudaRanks, TellOfEachExchange) {
  std::vector<std::string> names;
  SessionOptions options;
  options.commandDone = [&](const CommandRecord &record) {
    static std::mutex mutex;
    std::lock_guard lock(mutex);
    names.push_back(record.name);
  };
  for (const Rank &rank : run(2, stepping(1), false, options))
    ASSERT_TRUE(rank.status.ok()) << rank.status.message();
  EXPECT_EQ(std::count(names.begin(), names.end(), "all_reduce f32 of 1 tensor"), 2);
}

TEST_F(CudaRanks, EndWhereNcclDoesNotBegin) {
  nccl->hangs = 1;
  expectLost(run(2, stepping(1)),
             "NCCL cannot connect the GPUs of 2 ranks (each needs one of its own): the others have "
             "not come within 1 s");
  EXPECT_EQ(nccl->aborted, 0); // what hangs has no name yet
  nccl->hangs = 0;
  nccl->refuses = 1;
  std::vector<Rank> ranks = run(2, stepping(1));
  EXPECT_TRUE(ranks[0].status.code() == Code::DeviceError ||
              ranks[1].status.code() == Code::DeviceError);
  EXPECT_NE(ranks[0].status.message().find(
                "(each needs one of its own): invalid usage; in the words of the fake NCCL"),
            std::string::npos)
      << ranks[0].status.message();
  nccl->refuses = 0;
  nccl->version = 21700;
  EXPECT_TRUE(run(1, stepping(1))[0].status.ok()); // one rank needs none
  ranks = run(2, stepping(1));
  EXPECT_NE(ranks[0].status.message().find(
                "libnccl.so.2 is NCCL 21700; ranks on several GPUs need NCCL 2.18 or newer"),
            std::string::npos)
      << ranks[0].status.message();
}

TEST_F(CudaRanks, EndWhereAnExchangeFails) {
  nccl->failingGroup = 4; // one to connect, two a step
  expectLost(run(2, stepping(3)),
             "step 2: exchange of the gradient of parameter 'w': NCCL: remote process exited or "
             "there was a network error; in the words of the fake NCCL");
  EXPECT_EQ(nccl->aborted, 2);
}

TEST_F(CudaRanks, EndWhereAnExchangeIsStuck) {
  nccl->stuckGroup = 5;
  expectLost(run(2, stepping(3)), "step 2: exchange of the gradient of parameter 'w': the others "
                                  "have not come within 1 s");
  EXPECT_EQ(nccl->aborted, 2);
}

TEST_F(CudaRanks, EndWithOneThatFails) {
  // Rank 1 has other troubles while rank 0 waits on its GPU.
  nccl->stuckGroup = 2;
  const auto began = std::chrono::steady_clock::now();
  expectLost(run(2,
                 [&](Session &session, int rank) {
                   if (rank == 0)
                     return stepping(1)(session, rank);
                   std::this_thread::sleep_for(std::chrono::milliseconds(100));
                   return Status(Code::RankLost, "the disk is full");
                 }),
             ": the disk is full");
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(5));
}

TEST_F(CudaRanks, EndWithOneThatFailsBetweenExchanges) {
  expectLost(run(2,
                 [&](Session &session, int rank) {
                   if (rank == 0)
                     return stepping(2)(session, rank);
                   TRAINRT_TRY(stepping(1)(session, rank));
                   return Status(Code::RankLost, "the disk is full");
                 }),
             "step 2: rank 1 on ");
  // Whoever knows that the run is lost does not wait for the others to leave.
  EXPECT_GE(nccl->aborted, 1);
  EXPECT_EQ(nccl->aborted + nccl->finalized, 2);
}

TEST_F(CudaRanks, NeedAGpuEach) {
  fake->devices = 1;
  SessionOptions options;
  options.device = 1;
  const std::vector<Rank> ranks = run(2, stepping(1), false, options);
  EXPECT_NE((ranks[0].status.message() + ranks[1].status.message())
                .find("needs a GPU of its own: there is no GPU 1: this process sees 1, GPU 0"),
            std::string::npos)
      << ranks[1].status.message();
}

TEST_F(CudaRanks, KnowNoSumsOfNcclWithinOneGpu) {
  struct Asking : Communicator {
    Asking() : Communicator(0, 2) {}
    Status exchange(std::span<const Sent>, std::span<const Received>) override { return {}; }
    void abort(const Status &) override {}
    Status failure() const override { return {}; }
    bool sharesMemory() const override { return true; }
    bool wantsVendorSums() const override { return true; }
    Status gather(const std::string &mine, std::vector<std::string> &all) override {
      all = {mine, mine};
      return {};
    }
  };
  SessionOptions options;
  options.ranks = std::make_shared<Asking>();
  std::unique_ptr<Session> session = make(options);
  StepResult result;
  const Status status = session->step(firstBatches(1), {}, result);
  EXPECT_NE(status.message().find("--reduce nccl is for ranks that are processes: NCCL knows no "
                                  "ranks on one GPU"),
            std::string::npos)
      << status.message();
}
