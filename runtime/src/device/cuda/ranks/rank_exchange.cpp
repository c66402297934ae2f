// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which way ranks take, and what all have in common.

#include "device/cuda/ranks/rank_exchange.h"
#include "device/cuda/device.h"

namespace trainrt::cuda {

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

RankExchange::~RankExchange() = default;

Status RankExchange::loadKernels() { return RankKernels::load(driver, loaded); }

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
RankExchange::Tensor RankExchange::reduced(DType made, DeviceAddress address, DeviceAddress sums,
                                           int64_t elements) const {
  const int64_t shard = (elements + world() - 1) / world();
  const auto begin = DeviceAddress(rank() * shard * int64_t(sizeOf(made)));
  return {address, sums + begin, {elements, shard}, sums};
}

std::chrono::milliseconds RankExchange::limit() const {
  return ranks ? ranks->limit() : std::chrono::milliseconds(std::chrono::minutes(2));
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
