// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A launch on a GPU, as tuning needs it, too.
#ifndef TRAINRT_DEVICE_CUDA_COMMANDS_LAUNCH_H
#define TRAINRT_DEVICE_CUDA_COMMANDS_LAUNCH_H

#include "device/cuda/commands/device_command.h"

namespace trainrt::cuda {

/// One way to launch a command's kernel.
struct LaunchVariant {
  uint32_t kernel = 0;
  unsigned grid = 0, block = 0;
};

class DeviceLaunch final : public DeviceCommand {
public:
  DeviceLaunch(const LaunchView &step, DeviceContext &context)
      : step(step), context(context.context), program(context.program) {}
  /// Chooses the kernel and lays out its parameters.
  Status prepare(DeviceContext &context);

  void resolve(const Addresses &addresses) override;
  Status enqueue(CUstream stream, Workspace workspace) const override;

  /// Whether the kernel comes in several variants; what decides the choice, all of them with the
  /// one in use first, and the kernel's arguments as they are resolved.
  bool hasVariants() const { return !step.op.variants.empty(); }
  std::string variantKey() const;
  std::vector<LaunchVariant> variants() const;
  const std::vector<uint64_t> &launchParameters() const { return parameters; }

private:
  void layOutGroup(std::vector<unsigned char> &tables);

  const LaunchView step;
  const Context &context;
  const Program &program;
  CUfunction function = nullptr;
  /// Whether it may begin while the command in front of it ends.
  bool waits = false;
  LaunchVariant chosen;
  unsigned shared = 0;
  /// Eight bytes each, and pointers to them as launches take them.
  std::vector<uint64_t> parameters;
  mutable std::vector<void *> pointers;
  /// Of a group, within the tables.
  size_t blocksOffset = 0, argumentsOffset = 0;
};

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_COMMANDS_LAUNCH_H
