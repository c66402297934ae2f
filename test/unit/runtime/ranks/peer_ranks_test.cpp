// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks whose GPUs, which are emulated, write into each other's memory: what they compute, how they
// end where one is lost, and when they take NCCL.

#include "cuda_ranks_fixture.h"

namespace {

class PeerRanks : public CudaRanks {
protected:
  void SetUp() override {
    CudaRanks::SetUp();
    fake->peers = 1;
  }

  /// Runs a step of two ranks, and expects that all of them exchange by this.
  void expectCarrier(const std::string &expected) {
    std::mutex mutex;
    std::vector<std::string> carriers;
    carrierOf = [&](const Communicator &ranks) {
      std::lock_guard lock(mutex);
      carriers.push_back(ranks.carrier);
    };
    const Bytes values = alone(firstBatches(2), 1);
    for (const Rank &rank : run(2, stepping(1))) {
      ASSERT_TRUE(rank.status.ok()) << rank.status.message();
      EXPECT_EQ(rank.values, values);
    }
    carrierOf = nullptr;
    ASSERT_EQ(carriers.size(), 2u);
    for (const std::string &carrier : carriers)
      EXPECT_EQ(carrier, expected);
    EXPECT_EQ(fake->exported, 0u);
  }
};

} // namespace

TEST_F(PeerRanks, AddUpInTheirOrder) { expectSumsOfAnySize(true); }
TEST_F(PeerRanks, CutSumsIntoShardsAndGatherThem) { expectShardsOfAnySize(true); }
TEST_F(PeerRanks, GatherBytesOfAnyType) { expectBytesOfAnyType(true); }

TEST_F(PeerRanks, GatherMoreThanAMailboxHas) {
  // Of odd sizes; several turns of both slots.
  const cuda::CutSize sizes[] = {{3, 1}, {3 * 17'000'001 - 7, 17'000'001}, {99, 33}};
  exchangeTogether(
      3, 0,
      [&](ExchangeOfOne &one) {
        std::vector<Bytes> own, whole;
        std::vector<cuda::RankExchange::Tensor> tensors;
        auto byte = [](int64_t i) { return static_cast<unsigned char>(i * 7 + i / 251); };
        for (const auto &[elements, shard] : sizes) {
          own.emplace_back(size_t(shard));
          whole.emplace_back(size_t(elements));
          for (int64_t i = 0; i < shard; ++i)
            own.back()[size_t(i)] = byte(one.exchange.rank() * shard + i);
          tensors.push_back(
              {addressOf(whole.back().data()), addressOf(own.back().data()), {elements, shard}});
        }
        one.run(Kind::AllGather, DType::U8, tensors);
        one.finish();
        int64_t wrong = 0;
        for (const Bytes &tensor : whole)
          for (size_t i = 0; i < tensor.size(); ++i)
            wrong += tensor[i] != byte(int64_t(i));
        EXPECT_EQ(wrong, 0);
      },
      true);
  EXPECT_EQ(fake->exported, 0u);
}

TEST_F(PeerRanks, DoNotWriteOverWhatIsNotTaken) {
  // The first rank has everything to send, and waits for no bytes.
  exchangeTogether(
      2, 0,
      [&](ExchangeOfOne &one) {
        std::vector<Bytes> own, whole;
        for (unsigned char i = 0; i < 6; ++i) {
          own.emplace_back(32, i);
          whole.emplace_back(32, static_cast<unsigned char>(99));
        }
        for (size_t i = 0; i < own.size(); ++i) {
          const cuda::RankExchange::Tensor tensor{
              addressOf(whole[i].data()), addressOf(own[i].data()), {32, 32}};
          one.run(Kind::AllGather, DType::U8, {&tensor, 1});
        }
        if (one.exchange.rank() == 1)
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
        one.finish();
        for (size_t i = 0; i < own.size(); ++i)
          EXPECT_EQ(whole[i], own[i]) << i;
      },
      true);
}

TEST_F(PeerRanks, MakeTheStepsOfOne) {
  for (int world : {2, 3})
    expectStepsOfOne(world);
  EXPECT_EQ(nccl->groups, 0);
  EXPECT_EQ(fake->exported, 0u);
}

TEST_F(PeerRanks, ExchangeBesideOtherCommands) {
  open(overlappingTiny());
  const Bytes expected = alone(firstBatches(2), 3);
  for (const char *mode : {"", "inline"}) {
    setenv("TRAINRT_EXCHANGE", mode, 1);
    for (const Rank &rank : run(2, stepping(3))) {
      ASSERT_TRUE(rank.status.ok()) << rank.status.message();
      EXPECT_EQ(rank.values, expected);
    }
  }
  EXPECT_EQ(nccl->groups, 0);
}

TEST_F(PeerRanks, LeaveSumsOfNcclToIt) {
  const std::vector<Rank> ranks = run(2, stepping(2), true);
  EXPECT_EQ(ranks[0].values, ranks[1].values) << ranks[0].status.message();
  EXPECT_GT(nccl->sums, 0);
}

TEST_F(PeerRanks, NeedNoNccl) {
  nccl->refuses = 1;
  expectCarrier("each other's memory");
}

TEST_F(PeerRanks, AllTakeNcclWhereOneDoesNotReachTheOthers) {
  fake->failingOpening = 2; // of one of the ranks
  const std::vector<Rank> ranks = run(2, stepping(1));
  EXPECT_TRUE(ranks[0].status.ok()) << ranks[0].status.message();
  EXPECT_EQ(fake->failingOpening, 0);
  EXPECT_GT(nccl->groups, 0);
  EXPECT_EQ(fake->exported, 0u);
  fake->peers = 0; // for none of them
  expectCarrier("NCCL, as rank 0 does not reach the others' memory: cannot let other processes "
                "write to the GPU's memory: CUDA_ERROR_OTHER (in the words of the fake driver)");
  fake->peers = 1;
  setenv("TRAINRT_EXCHANGE", "nccl", 1);
  expectCarrier("NCCL, as rank 0 does not reach the others' memory: TRAINRT_EXCHANGE says so");
}

TEST_F(PeerRanks, TakeNcclWhereTheFirstBytesDoNotArrive) {
  fake->isSilent = 1;
  expectCarrier("NCCL, as rank 0 does not reach the others' memory: the first bytes from other "
                "GPUs have not arrived");
}

TEST_F(PeerRanks, EndWhereAnExchangeIsStuck) {
  expectLost(run(2,
                 [&](Session &session, int rank) {
                   TRAINRT_TRY(stepping(1)(session, rank));
                   fake->isSilent = 1;
                   return stepping(2)(session, rank);
                 }),
             "exchange of the gradient of parameter 'w': the others have not come within 1 s");
  EXPECT_GT(fake->exported, 0u); // somebody might write to it
}

TEST_F(PeerRanks, EndWithOneThatFails) {
  const auto began = std::chrono::steady_clock::now();
  expectLost(run(2,
                 [&](Session &session, int rank) {
                   TRAINRT_TRY(stepping(1)(session, rank));
                   fake->isSilent = 1;
                   if (rank == 0)
                     return stepping(1)(session, rank);
                   std::this_thread::sleep_for(std::chrono::milliseconds(100));
                   return Status(Code::RankLost, "the disk is full");
                 }),
             ": the disk is full");
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(5));
}
