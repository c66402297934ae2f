// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A matmul on a GPU, as tuning needs it, too.
#ifndef TRAINRT_DEVICE_CUDA_COMMANDS_GEMM_H
#define TRAINRT_DEVICE_CUDA_COMMANDS_GEMM_H

#include "device/cuda/commands/device_command.h"

namespace trainrt::cuda {

class DeviceGemm final : public DeviceCommand {
public:
  explicit DeviceGemm(const GemmView &step) : step(step) {}

  void resolve(const Addresses &addresses) override;
  Status enqueue(CUstream stream, Workspace workspace) const override {
    return plan->enqueue(stream, operands, workspace);
  }
  uint64_t workspaceBytes() const override { return plan->workspaceBytes(); }

  GemmCall call() const;
  std::shared_ptr<const GemmPlan> plan;
  GemmOperands operands;

private:
  const GemmView step;
};

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_COMMANDS_GEMM_H
