// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Commands that are one call of a library each, also for tuning.
#ifndef TRAINRT_DEVICE_CUDA_COMMANDS_LIBRARY_COMMAND_H
#define TRAINRT_DEVICE_CUDA_COMMANDS_LIBRARY_COMMAND_H

#include "device/cuda/commands/device_command.h"

#include <utility>

namespace trainrt::cuda {

/// A step that is one call of a library: what the call is, without addresses, so that equal steps
/// of several layers are equal calls.
GemmCall callOf(const GemmView &step);
AttentionCall callOf(const AttentionView &step);
ConvolutionCall callOf(const ConvolutionView &step);
GemmOperands operandsOf(const GemmView &step, const Addresses &addresses);
AttentionOperands operandsOf(const AttentionView &step, const Addresses &addresses);
ConvolutionOperands operandsOf(const ConvolutionView &step, const Addresses &addresses);

/// Of plans that come when those of all commands are found; nothing else is called before.
template <typename View, typename Plan> class LibraryCommand final : public DeviceCommand {
public:
  explicit LibraryCommand(const View &step) : step(step) {}

  void resolve(const Addresses &addresses) override { operands = operandsOf(step, addresses); }
  Status enqueue(CUstream stream, Workspace workspace) const override {
    return plan->enqueue(stream, operands, workspace);
  }
  uint64_t workspaceBytes() const override { return plan->workspaceBytes(); }

  static void prepare(const View &step, DeviceContext &context,
                      std::unique_ptr<DeviceCommand> &command) {
    auto made = std::make_unique<LibraryCommand>(step);
    context.calls.add(callOf(step), made->plan, context.number);
    command = std::move(made);
  }

  const View step;
  std::shared_ptr<const Plan> plan;
  decltype(operandsOf(std::declval<View>(), {})) operands;
};
using GemmCommand = LibraryCommand<GemmView, GemmPlan>;
using AttentionCommand = LibraryCommand<AttentionView, AttentionPlan>;
using ConvolutionCommand = LibraryCommand<ConvolutionView, ConvolutionPlan>;

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_COMMANDS_LIBRARY_COMMAND_H
