// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Each rank adds up one part of all tensors, a block at a time: every other one sends it that, and
// gets the sums. Pieces are sent from where they are and arrive where they belong; only what is
// added up is staged.

#include "device/cuda/ranks/rank_exchange.h"
#include "device/cuda/device.h"
#include "device/cuda/kernels/embedded_kernels.h"

#include <algorithm>
#include <cassert>

namespace trainrt::cuda {

namespace {
constexpr const char *sumsName = "rank_sums";
constexpr unsigned threads = 256, mostBlocks = 2048;
} // namespace

Status RankExchange::open(const Context &context, Communicator *ranks,
                          std::unique_ptr<RankExchange> &exchange) {
  std::unique_ptr<RankExchange> made(new RankExchange(context.driver(), ranks));
  TRAINRT_TRY(made->loadSums());
  TRAINRT_TRY(ranks && ranks->sharesMemory() ? createSharedRanks(context, *ranks, made->carrier)
                                             : createNcclRanks(context, ranks, made->carrier));
  exchange = std::move(made);
  return {};
}

RankExchange::~RankExchange() {
  carrier.reset();
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
  return driver.check(driver.cuModuleGetFunction(&sums[1], module, "trainrt_rank_sums_f64"), what);
}

int64_t stagingBytes(const ExecutionPlan &plan, int world) {
  int64_t most = 0;
  for (const ExecutionPlan::Step &step : plan.steps)
    if (const auto *op = std::get_if<Collective>(&step.command->op))
      most = std::max(
          most, RankParts(plan.view(step).sizes, world).stagingBytes(int64_t(sizeOf(op->dtype))));
  return most;
}

int64_t RankExchange::stagingBytes(DType dtype, std::span<const int64_t> elements) const {
  return RankParts(elements, world()).stagingBytes(int64_t(sizeOf(dtype)));
}

std::chrono::milliseconds RankExchange::limit() const {
  return ranks ? ranks->limit() : std::chrono::milliseconds(std::chrono::minutes(2));
}

void RankExchange::abort(const Status &why) {
  gathering = {};
  carrier->abort();
  if (ranks)
    ranks->abort(why);
}

/// Where a rank fails, the others wait for it: they are told.
Status RankExchange::allReduce(DType dtype, std::span<const Tensor> tensors, const Event &done,
                               CUstream stream) {
  Status status;
  if (ranks && ranks->wantsVendorSums()) {
    status = addByVendor(dtype, tensors, stream);
    if (status.ok())
      status = record(done, stream);
  } else {
    status = addInOrder(dtype, tensors, done, stream);
  }
  if (!status.ok())
    abort(status);
  return status;
}

/// The sums of the last block are still to be sent.
Status RankExchange::finish(CUstream stream) {
  if (!gathering.done)
    return {};
  Status status = carrier->exchange(gathering.sent, gathering.received, stream);
  if (status.ok())
    status = record(*gathering.done, stream);
  gathering = {};
  if (!status.ok())
    abort(status);
  return status;
}

Status RankExchange::record(const Event &event, CUstream stream) const {
  return driver.check(driver.cuEventRecord(event.get(), stream), "cannot record an event");
}

/// The sum of an element is made by one rank only, from zero over the ranks from 0 on, and sent to
/// the others together with the pieces of the next block: all ranks end with the same bits. Blocks
/// take the two halves of the staging in turn, as the sums of one leave while pieces of the next
/// come.
Status RankExchange::addInOrder(DType dtype, std::span<const Tensor> tensors, const Event &done,
                                CUstream stream) {
  assert((dtype == DType::F32 || dtype == DType::F64) && "readProgram refuses other sums");
  const int64_t size = int64_t(sizeOf(dtype));
  std::vector<int64_t> elements;
  for (const Tensor &tensor : tensors)
    elements.push_back(tensor.elements);
  const RankParts parts(elements, world());
  const int64_t block = parts.block(size);
  for (int64_t begin = 0; begin < parts.size(); begin += block) {
    const int64_t count = std::min(block, parts.size() - begin);
    const DeviceAddress half = staging + DeviceAddress(turn) * DeviceAddress(stagingSize / 2);
    turn ^= 1;
    auto piece = [&](int which) { return half + DeviceAddress(which * block * size); };
    // Each other rank's ranges in place, and those of this rank's part within a staged piece.
    auto pair = [&](int which, auto &inPlace, DeviceAddress stagedAt, auto &staged) {
      parts.forEach(which, begin, count, [&](const RankParts::Range &range) {
        if (range.there)
          inPlace.push_back({which, tensors[range.tensor].address + DeviceAddress(range.at * size),
                             range.there * size});
      });
      parts.forEach(rank(), begin, count, [&](const RankParts::Range &range) {
        if (range.there)
          staged.push_back(
              {which, stagedAt + DeviceAddress(range.begin * size), range.there * size});
      });
    };
    for (int which = 0; which < world(); ++which)
      if (which != rank())
        pair(which, gathering.sent, piece(which), gathering.received);
    TRAINRT_TRY(carrier->exchange(gathering.sent, gathering.received, stream));
    if (gathering.done)
      TRAINRT_TRY(record(*gathering.done, stream));
    gathering = {};
    RankSumsArguments arguments{half, block, world(), rank(), {}};
    std::vector<RankSumsArguments::Range> ranges;
    parts.forEach(rank(), begin, count, [&](const RankParts::Range &range) {
      if (range.there)
        ranges.push_back({tensors[range.tensor].address + DeviceAddress(range.at * size),
                          range.begin, range.there});
    });
    TRAINRT_TRY(launchSums(dtype, arguments, ranges, stream));
    for (int which = 0; which < world(); ++which)
      if (which != rank())
        pair(which, gathering.received, piece(rank()), gathering.sent);
    gathering.done = &done;
  }
  return {};
}

Status RankExchange::launchSums(DType dtype, RankSumsArguments arguments,
                                std::span<const RankSumsArguments::Range> ranges, CUstream stream) {
  while (!ranges.empty()) {
    const auto some =
        ranges.first(std::min<size_t>(ranges.size(), size_t(RankSumsArguments::mostRanges)));
    ranges = ranges.subspan(some.size());
    std::copy(some.begin(), some.end(), arguments.ranges);
    int64_t most = 0;
    for (const RankSumsArguments::Range &range : some)
      most = std::max(most, range.elements);
    const auto blocks = unsigned(std::min<int64_t>(mostBlocks, (most + threads - 1) / threads));
    void *parameters[] = {&arguments};
    TRAINRT_TRY(
        driver.check(driver.cuLaunchKernel(sums[dtype == DType::F64], blocks, unsigned(some.size()),
                                           1, threads, 1, 1, 0, stream, parameters, nullptr),
                     "cannot start the runtime's kernel for the sums over ranks"));
  }
  return {};
}

Status RankExchange::addByVendor(DType dtype, std::span<const Tensor> tensors, CUstream stream) {
  std::vector<DeviceRanks::Piece> pieces;
  for (const Tensor &tensor : tensors)
    if (tensor.elements)
      pieces.push_back({rank(), tensor.address, tensor.elements * int64_t(sizeOf(dtype))});
  return carrier->addUp(dtype, pieces, stream);
}

} // namespace trainrt::cuda
