// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copies within the device, and between it and the host.

#include "device/cuda/commands/device_command.h"

#include <cassert>

namespace trainrt::cuda {

namespace {
/// Host buffers are pinned, and have addresses like others: the step tells which of the two is one.
class DeviceCopy final : public DeviceCommand {
public:
  DeviceCopy(const CopyView &step, const Driver &driver) : step(step), driver(driver) {}

  void resolve(const Addresses &addresses) override {
    from = addresses.of(step.places[Copy::From]);
    to = addresses.of(step.places[Copy::To]);
  }
  Status enqueue(CUstream stream, Workspace) const override {
    assert(step.bytes() > 0 && "empty copies are left out");
    const size_t bytes = size_t(step.bytes());
    CUresult result = CUDA_SUCCESS;
    if (step.isToHost())
      result = driver.cuMemcpyDtoHAsync(reinterpret_cast<void *>(to), from, bytes, stream);
    else if (step.isFromHost())
      result = driver.cuMemcpyHtoDAsync(to, reinterpret_cast<const void *>(from), bytes, stream);
    else if (from != to)
      result = driver.cuMemcpyDtoDAsync(to, from, bytes, stream);
    return driver.check(result, "cannot be started");
  }

private:
  const CopyView step;
  const Driver &driver;
  DeviceAddress from = 0, to = 0;
};
} // namespace

template <>
Status prepareOnDevice(const CopyView &step, DeviceContext &context,
                       std::unique_ptr<DeviceCommand> &command) {
  if (!step.isEmpty())
    command = std::make_unique<DeviceCopy>(step, context.context.driver());
  return {};
}

template <> int64_t workspaceLimit(const CopyView &) { return 0; }

} // namespace trainrt::cuda
