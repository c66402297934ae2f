// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loops are refused where a program for a GPU is read: compilers unroll them.

#include "device/cuda/commands/device_command.h"

namespace trainrt::cuda {

template <>
Status prepareOnDevice(const LoopView &, DeviceContext &, std::unique_ptr<DeviceCommand> &) {
  return {};
}

template <> int64_t workspaceLimit(const LoopView &) { return 0; }

} // namespace trainrt::cuda
