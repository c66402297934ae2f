// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The device that a package is for.

#include "session/create_device.h"
#include "device/cpu/host_device.h"
#include "device/cuda/device.h"

namespace trainrt {

Status createDevice(std::shared_ptr<const Package> package, const DeviceOptions &options,
                    Device::AddressOf addressOf, std::unique_ptr<Device> &device) {
  if (package->program().target == Target::Cuda)
    return cuda::createDevice(std::move(package), options, std::move(addressOf), device);
  std::shared_ptr<const KernelLibrary> kernels;
  TRAINRT_TRY(package->kernels(kernels));
  device = std::make_unique<HostDevice>(std::move(package), std::move(kernels), options,
                                        std::move(addressOf));
  return {};
}

} // namespace trainrt
