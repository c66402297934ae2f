// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks on GPUs that are emulated: as threads on one of them, and through a fake NCCL. Their steps
// are those of one session with all micro-batches; where one does not come, all end.

#include "comm/coordinator.h"
#include "comm/process_ranks.h"
#include "comm/thread_ranks.h"
#include "cuda/fake_nccl.h"
#include "cuda_fixture.h"
#include "device/cuda/ranks/rank_exchange.h"
#include "program_generated.h"
#include "session/estimate.h"
#include "session/ranks/rank_group.h"

#include <algorithm>
#include <climits>
#include <mutex>
#include <netinet/in.h>
#include <sys/socket.h>
#include <thread>

namespace {

using Bytes = std::vector<unsigned char>;

Bytes valuesOf(const Session &session) {
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
TinyOptions shardedTiny(int64_t shard) {
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
        ProcessRank which{
            rank, world,     "127.0.0.1:" + std::to_string(port), rank ? -1 : socket.release(),
            {},   vendorSums};
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
  static void expectLost(const std::vector<Rank> &ranks, const std::string &words) {
    bool found = false;
    for (const Rank &rank : ranks) {
      EXPECT_EQ(rank.status.code(), Code::RankLost) << rank.status.message();
      found |= rank.status.message().find(words) != std::string::npos;
    }
    EXPECT_TRUE(found) << ranks[0].status.message() << "\n" << ranks[1].status.message();
  }

  FakeNccl *nccl = nullptr;
};

} // namespace

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

namespace {
using Kind = Collective::Kind;

cuda::DeviceAddress addressOf(const void *memory) {
  return reinterpret_cast<cuda::DeviceAddress>(memory);
}

/// What a rank exchanges with, while others do in threads of theirs.
struct ExchangeOfOne {
  cuda::RankExchange &exchange;
  const cuda::Context &context;
  cuda::CUstream stream;
  cuda::Event done[8];
  size_t next = 0;

  void run(Kind kind, DType dtype, std::span<const cuda::RankExchange::Tensor> tensors) {
    ASSERT_TRUE(done[next].create(context, 0).ok());
    const Status status = exchange.run(kind, dtype, tensors, done[next], stream);
    ASSERT_TRUE(status.ok()) << status.message();
    ++next;
  }
  void finish() {
    ASSERT_TRUE(exchange.finish(stream).ok());
    ASSERT_EQ(context.driver().cuEventSynchronize(done[next - 1].get()), 0);
  }
};

/// Ranks as threads; the fake GPU has the host's memory.
void exchangeTogether(int world, int64_t stagingBytes,
                      const std::function<void(ExchangeOfOne &)> &body) {
  std::vector<std::unique_ptr<Communicator>> ranks = createThreadRanks(world),
                                             ends = createThreadRanks(world);
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
void expectSums(int world, DType dtype, const std::vector<std::vector<int64_t>> &collectives) {
  int64_t staging = 0;
  for (const std::vector<int64_t> &sizes : collectives)
    staging =
        std::max(staging, ExchangeWork::ofSums(int64_t(sizeof(T)), sizes, world).deviceStaging());
  exchangeTogether(world, staging, [&](ExchangeOfOne &one) {
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
  });
}

/// The shards of sums, behind an all-reduce that has not left, and what they are together.
template <typename T>
void expectShards(int world, DType dtype, const std::vector<cuda::CutSize> &sizes) {
  std::vector<int64_t> shards;
  for (const cuda::CutSize &size : sizes)
    shards.push_back(size.shard);
  const ExchangeWork work = ExchangeWork::ofSumsInShards(int64_t(sizeof(T)), shards, world);
  EXPECT_EQ(ExchangeWork::ofShards(int64_t(sizeof(T)), shards, world).deviceStaging(), 0);
  exchangeTogether(
      world, std::max<int64_t>(work.deviceStaging(), world * 256), [&](ExchangeOfOne &one) {
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
            const int64_t at = rank * shard + i;
            expect(own[t][size_t(i)], at < elements ? sumOf<T>(world, t + 1, at) : T(0));
          }
          for (int64_t i = 0; i < elements; ++i) {
            expect(whole[t][size_t(i)], sumOf<T>(world, t + 1, i));
            expect(values[t][size_t(i)], number<T>(rank, t + 1, i));
          }
        }
        EXPECT_EQ(wrong, 0u) << "rank " << rank << " of " << world;
      });
}
} // namespace

TEST_F(CudaRanks, AddUpInTheirOrder) {
  // More ranges than a launch has, of any size; more than a block.
  std::vector<int64_t> many;
  for (int64_t i = 0; i < 70; ++i)
    many.push_back(i * i % 131);
  for (int world : {2, 3, 5}) {
    expectSums<float>(world, DType::F32, {many, {1}, {7, 64, 0, 1001}, many});
    expectSums<double>(world, DType::F64, {{13, 2}, many});
  }
  expectSums<float>(2, DType::F32, {{8'400'000, 5}, {9}});
}

TEST_F(CudaRanks, CutSumsIntoShardsAndGatherThem) {
  for (int world : {2, 3, 5}) {
    // Shards that end with their tensor, within the next to last, and that have nothing of it; of
    // more ranges than a launch has.
    std::vector<cuda::CutSize> sizes = {{12 * world, 12}, {world * 64 - 61, 64}, {7, 16}, {0, 4}};
    for (int64_t i = 1; i < 70; ++i)
      sizes.push_back({i, (i + world - 1) / world});
    expectShards<float>(world, DType::F32, sizes);
    expectShards<double>(world, DType::F64, sizes);
  }
  // Of several blocks.
  expectShards<float>(2, DType::F32, {{8'400'000, 4'202'496}, {9, 4096}});
}

TEST_F(CudaRanks, GatherBytesOfAnyType) {
  const cuda::CutSize size{11, 4};
  exchangeTogether(3, 0, [&](ExchangeOfOne &one) {
    unsigned char own[4], whole[12] = {};
    for (int i = 0; i < 4; ++i)
      own[i] = static_cast<unsigned char>(one.exchange.rank() * 4 + i + 1);
    const cuda::RankExchange::Tensor tensor{addressOf(whole), addressOf(own), size};
    one.run(Kind::AllGather, DType::U8, {&tensor, 1});
    one.finish();
    for (int i = 0; i < 12; ++i)
      EXPECT_EQ(whole[i], i < 11 ? i + 1 : 0);
  });
}

TEST_F(CudaRanks, EndWhereOthersGatherOtherSizes) {
  std::string said[2];
  unsigned char own[2][4] = {}, whole[2][8]; // what is enqueued may come to them later
  exchangeTogether(2, 0, [&](ExchangeOfOne &one) {
    const int rank = one.exchange.rank();
    const cuda::CutSize size = rank ? cuda::CutSize{8, 4} : cuda::CutSize{6, 3};
    const cuda::RankExchange::Tensor tensor{addressOf(whole[rank]), addressOf(own[rank]), size};
    ASSERT_TRUE(one.done[0].create(one.context, 0).ok());
    const Status status =
        one.exchange.run(Kind::AllGather, DType::U8, {&tensor, 1}, one.done[0], one.stream);
    EXPECT_EQ(status.code(), Code::RankLost);
    said[rank] = status.message();
  });
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
    const Bytes expected = alone(firstBatches(world), 3);
    nccl->finalized = nccl->destroyed = 0;
    SessionOptions options;
    for (bool synchronous : {false, true}) {
      options.synchronous = synchronous;
      for (const Rank &rank : run(world, stepping(3), false, options)) {
        ASSERT_TRUE(rank.status.ok()) << rank.status.message();
        EXPECT_EQ(rank.steps, 3);
        EXPECT_EQ(rank.values, expected);
      }
    }
    EXPECT_EQ(nccl->destroyed, 2 * world);
  }
  EXPECT_EQ(nccl->sums, 0);
  EXPECT_EQ(nccl->aborted, 0);
  EXPECT_STREQ(getenv("NCCL_NVLS_ENABLE"), "0");
}

TEST_F(CudaRanks, AgreeWhileTheUpdateBeforeRuns) {
  const Bytes expected = alone(firstBatches(2), 3);
  StepOptions lag;
  lag.lag = true;
  const auto body = [&](Session &session, int rank) {
    StepResult result;
    double first = 0;
    for (int step = 0; step < 3; ++step) {
      TRAINRT_TRY(session.step({batches[rank].batch()}, lag, result));
      EXPECT_EQ(result.step, step);
      EXPECT_EQ(session.stepCount(), step);
      if (step == 1)
        first = result.loss;
    }
    // What one cannot do fails on all, and the step before is told nevertheless.
    TinyBatch wrong = batches[rank];
    wrong.id[0] = rank ? 77 : wrong.id[0];
    const Status refused = session.step({wrong.batch()}, lag, result);
    EXPECT_EQ(refused.code(), Code::BadData) << refused.message();
    EXPECT_TRUE(refused.message().starts_with("rank 1: ")) << refused.message();
    TRAINRT_TRY(session.finish(result));
    EXPECT_EQ(result.step, 3);
    EXPECT_NE(result.loss, first);
    EXPECT_TRUE(std::isfinite(result.loss));
    return Status();
  };
  for (const Rank &rank : run(2, body)) {
    ASSERT_TRUE(rank.status.ok()) << rank.status.message();
    EXPECT_EQ(rank.steps, 3);
    EXPECT_EQ(rank.values, expected);
  }
}

TEST_F(CudaRanks, AgreeAheadOfALossThatIsNotFinite) {
  const Bytes expected = alone(firstBatches(2), 1);
  StepOptions lag;
  lag.lag = true;
  const auto body = [&](Session &session, int rank) {
    StepResult result;
    TinyBatch bad = batches[rank];
    bad.x[0] = rank ? NAN : bad.x[0];
    TRAINRT_TRY(session.step({batches[rank].batch()}, lag, result));
    TRAINRT_TRY(session.step({bad.batch()}, lag, result));
    EXPECT_EQ(result.step, 1);
    const Status status = session.step({batches[rank].batch()}, lag, result);
    EXPECT_EQ(status.code(), Code::Nonfinite) << status.message();
    EXPECT_EQ(result.step, 2);
    // Nobody is told of a step that was not made.
    TRAINRT_TRY(session.finish(result));
    EXPECT_EQ(result.step, 0);
    return Status();
  };
  for (const Rank &rank : run(2, body)) {
    ASSERT_TRUE(rank.status.ok()) << rank.status.message();
    EXPECT_EQ(rank.steps, 1);
    EXPECT_EQ(rank.values, expected);
  }
}

TEST_F(CudaRanks, EndWhereAnExchangeThatNobodyHasWaitedForIsStuck) {
  nccl->stuckGroup = 3; // one to connect, two a step
  StepOptions lag;
  lag.lag = true;
  expectLost(run(2,
                 [&](Session &session, int rank) {
                   StepResult result;
                   TRAINRT_TRY(session.step({batches[rank].batch()}, lag, result));
                   return session.finish(result);
                 }),
             "step 1: exchange of the gradient of parameter 'w': the others have not come within "
             "1 s");
  EXPECT_EQ(nccl->aborted, 2);
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

TEST_F(CudaRanks, EndWhereAGatherFails) {
  open(shardedTiny(2));
  nccl->failingGroup = 5; // one to connect, two a step
  expectLost(run(2, stepping(3)), "step 2: exchange of ");
  EXPECT_EQ(nccl->aborted, 2);
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
