// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The device that a package is for: all that sessions know of how many kinds there are.
#ifndef TRAINRT_SESSION_CREATE_DEVICE_H
#define TRAINRT_SESSION_CREATE_DEVICE_H

#include "device/device.h"

namespace trainrt {

/// Of the package's target. `package` and `addressOf` outlive it.
Status createDevice(std::shared_ptr<const Package> package, const DeviceOptions &options,
                    Device::AddressOf addressOf, std::unique_ptr<Device> &device);

/// Raises `use` to what the device would hold for these plans, with so many threads of the host, on
/// such a rank.
void addDeviceEstimate(const Program &program, const std::vector<ExecutionPlan> &plans,
                       unsigned threads, const RunPlace &place, MemoryUse &use);

} // namespace trainrt

#endif // TRAINRT_SESSION_CREATE_DEVICE_H
