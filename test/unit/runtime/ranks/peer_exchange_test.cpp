// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks whose GPUs, which are emulated, read and write each other's memory: what they compute, how
// they end where one is lost, and when they take NCCL.

#include "cuda_ranks_fixture.h"

namespace {

class PeerExchange : public CudaRanks {
protected:
  void SetUp() override {
    CudaRanks::SetUp();
    fake->peers = 1;
  }

  /// Runs a step of two ranks: what they exchange by, each of them the same.
  void findCarrier(std::string &found) {
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
    EXPECT_EQ(carriers[0], carriers[1]);
    EXPECT_EQ(fake->exported, 0u);
    found = carriers[0];
  }
  void expectCarrier(const std::string &expected) {
    std::string found;
    findCarrier(found);
    EXPECT_EQ(found, expected);
  }
};

} // namespace

TEST_F(PeerExchange, AddUpInTheirOrder) { expectSumsOfAnySize(true); }
TEST_F(PeerExchange, CutSumsIntoShardsAndGatherThem) { expectShardsOfAnySize(true); }
TEST_F(PeerExchange, GatherBytesOfAnyType) { expectBytesOfAnyType(true); }
TEST_F(PeerExchange, AddUpNarrowNumbersInF32) { expectNarrowOfAnySize(true, false); }
TEST_F(PeerExchange, ShareReplicas) { expectShardsOfReplicas(true); }

TEST_F(PeerExchange, TakeAnyAlignmentAndMoreTensorsThanAMessageHas) {
  // Of a rank each tensor begins a few elements behind a multiple of 16 bytes: as many on all, or
  // others.
  for (const bool isEqual : {true, false})
    for (int world : {2, 4}) {
      std::vector<int64_t> sizes(1700, 3);
      for (int64_t i = 0; i < 70; ++i)
        sizes[size_t(i)] = i * 5;
      exchangeTogether(
          world, 0,
          [&](ExchangeOfOne &one) {
            const int rank = one.exchange.rank();
            auto shift = [&](size_t tensor) {
              return int64_t(tensor + (isEqual ? 0 : size_t(rank))) % 4;
            };
            std::vector<std::vector<float>> values;
            std::vector<cuda::RankExchange::Tensor> tensors;
            for (size_t t = 0; t < sizes.size(); ++t) {
              std::vector<float> &value = values.emplace_back(size_t(sizes[t] + 8), 7.0f);
              for (int64_t i = 0; i < sizes[t]; ++i)
                value[size_t(shift(t) + i)] = number<float>(rank, t, i);
              tensors.push_back(
                  one.exchange.inPlace(DType::F32, addressOf(value.data() + shift(t)), sizes[t]));
            }
            one.run(Kind::AllReduce, DType::F32, tensors);
            one.finish();
            int64_t wrong = 0;
            for (size_t t = 0; t < sizes.size(); ++t)
              for (int64_t i = 0; i < sizes[t] + 8; ++i) {
                const int64_t at = i - shift(t);
                const bool isInside = at >= 0 && at < sizes[t];
                wrong += values[t][size_t(i)] != (isInside ? sumOf<float>(world, t, at) : 7.0f);
              }
            EXPECT_EQ(wrong, 0) << world;
          },
          true);
    }
}

TEST_F(PeerExchange, FollowBlocksThatMove) {
  // One rank's tensor moves, while the others do something else.
  exchangeTogether(
      3, 0,
      [&](ExchangeOfOne &one) {
        const int rank = one.exchange.rank();
        const cuda::Driver &driver = one.context.driver();
        // The driver puts none of these together with others.
        EXPECT_EQ(one.exchange.blockBytes(100'000), 2 << 20);
        EXPECT_EQ(one.exchange.blockBytes(4096), 4096);
        cuda::CUdeviceptr block = 0;
        for (int round = 0; round < 3; ++round) {
          const int64_t size = 100 + 50 * round, bytes = 4096 * (round + 1);
          if (rank == 0 || round == 0) {
            if (block) {
              one.exchange.release(block);
              driver.cuMemFree(block);
            }
            ASSERT_EQ(driver.cuMemAlloc(&block, size_t(rank == 0 ? bytes : 1 << 20)), 0);
          }
          const cuda::DeviceAddress address = block + 256;
          float *const values = reinterpret_cast<float *>(address);
          for (int64_t i = 0; i < size; ++i)
            values[i] = number<float>(rank, size_t(round), i);
          const auto tensor = one.exchange.inPlace(DType::F32, address, size);
          one.run(Kind::AllReduce, DType::F32, {&tensor, 1});
          one.finish();
          int64_t wrong = 0;
          for (int64_t i = 0; i < size; ++i)
            wrong += values[i] != sumOf<float>(3, size_t(round), i);
          EXPECT_EQ(wrong, 0);
          if (rank)
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        one.exchange.release(block);
        driver.cuMemFree(block);
      },
      true);
  EXPECT_EQ(fake->exported, 0u);
}

TEST_F(PeerExchange, OpenAndCloseMemoryWhileNothingIsComputed) {
  fake->openedWhileBusy = fake->closedWhileBusy = 0;
  exchangeTogether(
      2, 0,
      [&](ExchangeOfOne &one) {
        const int rank = one.exchange.rank();
        const cuda::Driver &driver = one.context.driver();
        one.exchange.useStreams({one.stream});
        cuda::CUdeviceptr block = 0, other = 0;
        ASSERT_EQ(driver.cuMemAlloc(&other, 4096), 0);
        for (int round = 0; round < 3; ++round) {
          // The first rank's tensor moves while the second one computes.
          if (rank == 0)
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
          if (block && rank == 0) {
            one.exchange.release(block);
            driver.cuMemFree(block);
          }
          if (!block || rank == 0)
            ASSERT_EQ(driver.cuMemAlloc(&block, size_t(4096 * (round + 1))), 0);
          {
            const auto held = one.exchange.starting();
            driver.cuMemsetD8Async(other, static_cast<unsigned char>(round), 4096, one.stream);
          }
          *reinterpret_cast<float *>(block) = float(round + rank);
          const auto tensor = one.exchange.inPlace(DType::F32, block, 1);
          one.run(Kind::AllReduce, DType::F32, {&tensor, 1});
          one.finish();
          driver.cuStreamSynchronize(one.stream);
          EXPECT_EQ(*reinterpret_cast<float *>(block), float(2 * round + 1));
        }
        one.exchange.release(block);
        driver.cuMemFree(block);
        driver.cuMemFree(other);
      },
      true);
  EXPECT_EQ(fake->openedWhileBusy, 0);
  EXPECT_EQ(fake->closedWhileBusy, 0);
}

TEST_F(PeerExchange, CopyLargeTensors) {
  setenv("TRAINRT_EXCHANGE_COPIED", "1", 1);
  expectSumsOfAnySize(true);
  expectShardsOfAnySize(true);
  expectBytesOfAnyType(true);
  expectShardsOfReplicas(true);
  expectNarrowOfAnySize(true, true);
  // Some by copies and some by a kernel.
  setenv("TRAINRT_EXCHANGE_COPIED", "2000", 1);
  expectSums<float>(3, DType::F32, {{7, 5000, 9, 1001, 20'000}, {3000, 2}}, true);
  expectShards<double>(2, DType::F64, {{700, 352}, {41, 21}, {1'000, 512}, {9, 5}}, true);
  setenv("TRAINRT_EXCHANGE_COPIED", "0", 1);
  const std::vector<Rank> ranks = run(2, stepping(1));
  EXPECT_EQ(ranks[0].status.message(),
            "TRAINRT_EXCHANGE_COPIED is '0', no number from 1 to 1099511627776");
  unsetenv("TRAINRT_EXCHANGE_COPIED");
}

TEST_F(PeerExchange, TakeAsManyBlocksAsTheEnvironmentSays) {
  setenv("TRAINRT_EXCHANGE_BLOCKS", "3", 1);
  expectSums<float>(2, DType::F32, {{100'000, 5}}, true);
  setenv("TRAINRT_EXCHANGE_BLOCKS", "none", 1);
  const std::vector<Rank> ranks = run(2, stepping(1));
  EXPECT_EQ(ranks[0].status.message(),
            "TRAINRT_EXCHANGE_BLOCKS is 'none', no number from 1 to 1024");
  unsetenv("TRAINRT_EXCHANGE_BLOCKS");
}

TEST_F(PeerExchange, DoNotWriteOverWhatIsNotTaken) {
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

TEST_F(PeerExchange, MakeTheStepsOfOne) {
  for (int world : {2, 3})
    expectStepsOfOne(world);
  EXPECT_EQ(nccl->groups, 0);
  EXPECT_EQ(fake->exported, 0u);
}

TEST_F(PeerExchange, ExchangeBesideOtherCommands) {
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

TEST_F(PeerExchange, LeaveSumsOfNcclToIt) {
  const std::vector<Rank> ranks = run(2, stepping(2), true);
  EXPECT_EQ(ranks[0].values, ranks[1].values) << ranks[0].status.message();
  EXPECT_GT(nccl->sums, 0);
}

TEST_F(PeerExchange, NeedNoNccl) {
  nccl->refuses = 1;
  expectCarrier("each other's memory");
}

TEST_F(PeerExchange, AllTakeNcclWhereOneDoesNotReachTheOthers) {
  fake->failingOpening = 2; // of one of the ranks
  const std::vector<Rank> ranks = run(2, stepping(1));
  EXPECT_TRUE(ranks[0].status.ok()) << ranks[0].status.message();
  EXPECT_EQ(fake->failingOpening, 0);
  EXPECT_GT(nccl->groups, 0);
  EXPECT_EQ(fake->exported, 0u);
  fake->peers = 0; // for none of them
  expectCarrier("NCCL, as rank 0 does not reach the others' memory: cannot let other processes "
                "use the GPU's memory: CUDA_ERROR_OTHER (in the words of the fake driver)");
  fake->peers = 1;
  setenv("TRAINRT_EXCHANGE", "nccl", 1);
  expectCarrier("NCCL, as rank 0 does not reach the others' memory: TRAINRT_EXCHANGE says so");
}

TEST_F(PeerExchange, TakeNcclWhereTheFirstNumbersDoNotArrive) {
  fake->isSilent = 1;
  expectCarrier("NCCL, as rank 0 does not reach the others' memory: the first numbers from other "
                "GPUs have not arrived");
}

TEST_F(PeerExchange, TakeNcclWhereOneCannotTry) {
  fake->failingUpload = 4 * 1031; // the first numbers, of one of the ranks
  std::string carrier;
  findCarrier(carrier);
  EXPECT_EQ(fake->failingUpload, 0u);
  EXPECT_EQ(carrier.find("NCCL, as rank "), 0u) << carrier;
  // None waits for it.
  EXPECT_EQ(carrier.find("have not come within"), carrier.npos) << carrier;
}

TEST_F(PeerExchange, EndWhereAnExchangeIsStuck) {
  expectLost(run(2,
                 [&](Session &session, int rank) {
                   TRAINRT_TRY(stepping(1)(session, rank));
                   fake->isSilent = 1;
                   return stepping(2)(session, rank);
                 }),
             "exchange of the gradient of parameter 'w': the others have not come within 1 s");
  EXPECT_GT(fake->exported, 0u); // somebody might write to it
}

TEST_F(PeerExchange, EndWithOneThatFails) {
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
