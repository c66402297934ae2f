// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A loop on a GPU: the commands of its body once for each step, with the slices where they lie in
// their tensors. Slices that begin at other addresses than buffers do are copied.
#ifndef TRAINRT_DEVICE_CUDA_COMMANDS_LOOP_H
#define TRAINRT_DEVICE_CUDA_COMMANDS_LOOP_H

#include "device/cuda/commands/device_command.h"

namespace trainrt::cuda {

class LoopCommand final : public DeviceCommand {
public:
  struct Copy {
    Place from, to;
    int64_t bytes;
    DeviceAddress source = 0, target = 0;
  };

  /// Between two steps: behind `step`, which is -1 in front of the first one.
  LoopCommand(const LoopView &view, const Driver &driver, int64_t step);
  /// Whether slice `i` is read or written in its tensor: kernels and libraries rely on where
  /// buffers begin.
  static bool isInPlace(const LoopView &view, size_t i);
  /// Of slice `i` of a step, in bytes within its tensor's place.
  static int64_t offset(const LoopView &view, size_t i, int64_t step);

  void resolve(const Addresses &addresses) override;
  Status enqueue(CUstream stream, Workspace workspace) const override;
  /// Their addresses are those of `resolve`.
  const std::vector<Copy> &slices() const { return copies; }

private:
  const Driver &driver;
  std::vector<Copy> copies;
};

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_COMMANDS_LOOP_H
