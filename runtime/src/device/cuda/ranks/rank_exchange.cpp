// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which way ranks take, and what all have in common.

#include "device/cuda/ranks/rank_exchange.h"
#include "device/cuda/device.h"
#include "device/cuda/kernels/embedded_kernels.h"
#include "device/cuda/kernels/rank_sums.h"

namespace trainrt::cuda {

namespace {
constexpr const char *sumsName = "rank_sums";
constexpr unsigned verdictThreads = 256, sumThreads = 256, mostSumBlocks = 2048;
} // namespace

/// NCCL's own sums are not to be had without it.
Status RankExchange::open(const Context &context, Communicator *ranks,
                          std::unique_ptr<RankExchange> &exchange) {
  if (ranks && ranks->sharesMemory())
    return createPieceExchange(context, ranks, exchange);
  std::string name = "each other's memory", why;
  if (ranks && ranks->world() > 1 && !ranks->wantsVendorSums())
    TRAINRT_TRY(createPeerExchange(context, *ranks, exchange, why));
  if (!exchange) {
    TRAINRT_TRY(createPieceExchange(context, ranks, exchange));
    name = why.empty() ? "NCCL" : "NCCL, as " + why;
  }
  if (ranks)
    ranks->carrier = name;
  return {};
}

RankExchange::~RankExchange() {
  if (module)
    driver.cuModuleUnload(module);
}

Status RankExchange::loadSums() {
  if (!hasEmbedded(sumsName))
    return Status(Code::Unsupported, "this build of libtrainrt has no kernels of its own, by which "
                                     "ranks on GPUs add up; build it where clang has the target "
                                     "NVPTX");
  const char *what = "cannot load the runtime's kernels for the sums over ranks";
  TRAINRT_TRY(loadEmbedded(driver, sumsName, what, module));
  TRAINRT_TRY(
      driver.check(driver.cuModuleGetFunction(&sums[0], module, "trainrt_rank_sums_f32"), what));
  TRAINRT_TRY(
      driver.check(driver.cuModuleGetFunction(&sums[1], module, "trainrt_rank_sums_f64"), what));
  return driver.check(driver.cuModuleGetFunction(&verdicts, module, "trainrt_verdict"), what);
}

/// Of any way that ranks may take.
int64_t stagingBytes(const ExecutionPlan &plan, int world, int shards) {
  int64_t most = 0;
  for (const ExecutionPlan::Step &step : plan.steps)
    if (const auto *op = std::get_if<Collective>(&step.command->op))
      most =
          std::max(most, CollectiveView(plan.view(step), *op).work(world, shards).deviceStaging());
  return most;
}

/// Where nothing of a shard is within the tensor nobody asks for its address.
RankExchange::Tensor RankExchange::inPlace(DType dtype, DeviceAddress address,
                                           int64_t elements) const {
  const int64_t shard = (elements + world() - 1) / world();
  return {
      address, address + DeviceAddress(rank() * shard * int64_t(sizeOf(dtype))), {elements, shard}};
}

std::chrono::milliseconds RankExchange::limit() const {
  return ranks ? ranks->limit() : std::chrono::milliseconds(std::chrono::minutes(2));
}

Status RankExchange::judge(DeviceAddress slots, int64_t count, DeviceAddress verdict,
                           CUstream stream) const {
  VerdictArguments arguments{slots, count, verdict};
  void *parameters[] = {&arguments};
  return driver.check(driver.cuLaunchKernel(verdicts, 1, 1, 1, verdictThreads, 1, 1, 0, stream,
                                            parameters, nullptr),
                      "cannot start the runtime's kernel for the verdict of a step");
}

Status RankExchange::launchSums(DType dtype, RankSumsArguments arguments,
                                std::span<const RankSumsArguments::Range> ranges,
                                CUstream stream) const {
  while (!ranges.empty()) {
    const auto some =
        ranges.first(std::min<size_t>(ranges.size(), size_t(RankSumsArguments::mostRanges)));
    ranges = ranges.subspan(some.size());
    std::copy(some.begin(), some.end(), arguments.ranges);
    int64_t most = 0;
    for (const RankSumsArguments::Range &range : some)
      most = std::max(most, range.elements);
    const auto blocks =
        unsigned(std::min<int64_t>(mostSumBlocks, (most + sumThreads - 1) / sumThreads));
    void *parameters[] = {&arguments};
    TRAINRT_TRY(
        driver.check(driver.cuLaunchKernel(sums[dtype == DType::F64], blocks, unsigned(some.size()),
                                           1, sumThreads, 1, 1, 0, stream, parameters, nullptr),
                     "cannot start the runtime's kernel for the sums over ranks"));
  }
  return {};
}

Status RankExchange::record(const Event &event, CUstream stream) const {
  return driver.check(driver.cuEventRecord(event.get(), stream), "cannot record an event");
}

Status RankExchange::clearEnds(DType dtype, std::span<const Tensor> tensors,
                               CUstream stream) const {
  const auto width = int64_t(sizeOf(dtype));
  for (const Tensor &tensor : tensors)
    if (const int64_t there = tensor.size.there(shard()); there < tensor.size.shard)
      TRAINRT_TRY(
          driver.check(driver.cuMemsetD8Async(tensor.own + DeviceAddress(there * width), 0,
                                              size_t((tensor.size.shard - there) * width), stream),
                       "cannot clear what a shard has beyond its tensor"));
  return {};
}

} // namespace trainrt::cuda
