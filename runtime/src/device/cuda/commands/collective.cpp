// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks on GPUs exchange nothing: readProgram refuses programs that ask for it.

#include "device/cuda/commands/device_command.h"

#include <cassert>

namespace trainrt::cuda {

template <>
Status prepareOnDevice(const CollectiveView &, DeviceContext &, std::unique_ptr<DeviceCommand> &) {
  assert(false && "readProgram refuses collectives where the target has none");
  return {};
}

template <> int64_t workspaceLimit(const CollectiveView &) { return 0; }

} // namespace trainrt::cuda
