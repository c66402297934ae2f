// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What ranks on GPUs do together; one alone has its sums already.

#include "device/cuda/commands/collective.h"
#include "device/cuda/commands.h"
#include "device/cuda/kernels/rank_sums.h"

#include <algorithm>

namespace trainrt::cuda {

CollectiveCommand::CollectiveCommand(const CollectiveView &step, const Context &context,
                                     RankExchange &exchange)
    : step(step), context(context), exchange(exchange) {}

Status CollectiveCommand::start() {
  for (Around &run : runs) {
    TRAINRT_TRY(run.begun.create(context, CU_EVENT_DISABLE_TIMING));
    TRAINRT_TRY(run.done.create(context, CU_EVENT_DISABLE_TIMING));
  }
  return {};
}

static_assert(sizeof(ErrorSlot) == 8 * VerdictArguments::wordsOfSlot, "the kernel goes over them");

void CollectiveCommand::resolve(const Addresses &addresses) {
  tensors.clear();
  slots = {addresses.firstError,
           int64_t(addresses.error - addresses.firstError) / int64_t(sizeof(ErrorSlot))};
  auto at = [&](size_t tensor) { return addresses.of(step.places[tensor]); };
  for (size_t i = 0; step.op.isInPlace() && i < step.numTensors(); ++i)
    tensors.push_back(exchange.inPlace(step.op.types.made, at(i), step.elements(i)));
  for (size_t i = 0; !step.op.isInPlace() && i < step.numPairs(); ++i) {
    const size_t whole = step.whole(i), own = step.own(i);
    if (step.op.kind == Collective::Kind::AllReduce)
      tensors.push_back(
          exchange.reduced(step.op.types.made, at(whole), at(own), step.elements(whole)));
    else
      tensors.push_back({at(whole), at(own), {step.elements(whole), step.elements(own)}});
  }
}

Status CollectiveCommand::begin(CUstream stream) const {
  turn ^= 1;
  return exchange.record(begun(), stream);
}

Status CollectiveCommand::enqueue(CUstream stream, Workspace) const {
  if (step.op.verdict)
    TRAINRT_TRY(exchange.kernels().judge(slots.first, slots.second, tensors[0].whole, stream));
  return exchange.run(step.op.kind, step.op.types, tensors, end(), stream);
}

bool CollectiveCommand::isRunning() const {
  const Driver &driver = context.driver();
  return std::ranges::any_of(runs, [&](const Around &run) {
    return driver.cuEventQuery(run.begun.get()) == CUDA_SUCCESS &&
           driver.cuEventQuery(run.done.get()) == CUDA_ERROR_NOT_READY;
  });
}

namespace {
/// Of a tensor the shard of the only rank, or of the shard the tensor; or the tensor in f32.
class CopyAlone final : public DeviceCommand {
public:
  /// `kernels`: where what is made is of another type; else null.
  CopyAlone(const CollectiveView &step, const Driver &driver, const RankKernels *kernels)
      : step(step), driver(driver), kernels(kernels) {}

  void resolve(const Addresses &addresses) override {
    copies.clear();
    widened.clear();
    for (size_t i = 0; i < step.numPairs(); ++i) {
      const size_t to = step.numPairs() + i;
      const DeviceAddress source = addresses.of(step.places[i]),
                          target = addresses.of(step.places[to]);
      const int64_t there = std::min(step.elements(i), step.elements(to));
      copies.push_back({source, target, bytes(there), bytes(step.elements(to))});
      if (kernels && there)
        widened.push_back({source, target, 0, there});
    }
  }
  Status enqueue(CUstream stream, Workspace) const override {
    if (kernels)
      TRAINRT_TRY(kernels->widen(step.op.types.sent, widened, stream));
    for (const auto &[from, to, there, all] : copies) {
      CUresult result = CUDA_SUCCESS;
      if (there && !kernels)
        result = driver.cuMemcpyDtoDAsync(to, from, there, stream);
      if (result == CUDA_SUCCESS && there < all)
        result = driver.cuMemsetD8Async(to + there, 0, all - there, stream);
      TRAINRT_TRY(driver.check(result, "cannot be started"));
    }
    return {};
  }

private:
  size_t bytes(int64_t elements) const { return size_t(elements) * sizeOf(step.op.types.made); }

  struct Pair {
    DeviceAddress from, to;
    size_t there, all; ///< bytes, and those of the result
  };
  const CollectiveView step;
  const Driver &driver;
  const RankKernels *const kernels;
  std::vector<Pair> copies;
  std::vector<RankSumsArguments::Range> widened;
};
} // namespace

template <>
Status prepareOnDevice(const CollectiveView &step, DeviceContext &context,
                       std::unique_ptr<DeviceCommand> &command) {
  if (step.isEmpty())
    return {};
  if (context.exchange) {
    auto made = std::make_unique<CollectiveCommand>(step, context.context, *context.exchange);
    TRAINRT_TRY(made->start());
    command = std::move(made);
  } else if (!step.op.isInPlace()) {
    const RankKernels *kernels = nullptr;
    if (step.op.types.widens())
      TRAINRT_TRY(context.libraries.rankKernels(context.context, kernels));
    command = std::make_unique<CopyAlone>(step, context.context.driver(), kernels);
  }
  return {};
}

/// What is staged depends on how many ranks there are, and is the device's.
template <> int64_t workspaceLimit(const CollectiveView &) { return 0; }

} // namespace trainrt::cuda
