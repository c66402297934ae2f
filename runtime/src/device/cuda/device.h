// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A GPU as a session's device. This is all that the rest of the runtime sees of CUDA.
#ifndef TRAINRT_DEVICE_CUDA_DEVICE_H
#define TRAINRT_DEVICE_CUDA_DEVICE_H

#include "device/device.h"

namespace trainrt::cuda {

/// Loads the driver and the package's kernels. DeviceError without a driver or a GPU; BadPackage
/// where none of the kernels runs on it.
Status createDevice(std::shared_ptr<const Package> package, const DeviceOptions &options,
                    Device::AddressOf addressOf, std::unique_ptr<Device> &device);

/// What the largest collective of a plan stages where so many ranks train.
int64_t stagingBytes(const ExecutionPlan &plan, int world, int shards);

/// Raises `use` to what a device would hold for a plan.
void addEstimate(const Program &program, const ExecutionPlan &plan, MemoryUse &use);

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_DEVICE_H
