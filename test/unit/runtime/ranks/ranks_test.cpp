// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks that are threads: what they exchange, what they add up, and how they end together.

#include "comm/collectives.h"
#include "comm/nodes.h"
#include "comm/thread_ranks.h"
#include "format/memory/exchange_work.h"
#include "narrow_numbers.h"
#include "session/ranks/agreement.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <thread>

using namespace trainrt;

namespace {

/// Runs `body` as each of `world` ranks, of which so many are of a node.
void runRanks(int world, const std::function<void(Communicator &)> &body, int ranksPerNode = 0) {
  std::vector<std::unique_ptr<Communicator>> ranks = createThreadRanks(world, {ranksPerNode});
  std::vector<std::thread> threads;
  for (std::unique_ptr<Communicator> &rank : ranks)
    threads.emplace_back([&] { body(*rank); });
  for (std::thread &thread : threads)
    thread.join();
}

/// Numbers whose sum depends on the order.
template <typename T> std::vector<T> numbers(int rank, size_t tensor, int64_t count) {
  std::vector<T> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(T(((rank * 7 + int(tensor) * 3 + i) % 11 - 5)) * (i % 3 ? T(1) : T(1 << 20)) /
                     T(3 + rank));
  return values;
}

template <typename T>
void expectSums(int world, const std::vector<int64_t> &sizes, DType dtype, int ranksPerNode = 0) {
  std::vector<std::vector<T>> expected;
  for (size_t t = 0; t < sizes.size(); ++t) {
    expected.emplace_back(size_t(sizes[t]), T(0));
    for (int rank = 0; rank < world; ++rank) {
      const std::vector<T> values = numbers<T>(rank, t, sizes[t]);
      for (size_t i = 0; i < values.size(); ++i)
        expected[t][i] += values[i];
    }
  }
  auto add = [&](Communicator &ranks) {
    std::vector<std::vector<T>> values;
    std::vector<RankTensor> tensors;
    for (size_t t = 0; t < sizes.size(); ++t)
      values.push_back(numbers<T>(ranks.rank(), t, sizes[t]));
    for (size_t t = 0; t < sizes.size(); ++t)
      tensors.push_back({values[t].data(), sizes[t]});
    std::vector<unsigned char> staging;
    const Status status = allReduce(ranks, dtype, tensors, staging);
    ASSERT_TRUE(status.ok()) << status.message();
    for (size_t t = 0; t < sizes.size(); ++t)
      EXPECT_EQ(std::memcmp(values[t].data(), expected[t].data(), values[t].size() * sizeof(T)), 0)
          << "rank " << ranks.rank() << " of " << world << ", tensor " << t;
    int64_t bytes = 0;
    if (!sizes.empty())
      bytes = ExchangeWork::ofSums(sizeof(T), sizes, world).staging();
    EXPECT_LE(int64_t(staging.size()), std::max<int64_t>(bytes, 64 * world));
  };
  runRanks(world, add, ranksPerNode);
}

/// Of 16 bits, which stay as they are.
template <typename Narrow>
void expectNarrowSums(int world, const std::vector<int64_t> &sizes, int ranksPerNode = 0) {
  const SumTypes types(narrowType<Narrow>, DType::F32);
  auto add = [&](Communicator &ranks) {
    std::vector<std::vector<Narrow>> values;
    std::vector<std::vector<float>> sums;
    std::vector<RankTensor> tensors;
    for (size_t t = 0; t < sizes.size(); ++t) {
      values.push_back(narrowNumbers<Narrow>(ranks.rank(), t, sizes[t]));
      sums.emplace_back(size_t(sizes[t]), 7.0f);
    }
    for (size_t t = 0; t < sizes.size(); ++t)
      tensors.push_back({values[t].data(), sizes[t], sums[t].data()});
    std::vector<unsigned char> staging;
    const Status status = allReduce(ranks, types, tensors, staging);
    ASSERT_TRUE(status.ok()) << status.message();
    int64_t wrong = 0;
    for (size_t t = 0; t < sizes.size(); ++t)
      for (int64_t i = 0; i < sizes[t]; ++i) {
        const float sum = narrowSum<Narrow>(world, t, i);
        wrong += std::memcmp(&sum, &sums[t][size_t(i)], sizeof sum) != 0 ||
                 values[t][size_t(i)].bits != narrowNumber<Narrow>(ranks.rank(), t, i).bits;
      }
    EXPECT_EQ(wrong, 0) << "rank " << ranks.rank() << " of " << world;
    EXPECT_LE(
        int64_t(staging.size()),
        std::max(ExchangeWork::ofSums(types.bytes(), sizes, world).staging(), int64_t(64) * world));
  };
  runRanks(world, add, ranksPerNode);
}

} // namespace

TEST(Ranks, ReadNarrowNumbersExactly) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float wide = Float16{uint16_t(bits)};
    const uint32_t fraction = bits & 0x3ff, exponent = bits >> 10 & 0x1f;
    const float size = exponent == 0x1f ? (fraction ? NAN : INFINITY)
                       : exponent       ? std::ldexp(float(1024 + fraction), int(exponent) - 25)
                                        : std::ldexp(float(fraction), -24);
    EXPECT_EQ(std::signbit(wide), bits >> 15 == 1);
    EXPECT_TRUE(std::isnan(size) ? std::isnan(wide) : std::fabs(wide) == size) << bits;
    const float other = BFloat16{uint16_t(bits)};
    uint32_t all;
    std::memcpy(&all, &other, sizeof all);
    EXPECT_EQ(all, bits << 16);
  }
}

TEST(Ranks, AddUpNarrowNumbersInF32) {
  for (auto [world, each] : {std::pair(2, 0), {3, 0}, {5, 0}, {4, 2}, {6, 2}, {8, 4}}) {
    expectNarrowSums<BFloat16>(world, {1, 7, 64, 0, 1001}, each);
    expectNarrowSums<Float16>(world, {13, 2}, each);
  }
  // More than a block.
  expectNarrowSums<BFloat16>(2, {300'000, 5, 900'001});
  expectNarrowSums<Float16>(4, {1'900'001}, 2);
}

TEST(Ranks, SendHalfOfNarrowNumbers) {
  const std::vector<int64_t> elements = {4000, 97};
  for (int64_t world : {2, 8}) {
    const int64_t part = 4000 / world + (97 + world - 1) / world;
    const SumTypes types(DType::BF16, DType::F32);
    // Pieces, and sums.
    EXPECT_EQ(ExchangeWork::ofSums(types.bytes(), elements, world).sent(),
              (world - 1) * part * (2 + 4));
    EXPECT_EQ(ExchangeWork::ofSumsInShards(types.bytes(), elements, world).sent(),
              (world - 1) * 4097 * 2);
    // Of a shard that two ranks have each adds up a half, and tells the other one.
    EXPECT_EQ(ExchangeWork::ofSumsInShards(types.bytes(), elements, world, world / 2).sent(),
              2049 * ((world - 1) * 2 + 4));
  }
}

TEST(Ranks, AddUpInTheirOrder) {
  for (int world : {2, 3, 5}) {
    expectSums<float>(world, {1, 7, 64, 0, 1001}, DType::F32);
    expectSums<double>(world, {13, 2}, DType::F64);
  }
  // More than a block, and no tensor at all.
  expectSums<float>(2, {300'000, 5, 900'001}, DType::F32);
  expectSums<float>(2, {}, DType::F32);
}

TEST(Ranks, AddUpFromNodeToNodeInTheirOrder) {
  for (auto [world, each] : {std::pair(4, 2), {6, 3}, {6, 2}, {8, 2}, {3, 1}, {4, 4}}) {
    expectSums<float>(world, {1, 7, 64, 0, 1001}, DType::F32, each);
    expectSums<double>(world, {13, 2}, DType::F64, each);
  }
  // Blocks in more nodes than there are blocks, and the other way round.
  expectSums<float>(4, {300'000, 5, 1'900'001}, DType::F32, 2);
  expectSums<float>(8, {3'000}, DType::F32, 2);
  expectSums<float>(4, {}, DType::F32, 2);
}

namespace {
/// Counts what goes to ranks of other nodes, of so many ranks each.
class Counting final : public Communicator {
public:
  Counting(Communicator &ranks, int node, std::atomic<int64_t> &sent)
      : Communicator(ranks.rank(), ranks.world(), {ranks.ranksPerNode()}), ranks(ranks), node(node),
        sent(sent) {}
  Status exchange(std::span<const Sent> pieces, std::span<const Received> received) override {
    for (size_t to = 0; to < pieces.size(); ++to)
      if (int(to) / node != rank() / node)
        sent += pieces[to].bytes;
    return ranks.exchange(pieces, received);
  }
  void abort(const Status &why) override { ranks.abort(why); }
  Status failure() const override { return ranks.failure(); }

private:
  Communicator &ranks;
  const int node;
  std::atomic<int64_t> &sent;
};
} // namespace

TEST(Ranks, SendAsMuchBetweenNodesAsThePageSays) {
  constexpr int64_t elements = 8000, n = elements * 4;
  constexpr int world = 8, node = 4;
  // Of all ranks at once, and from node to node: the first one's sums go to the second one, whose
  // go to their ranks, which tell those on the other node.
  for (auto [perNode, first, second] :
       {std::tuple(1, 4 * n, 4 * n), {node, n + n / 2, n / 2 + n / 2}}) {
    std::atomic<int64_t> sent[2] = {};
    runRanks(
        world,
        [&](Communicator &ranks) {
          Counting counting(ranks, node, sent[ranks.rank() / node]);
          std::vector<float> values(elements, 1);
          const RankTensor tensor{values.data(), elements};
          std::vector<unsigned char> staging;
          ASSERT_TRUE(allReduce(counting, DType::F32, {&tensor, 1}, staging).ok());
          EXPECT_EQ(values, std::vector<float>(elements, world));
        },
        perNode);
    EXPECT_EQ(sent[0], first);
    EXPECT_EQ(sent[1], second);
  }
}

TEST(Ranks, NodesAreThoseOfLaunchersOrHosts) {
  auto found = [](std::vector<NodePlace> ranks, std::string &told) {
    int each = -1;
    const Status status = findNodes(ranks, each, told);
    EXPECT_TRUE(status.ok()) << status.message();
    return each;
  };
  std::string told;
  EXPECT_EQ(found({{"a"}, {"a"}, {"a"}, {"a"}}, told), 4);
  EXPECT_EQ(told, "");
  EXPECT_EQ(found({{"a"}, {"a"}, {"b"}, {"b"}}, told), 2);
  EXPECT_EQ(told, "2 of 2 ranks each; gradients are added up within a node, and go from node to "
                  "node");
  EXPECT_EQ(found({{"a"}, {"b"}, {"c"}}, told), 1);
  EXPECT_EQ(told, "3 of 1 rank each");
  // Uneven, dealt out in turn, one that comes again.
  for (const char *hosts : {"aab", "abbb", "abab", "aabbaa", "aabbb"}) {
    std::vector<NodePlace> ranks;
    for (const char *host = hosts; *host; ++host)
      ranks.push_back({std::string(1, *host)});
    EXPECT_EQ(found(ranks, told), int(ranks.size())) << hosts;
    EXPECT_NE(told.find("not of as many neighbouring ranks each"), std::string::npos) << told;
  }
  // Launchers know better than names, where what they say fits.
  EXPECT_EQ(found({{"a", 0, 2, 0}, {"a", 0, 2, 1}, {"a", 0, 2, 0}, {"a", 0, 2, 1}}, told), 2);
  EXPECT_EQ(found({{"a", 0, 2, 0}, {"a", 0, 2, 0}, {"a", 0, 2, 1}, {"a", 0, 2, 1}}, told), 4);
  EXPECT_EQ(found({{"a", 0, 2, 0}, {"a", 0, 2, 1}, {"a", 0, 1, 0}}, told), 3);
  // And a person better than both.
  EXPECT_EQ(found({{"a", 1, 2, 0}, {"a", 1, 2, 1}}, told), 1);
  int each = 0;
  std::vector<NodePlace> ranks(4, NodePlace{"a", 3});
  EXPECT_EQ(findNodes(ranks, each, told).message(), "4 ranks are no nodes of 3 each");
  ranks[2].asked = 2;
  EXPECT_EQ(findNodes(ranks, each, told).message(),
            "the ranks of a run are of the same nodes, but rank 0 was told of nodes of 3 ranks and "
            "rank 2 of 2");
}

TEST(Ranks, MinusZeroBecomesZero) {
  runRanks(2, [](Communicator &ranks) {
    float value = -0.0f;
    std::vector<unsigned char> staging;
    const RankTensor tensor{&value, 1};
    ASSERT_TRUE(allReduce(ranks, DType::F32, {&tensor, 1}, staging).ok());
    EXPECT_FALSE(std::signbit(value)); // as an accumulator's
  });
}

TEST(Ranks, GatherTexts) {
  runRanks(4, [](Communicator &ranks) {
    // Of which some take a second exchange.
    const std::string mine(size_t(ranks.rank() * 252), char('a' + ranks.rank()));
    for (int repeat = 0; repeat < 50; ++repeat) {
      std::vector<std::string> all;
      ASSERT_TRUE(ranks.gather(mine, all).ok());
      ASSERT_EQ(all.size(), 4u);
      for (size_t rank = 0; rank < 4; ++rank)
        EXPECT_EQ(all[rank], std::string(rank * 252, char('a' + rank)));
    }
  });
}

TEST(Ranks, OneThatEndsEndsAll) {
  runRanks(3, [](Communicator &ranks) {
    std::vector<std::string> all;
    ASSERT_TRUE(ranks.gather("", all).ok());
    if (ranks.rank() == 1)
      return ranks.abort(Status(Code::OutOfMemory, "rank 1 has no memory"));
    for (int again = 0; again < 2; ++again) {
      const Status status = ranks.gather("", all);
      EXPECT_EQ(status.code(), Code::RankLost);
      EXPECT_EQ(status.message(), "rank 1 has no memory");
    }
  });
}

TEST(Ranks, OtherSizesAreAnError) {
  runRanks(2, [](Communicator &ranks) {
    std::vector<unsigned char> bytes(8);
    const int64_t size = ranks.rank() ? 8 : 4;
    const Communicator::Sent sent[2] = {{bytes.data(), size}, {bytes.data(), size}};
    const Communicator::Received received[2] = {{bytes.data(), size}, {bytes.data(), size}};
    const Status status = ranks.exchange(sent, received);
    EXPECT_EQ(status.code(), Code::RankLost);
    EXPECT_NE(status.message().find("bytes where rank"), std::string::npos) << status.message();
  });
}

TEST(Ranks, ThatAreOfAnotherProgramAreAnError) {
  runRanks(2, [](Communicator &ranks) {
    if (ranks.rank() == 0) {
      // Announces what cannot be.
      const std::vector<int64_t> wrong(64, -1);
      std::vector<int64_t> others(128);
      const Communicator::Sent sent[2] = {{wrong.data(), 512}, {wrong.data(), 512}};
      const Communicator::Received received[2] = {{&others[0], 512}, {&others[64], 512}};
      ASSERT_TRUE(ranks.exchange(sent, received).ok());
      return;
    }
    std::vector<std::string> all;
    const Status status = ranks.gather("hello", all);
    EXPECT_NE(status.message().find("rank 0 announces a message of -1 bytes"), std::string::npos);
  });
  runRanks(2, [](Communicator &ranks) {
    std::vector<std::string> texts;
    std::vector<RankOutcome> all;
    const Status status =
        ranks.rank() ? exchangeOutcomes(ranks, {}, all) : ranks.gather("hello", texts);
    if (ranks.rank())
      EXPECT_EQ(status.message(), "rank 0 runs another version of the runtime");
  });
}

TEST(Ranks, AgreeOnAStep) {
  runRanks(2, [](Communicator &ranks) {
    RankProposal mine;
    mine.settings = "step 3";
    mine.microBatches = 1 + ranks.rank();
    mine.weights.assign(size_t(mine.microBatches), 0.5 + ranks.rank());
    std::vector<RankProposal> all;
    ASSERT_TRUE(exchangeProposals(ranks, mine, all).ok());
    EXPECT_EQ(all[1].microBatches, 2);
    EXPECT_EQ(all[1].weights, (std::vector<double>{1.5, 1.5}));
    if (ranks.rank() == 1)
      mine.status = Status(Code::BadData, "no such row");
    Status status = exchangeProposals(ranks, mine, all);
    EXPECT_EQ(status.code(), Code::BadData);
    EXPECT_EQ(status.message(), "rank 1: no such row");
    mine.status = {};
    mine.settings = "step " + std::to_string(3 + ranks.rank());
    status = exchangeProposals(ranks, mine, all);
    EXPECT_EQ(status.message(), "the ranks of a run make the same steps, but rank 0 makes step 3, "
                                "and rank 1 step 4");
    mine.settings = "step 3";
    mine.hasFactors = ranks.rank() == 1;
    status = exchangeProposals(ranks, mine, all);
    EXPECT_NE(status.message().find("rank 1 step 3, with weights"), std::string::npos);
  });
}

TEST(Ranks, TellTheirOutcomes) {
  runRanks(2, [](Communicator &ranks) {
    RankOutcome mine;
    mine.nonfinite = ranks.rank() == 0;
    mine.numbers = {"w" + std::to_string(ranks.rank())};
    mine.losses = {{0.5, 1.25 + ranks.rank()}};
    std::vector<RankOutcome> all;
    ASSERT_TRUE(exchangeOutcomes(ranks, mine, all).ok());
    EXPECT_TRUE(all[0].nonfinite && !all[1].nonfinite);
    EXPECT_EQ(all[1].numbers, std::vector<std::string>{"w1"});
    EXPECT_EQ(all[1].losses.front(), std::pair(0.5, 2.25));
  });
}
