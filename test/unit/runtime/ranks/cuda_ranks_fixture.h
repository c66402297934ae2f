// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What tests of ranks on GPUs that are emulated share: ranks as threads, with sessions or with
// exchanges alone.
#ifndef TRAINRT_TESTS_CUDA_RANKS_FIXTURE_H
#define TRAINRT_TESTS_CUDA_RANKS_FIXTURE_H

#include "comm/coordinator.h"
#include "comm/process_ranks.h"
#include "comm/thread_ranks.h"
#include "cuda/fake_nccl.h"
#include "cuda_fixture.h"
#include "device/cuda/ranks/rank_exchange.h"
#include "narrow_numbers.h"
#include "program_generated.h"

#include <algorithm>
#include <mutex>
#include <netinet/in.h>
#include <sys/socket.h>
#include <thread>

namespace {

using Bytes = std::vector<unsigned char>;

inline Bytes valuesOf(const Session &session) {
  Bytes all;
  auto add = [&](Status status, const ArrayView &array) {
    ASSERT_TRUE(status.ok()) << status.message();
    const auto *begin = static_cast<const unsigned char *>(array.data);
    all.insert(all.end(), begin, begin + array.bytes);
  };
  ArrayView array;
  for (size_t i = 0; i < session.package().program().parameters.size(); ++i)
    add(session.parameter(i, array), array);
  for (size_t i = 0; i < session.package().program().state.size(); ++i)
    add(session.state(i, array), array);
  return all;
}

/// The gradient is cut into shards of sums, which are gathered again: what an all-reduce makes.
inline TinyOptions shardedTiny(int64_t shard) {
  TinyOptions options = distributedTiny();
  options.editProgram = [edit = options.editProgram, shard](fb::ProgramT &program) {
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
      buffer->bytes = constant(4 * shard);
      buffer->last = 1;
      const auto own = uint32_t(function->buffers.size()), zero = constant(0);
      function->buffers.push_back(std::move(buffer));
      const uint32_t sizes[] = {function->commands[0]->sizes[0], constant(shard)};
      function->commands.erase(function->commands.begin());
      for (const bool gathers : {true, false}) {
        auto command = std::make_unique<fb::CommandT>();
        fb::CollectiveT body;
        body.kind = gathers ? fb::CollectiveKind::all_gather : fb::CollectiveKind::reduce_scatter;
        body.dtype = fb::DType::f32;
        command->op.Set(std::move(body));
        command->operands = {{gathers ? own : 2, zero, fb::Access::read},
                             {gathers ? 2 : own, zero, fb::Access::write}};
        command->sizes = {sizes[gathers], sizes[!gathers]};
        function->commands.insert(function->commands.begin(), std::move(command));
      }
    }
  };
  return options;
}

class CudaRanks : public CudaTest {
protected:
  void SetUp() override {
    CudaTest::SetUp();
    void *library = dlopen(TRAINRT_FAKE_LIBRARIES "/libnccl.so.2", RTLD_NOW);
    ASSERT_TRUE(library) << dlerror();
    nccl = reinterpret_cast<FakeNccl *(*)()>(dlsym(library, "fakeNccl"))();
    *nccl = {};
    nccl->version = 22700;
    open(distributedTiny());
  }
  void TearDown() override {
    unsetenv("TRAINRT_EXCHANGE");
    // Of runs that were lost.
    fake->allocated -= fake->exported;
    fake->exported = 0;
    CudaTest::TearDown();
  }

  /// What one session has after steps of these batches.
  Bytes alone(const std::vector<Batch> &batches, int steps) {
    std::unique_ptr<Session> one = make();
    StepResult result;
    for (int step = 0; step < steps; ++step) {
      Status status = one->step(batches, {}, result);
      EXPECT_TRUE(status.ok()) << status.message();
    }
    return valuesOf(*one);
  }

  /// What a rank that is a process does here in a thread.
  struct Rank {
    Status status;
    Bytes values;
    int64_t steps = 0;
  };
  using Body = std::function<Status(Session &session, int rank)>;
  std::vector<Rank> run(int world, const Body &body, bool vendorSums = false,
                        SessionOptions options = {}) {
    Socket socket;
    EXPECT_TRUE(listenAt(0, socket).ok());
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    ::getsockname(socket.get(), reinterpret_cast<sockaddr *>(&address), &size);
    const int port = ntohs(address.ss_family == AF_INET6
                               ? reinterpret_cast<const sockaddr_in6 &>(address).sin6_port
                               : reinterpret_cast<const sockaddr_in &>(address).sin_port);
    std::vector<Rank> ranks{size_t(world)};
    std::vector<std::thread> threads;
    for (int rank = 0; rank < world; ++rank)
      threads.emplace_back([&, rank] {
        ProcessRank which{rank,
                          world,
                          "127.0.0.1:" + std::to_string(port),
                          rank ? -1 : socket.release(),
                          {},
                          vendorSums,
                          {}};
        which.limits.exchange = std::chrono::milliseconds(1000);
        ranks[size_t(rank)].status = asRank(which, body, options, ranks[size_t(rank)]);
      });
    for (std::thread &thread : threads)
      thread.join();
    return ranks;
  }
  Status asRank(const ProcessRank &which, const Body &body, SessionOptions options, Rank &result) {
    TRAINRT_TRY(joinRanks(which, options.ranks));
    options.threads = 1;
    std::unique_ptr<Session> session;
    Status status = Session::create(package, options, session);
    if (status.ok() && carrierOf)
      carrierOf(*options.ranks);
    if (status.ok())
      status = body(*session, which.rank);
    if (!status.ok()) {
      options.ranks->abort(status);
      return status;
    }
    result.values = valuesOf(*session);
    result.steps = session->stepCount();
    return {};
  }

  const TinyBatch batches[4] = {TinyBatch(6), TinyBatch(3, 2), TinyBatch(5, 3), TinyBatch(4, 4)};
  std::vector<Batch> firstBatches(int count) const {
    std::vector<Batch> list;
    for (int i = 0; i < count; ++i)
      list.push_back(batches[i].batch());
    return list;
  }
  /// A step of one micro-batch each.
  Body stepping(int steps) const {
    return [this, steps](Session &session, int rank) {
      StepResult result;
      for (int step = 0; step < steps; ++step)
        TRAINRT_TRY(session.step({batches[rank].batch()}, {}, result));
      return Status();
    };
  }
  /// The same, each step begun before the one before it has ended where that is possible.
  Body lagging(int steps) const {
    return [this, steps](Session &session, int rank) {
      StepOptions lag;
      lag.lag = true;
      StepResult result;
      for (int step = 0; step < steps; ++step)
        TRAINRT_TRY(session.step({batches[rank].batch()}, lag, result));
      return session.finish(result);
    };
  }
  /// So many ranks, ahead of the GPU, of each other's outcomes, too, and command by command.
  void expectStepsOfOne(int world) {
    const Bytes expected = alone(firstBatches(world), 3);
    SessionOptions options;
    auto expectRun = [&](const Body &body) {
      for (const Rank &rank : run(world, body, false, options)) {
        ASSERT_TRUE(rank.status.ok()) << rank.status.message();
        EXPECT_EQ(rank.steps, 3);
        EXPECT_EQ(rank.values, expected);
      }
    };
    expectRun(stepping(3));
    expectRun(lagging(3));
    options.synchronous = true;
    expectRun(stepping(3));
  }
  static void expectLost(const std::vector<Rank> &ranks, const std::string &words) {
    bool found = false;
    for (const Rank &rank : ranks) {
      EXPECT_EQ(rank.status.code(), Code::RankLost) << rank.status.message();
      found |= rank.status.message().find(words) != std::string::npos;
    }
    EXPECT_TRUE(found) << ranks[0].status.message() << "\n" << ranks[1].status.message();
  }

  FakeNccl *nccl = nullptr;
  std::function<void(const Communicator &)> carrierOf; ///< asked by each rank that has a session
};

using Kind = Collective::Kind;

inline cuda::DeviceAddress addressOf(const void *memory) {
  return reinterpret_cast<cuda::DeviceAddress>(memory);
}

/// What a rank exchanges with, while others do in threads of theirs.
struct ExchangeOfOne {
  cuda::RankExchange &exchange;
  const cuda::Context &context;
  cuda::CUstream stream;
  cuda::Event done[8];
  size_t next = 0;

  void run(Kind kind, SumTypes types, std::span<const cuda::RankExchange::Tensor> tensors) {
    ASSERT_TRUE(done[next].create(context, 0).ok());
    const Status status = exchange.run(kind, types, tensors, done[next], stream);
    ASSERT_TRUE(status.ok()) << status.message();
    ++next;
  }
  void finish() {
    ASSERT_TRUE(exchange.finish(stream).ok());
    ASSERT_EQ(context.driver().cuEventSynchronize(done[next - 1].get()), 0);
  }
};

/// What a rank that is a process sees of the others, here a thread's.
struct AsProcess : Communicator {
  AsProcess(std::unique_ptr<Communicator> &&thread, bool vendorSums)
      : Communicator(thread->rank(), thread->world(),
                     {thread->ranksPerNode(), thread->ranksPerReplica()}),
        thread(std::move(thread)), vendorSums(vendorSums) {}
  Status exchange(std::span<const Sent> sent, std::span<const Received> received) override {
    return thread->exchange(sent, received);
  }
  void abort(const Status &why) override { thread->abort(why); }
  Status failure() const override { return thread->failure(); }
  bool wantsVendorSums() const override { return vendorSums; }
  std::unique_ptr<Communicator> thread;
  const bool vendorSums;
};

/// Ranks as threads, on one GPU or, where GPUs reach each other's memory, as if they were
/// processes; the fake GPU has the host's memory. `perReplica`: that share one; 0: all.
/// `vendorSums`: these processes have NCCL, with its sums.
inline void exchangeTogether(int world, int64_t stagingBytes,
                             const std::function<void(ExchangeOfOne &)> &body, bool areProcesses,
                             int perReplica = 0, bool vendorSums = false) {
  std::vector<std::unique_ptr<Communicator>> ranks = createThreadRanks(world, {0, perReplica}),
                                             ends = createThreadRanks(world);
  for (std::unique_ptr<Communicator> &rank : ranks)
    if (areProcesses)
      rank = std::make_unique<AsProcess>(std::move(rank), vendorSums);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world; ++rank)
    threads.emplace_back([&, rank] {
      std::unique_ptr<cuda::Context> context;
      ASSERT_TRUE(cuda::Context::open(0, context).ok());
      const cuda::Driver &driver = context->driver();
      cuda::CUstream stream = nullptr;
      ASSERT_EQ(driver.cuStreamCreate(&stream, 0), 0);
      std::unique_ptr<cuda::RankExchange> exchange;
      ASSERT_TRUE(cuda::RankExchange::open(*context, ranks[size_t(rank)].get(), exchange).ok());
      EXPECT_EQ(ranks[size_t(rank)]->carrier, vendorSums     ? "NCCL"
                                              : areProcesses ? "each other's memory"
                                                             : "");
      std::vector<unsigned char> staging(size_t(stagingBytes), 0xcd);
      exchange->stageAt(addressOf(staging.data()), stagingBytes);
      {
        ExchangeOfOne one{*exchange, *context, stream, {}};
        body(one);
        driver.cuStreamSynchronize(stream);
      }
      // Ranks that are threads end together, whatever has become of them.
      std::vector<std::string> all;
      ASSERT_TRUE(ends[size_t(rank)]->gather("", all).ok());
      exchange.reset();
      driver.cuStreamDestroy(stream);
    });
  for (std::thread &thread : threads)
    thread.join();
}

/// Of a tensor of a rank an element, which is added up to other bits in another order.
template <typename T> T number(int rank, size_t tensor, int64_t i) {
  return T((rank * 7 + int(tensor) * 3 + i) % 11 - 5) * (i % 3 ? T(1) : T(1 << 20)) / T(3 + rank);
}
template <typename T> T sumOf(int world, size_t tensor, int64_t i) {
  T sum = 0;
  for (int rank = 0; rank < world; ++rank)
    sum += number<T>(rank, tensor, i);
  return sum;
}

/// Several collectives behind each other, of tensors of these sizes each.
template <typename T>
void expectSums(int world, DType dtype, const std::vector<std::vector<int64_t>> &collectives,
                bool areProcesses = false) {
  int64_t staging = 0;
  for (const std::vector<int64_t> &sizes : collectives)
    staging =
        std::max(staging, ExchangeWork::ofSums(int64_t(sizeof(T)), sizes, world).deviceStaging());
  exchangeTogether(
      world, staging,
      [&](ExchangeOfOne &one) {
        std::vector<std::vector<T>> values;
        for (const std::vector<int64_t> &sizes : collectives) {
          std::vector<cuda::RankExchange::Tensor> tensors;
          for (int64_t size : sizes) {
            std::vector<T> &value = values.emplace_back();
            for (int64_t i = 0; i < size; ++i)
              value.push_back(number<T>(one.exchange.rank(), values.size(), i));
            tensors.push_back(one.exchange.inPlace(dtype, addressOf(value.data()), size));
          }
          one.run(Kind::AllReduce, dtype, tensors);
        }
        one.finish();
        size_t wrong = 0;
        for (size_t t = 0; t < values.size(); ++t)
          for (size_t i = 0; i < values[t].size(); ++i) {
            const T sum = sumOf<T>(world, t + 1, int64_t(i));
            wrong += std::memcmp(&sum, &values[t][i], sizeof sum) != 0;
          }
        EXPECT_EQ(wrong, 0u) << "rank " << one.exchange.rank() << " of " << world;
      },
      areProcesses);
}

/// The shards of sums, behind an all-reduce that has not left, and what they are together.
template <typename T>
void expectShards(int world, DType dtype, const std::vector<CutSize> &sizes,
                  bool areProcesses = false, int perReplica = 0) {
  const int holders = perReplica ? perReplica : world;
  std::vector<int64_t> shards;
  for (const CutSize &size : sizes)
    shards.push_back(size.shard);
  const ExchangeWork work =
      ExchangeWork::ofSumsInShards(int64_t(sizeof(T)), shards, world, holders);
  EXPECT_EQ(ExchangeWork::ofShards(int64_t(sizeof(T)), shards, world).deviceStaging(), 0);
  exchangeTogether(
      world, std::max<int64_t>(work.deviceStaging(), world * 256),
      [&](ExchangeOfOne &one) {
        const int rank = one.exchange.rank();
        std::vector<std::vector<T>> values, own, whole;
        std::vector<cuda::RankExchange::Tensor> cut, together;
        for (const auto &[elements, shard] : sizes) {
          std::vector<T> &value = values.emplace_back();
          for (int64_t i = 0; i < elements; ++i)
            value.push_back(number<T>(rank, values.size(), i));
          own.emplace_back(size_t(shard), T(77));
          whole.emplace_back(size_t(elements), T(78));
          cut.push_back({addressOf(value.data()), addressOf(own.back().data()), {elements, shard}});
          together.push_back(
              {addressOf(whole.back().data()), addressOf(own.back().data()), {elements, shard}});
        }
        T flag = T(rank + 1);
        const auto small = one.exchange.inPlace(dtype, addressOf(&flag), 1);
        one.run(Kind::AllReduce, dtype, {&small, 1});
        one.run(Kind::ReduceScatter, dtype, cut);
        one.run(Kind::AllGather, dtype, together);
        one.finish();
        EXPECT_EQ(flag, T(world * (world + 1) / 2));
        size_t wrong = 0;
        auto expect = [&](T found, T expected) {
          wrong += std::memcmp(&found, &expected, sizeof(T)) != 0;
        };
        for (size_t t = 0; t < sizes.size(); ++t) {
          const auto &[elements, shard] = sizes[t];
          for (int64_t i = 0; i < shard; ++i) {
            const int64_t at = rank % holders * shard + i;
            expect(own[t][size_t(i)], at < elements ? sumOf<T>(world, t + 1, at) : T(0));
          }
          for (int64_t i = 0; i < elements; ++i) {
            expect(whole[t][size_t(i)], sumOf<T>(world, t + 1, i));
            expect(values[t][size_t(i)], number<T>(rank, t + 1, i));
          }
        }
        EXPECT_EQ(wrong, 0u) << "rank " << rank << " of " << world << ", " << holders;
      },
      areProcesses, perReplica);
}

/// Numbers of 16 bits, which stay as they are: their sums, then the shards of sums.
template <typename Narrow>
void expectNarrow(int world, const std::vector<int64_t> &sizes, bool areProcesses,
                  int perReplica = 0) {
  const SumTypes types(narrowType<Narrow>, DType::F32);
  const int holders = perReplica ? perReplica : world;
  std::vector<int64_t> shards;
  for (int64_t size : sizes)
    shards.push_back((size + holders - 1) / holders + 3);
  const int64_t staging =
      std::max(ExchangeWork::ofSums(types.bytes(), sizes, world).deviceStaging(),
               ExchangeWork::ofSumsInShards(types.bytes(), shards, world, holders).deviceStaging());
  exchangeTogether(
      world, staging,
      [&](ExchangeOfOne &one) {
        const int rank = one.exchange.rank();
        std::vector<std::vector<Narrow>> values;
        std::vector<std::vector<float>> sums, own;
        std::vector<cuda::RankExchange::Tensor> whole, cut;
        for (size_t t = 0; t < sizes.size(); ++t) {
          values.push_back(narrowNumbers<Narrow>(rank, t, sizes[t]));
          sums.emplace_back(size_t(sizes[t]), 77.0f);
          own.emplace_back(size_t(shards[t]), 78.0f);
          const cuda::DeviceAddress from = addressOf(values[t].data());
          whole.push_back(
              one.exchange.reduced(DType::F32, from, addressOf(sums[t].data()), sizes[t]));
          cut.push_back({from, addressOf(own[t].data()), {sizes[t], shards[t]}});
        }
        one.run(Kind::AllReduce, types, whole);
        one.run(Kind::ReduceScatter, types, cut);
        one.finish();
        size_t wrong = 0;
        auto expect = [&](float found, float expected) {
          wrong += std::memcmp(&found, &expected, sizeof found) != 0;
        };
        for (size_t t = 0; t < sizes.size(); ++t) {
          for (int64_t i = 0; i < sizes[t]; ++i) {
            expect(sums[t][size_t(i)], narrowSum<Narrow>(world, t, i));
            wrong += values[t][size_t(i)].bits != narrowNumber<Narrow>(rank, t, i).bits;
          }
          for (int64_t i = 0; i < shards[t]; ++i) {
            const int64_t at = rank % holders * shards[t] + i;
            expect(own[t][size_t(i)], at < sizes[t] ? narrowSum<Narrow>(world, t, at) : 0.0f);
          }
        }
        EXPECT_EQ(wrong, 0u) << "rank " << rank << " of " << world << ", " << holders;
      },
      areProcesses, perReplica);
}
/// `inBlocks`: of several, where what is added up is staged.
inline void expectNarrowOfAnySize(bool areProcesses, bool inBlocks) {
  // More ranges than a launch has, whose beginnings are aligned for four numbers or not.
  std::vector<int64_t> many;
  for (int64_t i = 0; i < 70; ++i)
    many.push_back(i * i % 131);
  for (auto [world, perReplica] : {std::pair(2, 0), {3, 0}, {5, 0}, {4, 2}, {6, 3}}) {
    expectNarrow<BFloat16>(world, many, areProcesses, perReplica);
    expectNarrow<Float16>(world, {7, 4096, 0, 1001, 1}, areProcesses, perReplica);
  }
  if (inBlocks)
    expectNarrow<BFloat16>(2, {34'000'000, 5}, areProcesses);
}
inline void expectSumsOfAnySize(bool areProcesses) {
  // More ranges than a launch has, of any size; more than a block.
  std::vector<int64_t> many;
  for (int64_t i = 0; i < 70; ++i)
    many.push_back(i * i % 131);
  for (int world : {2, 3, 5}) {
    expectSums<float>(world, DType::F32, {many, {1}, {7, 64, 0, 1001}, many}, areProcesses);
    expectSums<double>(world, DType::F64, {{13, 2}, many}, areProcesses);
  }
  expectSums<float>(2, DType::F32, {{17'000'000, 5}, {9}}, areProcesses);
}

inline void expectShardsOfAnySize(bool areProcesses) {
  for (int world : {2, 3, 5}) {
    // Shards that end with their tensor, within the next to last, and that have nothing of it; of
    // more ranges than a launch has.
    std::vector<CutSize> sizes = {{12 * world, 12}, {world * 64 - 61, 64}, {7, 16}, {0, 4}};
    for (int64_t i = 1; i < 70; ++i)
      sizes.push_back({i, (i + world - 1) / world});
    expectShards<float>(world, DType::F32, sizes, areProcesses);
    expectShards<double>(world, DType::F64, sizes, areProcesses);
  }
  // Of several blocks.
  expectShards<float>(2, DType::F32, {{17'000'000, 8'503'296}, {9, 4096}}, areProcesses);
}

inline void expectShardsOfReplicas(bool areProcesses) {
  for (auto [world, perReplica] : {std::pair(2, 1), {4, 2}, {4, 1}, {6, 2}, {6, 3}}) {
    // Slices that end with their shard, within it, and that have nothing of it.
    std::vector<CutSize> sizes = {{12 * perReplica, 12}, {perReplica * 64 - 61, 64}, {7, 16}};
    for (int64_t i = 1; i < 30; ++i)
      sizes.push_back({i, (i + perReplica - 1) / perReplica});
    expectShards<float>(world, DType::F32, sizes, areProcesses, perReplica);
    expectShards<double>(world, DType::F64, {{41, 41}, {0, 4}}, areProcesses, perReplica);
  }
}

inline void expectBytesOfAnyType(bool areProcesses) {
  const CutSize size{11, 4};
  exchangeTogether(
      3, 0,
      [&](ExchangeOfOne &one) {
        unsigned char own[4], whole[12] = {};
        for (int i = 0; i < 4; ++i)
          own[i] = static_cast<unsigned char>(one.exchange.rank() * 4 + i + 1);
        const cuda::RankExchange::Tensor tensor{addressOf(whole), addressOf(own), size};
        one.run(Kind::AllGather, DType::U8, {&tensor, 1});
        one.finish();
        for (int i = 0; i < 12; ++i)
          EXPECT_EQ(whole[i], i < 11 ? i + 1 : 0);
      },
      areProcesses);
}
} // namespace

#endif // TRAINRT_TESTS_CUDA_RANKS_FIXTURE_H
