// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks on GPUs add up; one alone has its sums already.

#include "device/cuda/commands/collective.h"

namespace trainrt::cuda {

CollectiveCommand::CollectiveCommand(const CollectiveView &step, const Context &context,
                                     RankExchange &exchange)
    : context(context), exchange(exchange), dtype(step.op.dtype),
      places(step.places.begin(), step.places.end()),
      elements(step.sizes.begin(), step.sizes.end()) {}

Status CollectiveCommand::start() {
  TRAINRT_TRY(begun.create(context, CU_EVENT_DISABLE_TIMING));
  return done.create(context, CU_EVENT_DISABLE_TIMING);
}

void CollectiveCommand::resolve(const Addresses &addresses) {
  tensors.clear();
  for (size_t i = 0; i < places.size(); ++i)
    tensors.push_back({addresses.of(places[i]), elements[i]});
}

Status CollectiveCommand::enqueue(CUstream stream, Workspace) const {
  const Driver &driver = context.driver();
  TRAINRT_TRY(driver.check(driver.cuEventRecord(begun.get(), stream), "cannot record an event"));
  return exchange.allReduce(dtype, tensors, done, stream);
}

bool CollectiveCommand::isRunning() const {
  const Driver &driver = context.driver();
  return driver.cuEventQuery(begun.get()) == CUDA_SUCCESS &&
         driver.cuEventQuery(done.get()) == CUDA_ERROR_NOT_READY;
}

template <>
Status prepareOnDevice(const CollectiveView &step, DeviceContext &context,
                       std::unique_ptr<DeviceCommand> &command) {
  if (!context.exchange || step.isEmpty())
    return {};
  auto made = std::make_unique<CollectiveCommand>(step, context.context, *context.exchange);
  TRAINRT_TRY(made->start());
  command = std::move(made);
  return {};
}

/// What is staged depends on how many ranks there are, and is the device's.
template <> int64_t workspaceLimit(const CollectiveView &) { return 0; }

} // namespace trainrt::cuda
