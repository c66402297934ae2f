// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A convolution on a GPU, as tuning needs it, too.
#ifndef TRAINRT_DEVICE_CUDA_COMMANDS_CONVOLUTION_H
#define TRAINRT_DEVICE_CUDA_COMMANDS_CONVOLUTION_H

#include "device/cuda/commands/device_command.h"

namespace trainrt::cuda {

class DeviceConvolution final : public DeviceCommand {
public:
  explicit DeviceConvolution(const ConvolutionView &step) : step(step) {}

  void resolve(const Addresses &addresses) override;
  Status enqueue(CUstream stream, Workspace workspace) const override {
    return plan->enqueue(stream, operands, workspace);
  }
  uint64_t workspaceBytes() const override { return plan->workspaceBytes(); }

  ConvolutionCall call() const;
  std::shared_ptr<const ConvolutionPlan> plan;
  ConvolutionOperands operands;

private:
  const ConvolutionView step;
};

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_COMMANDS_CONVOLUTION_H
