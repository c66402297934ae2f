// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How fast the GPUs of one machine exchange, a process each: exchange-bench RANKS [BLOCKS...].
//
// Of each collective, size (MB of f32) and number of tensors that this is in, milliseconds (median
// of 20) and GB/s that a GPU sends, which is what it gets: of n bytes 2 n (W - 1) / W in an
// all-reduce and half of that in the others. "bf16": as many numbers of bf16, with sums in f32;
// pieces are half. BLOCKS are those of the exchanges' kernels; without,
// 8, 16 and 32. TRAINRT_EXCHANGE=nccl measures NCCL. Sums are checked.

#include "comm/process_ranks.h"
#include "device/cuda/ranks/rank_exchange.h"

#include <bit>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

using namespace trainrt;
using namespace trainrt::cuda;

namespace {

constexpr int repetitions = 20;
using Kind = Collective::Kind;

struct Case {
  Kind kind;
  const char *name;
  int64_t megabytes, tensors;
  SumTypes types = DType::F32;
};
const SumTypes narrow(DType::BF16, DType::F32);
const Case cases[] = {
    {Kind::AllReduce, "all_reduce", 25, 1},
    {Kind::AllReduce, "all_reduce", 100, 1},
    {Kind::AllReduce, "all_reduce", 100, 64},
    {Kind::AllReduce, "all_reduce", 400, 8},
    {Kind::AllReduce, "all_reduce", 1, 256},
    {Kind::ReduceScatter, "reduce_scatter", 100, 16},
    {Kind::ReduceScatter, "reduce_scatter", 400, 8},
    {Kind::AllReduce, "all_reduce bf16", 100, 64, narrow},
    {Kind::AllReduce, "all_reduce bf16", 400, 8, narrow},
    {Kind::AllReduce, "all_reduce bf16", 1, 256, narrow},
    {Kind::ReduceScatter, "reduce_scatter bf16", 400, 8, narrow},
    {Kind::AllGather, "all_gather", 100, 16},
    {Kind::AllGather, "all_gather", 400, 8},
};
constexpr int64_t mostBytes = 400'000'000 + (1 << 20);

/// One rank's end.
struct Bench {
  const Context &context;
  Communicator &ranks;
  CUstream stream = nullptr;
  CUdeviceptr whole = 0, own = 0, staging = 0; ///< `own`: shards, or sums of another type
  static constexpr int checked = 1024;

  Status start() {
    const Driver &driver = context.driver();
    for (CUdeviceptr *memory : {&whole, &own, &staging})
      TRAINRT_TRY(driver.check(driver.cuMemAlloc(memory, size_t(mostBytes)), "no memory"));
    int least = 0, greatest = 0;
    driver.cuCtxGetStreamPriorityRange(&least, &greatest);
    return driver.check(
        driver.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, greatest), "no stream");
  }

  std::vector<RankExchange::Tensor> tensorsOf(const Case &what, const RankExchange &exchange) {
    std::vector<RankExchange::Tensor> tensors;
    const int64_t elements = what.megabytes * 1'000'000 / 4 / what.tensors / 64 * 64;
    const int64_t shard = (elements / 64 + ranks.world() - 1) / ranks.world() * 64;
    for (int64_t i = 0; i < what.tensors; ++i) {
      const auto at = DeviceAddress(i * elements * what.types.bytes().sent),
                 made = DeviceAddress(i * elements * 4);
      if (what.kind == Kind::AllReduce)
        tensors.push_back(exchange.reduced(
            DType::F32, whole + at, what.types.widens() ? own + made : whole + at, elements));
      else
        tensors.push_back({whole + at, own + DeviceAddress(i * shard * 4), {elements, shard}});
    }
    return tensors;
  }

  /// The first elements, which are small numbers, once.
  Status check(RankExchange &exchange, const Case &what, const Event &done) {
    const Driver &driver = context.driver();
    const std::vector<RankExchange::Tensor> tensors = tensorsOf(what, exchange);
    auto copied = [&](CUresult result) {
      TRAINRT_TRY(driver.check(result, "cannot copy"));
      return driver.check(driver.cuStreamSynchronize(stream), "cannot copy");
    };
    // Small enough for 8 bits of bf16.
    auto number = [](int rank, int i) { return float(i % 128 + rank); };
    std::vector<float> host(checked);
    for (int i = 0; i < checked; ++i)
      host[size_t(i)] = number(ranks.rank(), i);
    std::vector<uint16_t> high(checked);
    for (int i = 0; i < checked; ++i)
      high[size_t(i)] = uint16_t(std::bit_cast<uint32_t>(host[size_t(i)]) >> 16);
    const void *from = host.data();
    if (what.types.widens())
      from = high.data();
    TRAINRT_TRY(copied(
        driver.cuMemcpyHtoDAsync(what.kind == Kind::AllGather ? tensors[0].own : tensors[0].whole,
                                 from, size_t(checked * what.types.bytes().sent), stream)));
    TRAINRT_TRY(exchange.run(what.kind, what.types, tensors, done, stream));
    TRAINRT_TRY(exchange.finish(stream));
    TRAINRT_TRY(driver.check(driver.cuStreamSynchronize(stream), "cannot exchange"));
    const bool isShard = what.kind == Kind::ReduceScatter;
    const bool isWhole = what.kind == Kind::AllReduce;
    TRAINRT_TRY(copied(driver.cuMemcpyDtoHAsync(host.data(),
                                                isShard   ? tensors[0].own
                                                : isWhole ? tensors[0].sums
                                                          : tensors[0].whole,
                                                checked * 4, stream)));
    for (int i = 0; i < checked && (!isShard || ranks.rank() == 0); ++i) {
      float sum = 0;
      for (int rank = 0; rank < ranks.world(); ++rank)
        sum += number(rank, i);
      if (host[size_t(i)] != (what.kind == Kind::AllGather ? number(0, i) : sum))
        return fail(Code::Internal, what.name, ": element ", i, " is ", host[size_t(i)]);
    }
    return {};
  }

  Status measure(RankExchange &exchange, const Case &what, const char *blocks) {
    const Driver &driver = context.driver();
    const std::vector<RankExchange::Tensor> tensors = tensorsOf(what, exchange);
    exchange.stageAt(staging, mostBytes);
    Event begin, end, done;
    TRAINRT_TRY(begin.create(context, CU_EVENT_DEFAULT));
    TRAINRT_TRY(end.create(context, CU_EVENT_DEFAULT));
    TRAINRT_TRY(done.create(context, CU_EVENT_DISABLE_TIMING));
    TRAINRT_TRY(check(exchange, what, done));
    std::vector<float> times;
    for (int i = 0; i < repetitions + 3; ++i) {
      TRAINRT_TRY(exchange.run(what.kind, what.types, tensors, done, stream));
      TRAINRT_TRY(exchange.finish(stream));
      // Two behind each other: the second one's ranks begin together.
      driver.cuEventRecord(begin.get(), stream);
      TRAINRT_TRY(exchange.run(what.kind, what.types, tensors, done, stream));
      TRAINRT_TRY(exchange.finish(stream));
      driver.cuEventRecord(end.get(), stream);
      TRAINRT_TRY(driver.check(driver.cuStreamSynchronize(stream), "cannot exchange"));
      float milliseconds = 0;
      driver.cuEventElapsedTime(&milliseconds, begin.get(), end.get());
      times.push_back(milliseconds);
    }
    times.erase(times.begin(), times.begin() + 3);
    std::sort(times.begin(), times.end());
    const double median = times[times.size() / 2];
    const auto [from, made] = what.types.bytes();
    const double sent = double(what.megabytes) * 1e6 * (ranks.world() - 1) / ranks.world() *
                        double(from + (what.kind == Kind::AllReduce ? made : 0)) / 4;
    if (ranks.rank() == 0)
      std::printf("%-6s %-19s %4ld MB in %3ld  %8.3f ms  %7.1f GB/s\n", blocks, what.name,
                  long(what.megabytes), long(what.tensors), median, sent / median / 1e6);
    return {};
  }
};

Status run(int rank, int world, const std::vector<std::string> &blocks) {
  std::shared_ptr<Communicator> ranks;
  TRAINRT_TRY(joinRanks({rank, world, "127.0.0.1:29617", -1, {}, false, {}}, ranks));
  std::unique_ptr<Context> context;
  TRAINRT_TRY(Context::open(rank, context));
  const CurrentContext current = context->makeCurrent();
  Bench bench{*context, *ranks};
  TRAINRT_TRY(bench.start());
  for (const std::string &count : blocks) {
    setenv("TRAINRT_EXCHANGE_BLOCKS", count.c_str(), 1);
    std::unique_ptr<RankExchange> exchange;
    TRAINRT_TRY(RankExchange::open(*context, ranks.get(), exchange));
    if (rank == 0)
      std::printf("%s blocks, %s\n", count.c_str(), ranks->carrier.c_str());
    for (const Case &what : cases)
      TRAINRT_TRY(bench.measure(*exchange, what, count.c_str()));
  }
  return {};
}

} // namespace

int main(int count, char **arguments) {
  const int world = count > 1 ? std::atoi(arguments[1]) : 0;
  if (world < 2) {
    std::fprintf(stderr, "usage: exchange-bench RANKS [BLOCKS...]\n");
    return 2;
  }
  std::vector<std::string> blocks(arguments + 2, arguments + count);
  if (blocks.empty())
    blocks = {"8", "16", "32"};
  for (int rank = 0; rank < world; ++rank)
    if (::fork() == 0) {
      const Status status = run(rank, world, blocks);
      if (!status.ok())
        std::fprintf(stderr, "rank %d: %s\n", rank, status.message().c_str());
      std::fflush(nullptr);
      ::_exit(status.ok() ? 0 : 1);
    }
  int failed = 0, status = 0;
  while (::wait(&status) > 0)
    failed |= status != 0;
  return failed;
}
