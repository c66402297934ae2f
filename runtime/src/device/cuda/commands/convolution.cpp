// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Convolutions by cuDNN.

#include "device/cuda/commands/library_command.h"
#include "format/memory/workspace_bounds.h"

namespace trainrt::cuda {

ConvolutionCall callOf(const ConvolutionView &step) {
  ConvolutionCall call;
  call.kind = step.op.kind;
  call.dtype = step.op.dtype;
  call.tf32 = step.op.tf32;
  call.batch = step.batch();
  call.channels = step.channels();
  call.filters = step.filters();
  call.groups = step.groups();
  call.axes = step.axes();
  for (size_t i = 0; i < call.axes; ++i) {
    const ConvolutionView::Axis axis = step.axis(i);
    call.positions[i] = axis.positions;
    call.taps[i] = axis.taps;
    call.windows[i] = axis.windows;
    call.strides[i] = axis.stride;
    call.dilations[i] = axis.dilation;
    call.pads[i] = axis.pad;
  }
  return call;
}

ConvolutionOperands operandsOf(const ConvolutionView &step, const Addresses &addresses) {
  auto of = [&](size_t operand) { return addresses.of(step.places[operand]); };
  return {of(Convolution::Input), of(Convolution::FilterOperand), of(Convolution::Output)};
}

namespace {
/// A sum of no products.
class DeviceZeros final : public DeviceCommand {
public:
  DeviceZeros(const ConvolutionView &step, const Driver &driver) : step(step), driver(driver) {}

  void resolve(const Addresses &addresses) override {
    result = addresses.of(step.places[step.op.result()]);
  }
  Status enqueue(CUstream stream, Workspace) const override {
    const int64_t bytes = step.elements(step.op.result()) * int64_t(sizeOf(step.op.dtype));
    return driver.check(driver.cuMemsetD8Async(result, 0, size_t(bytes), stream),
                        "a convolution's result cannot be cleared");
  }

private:
  const ConvolutionView step;
  const Driver &driver;
  DeviceAddress result = 0;
};
} // namespace

template <>
Status prepareOnDevice(const ConvolutionView &step, DeviceContext &context,
                       std::unique_ptr<DeviceCommand> &command) {
  if (step.isZero() && !step.isEmpty())
    command = std::make_unique<DeviceZeros>(step, context.context.driver());
  else if (!step.isEmpty())
    ConvolutionCommand::prepare(step, context, command);
  return {};
}

/// The limit: what is really needed is known with the algorithm.
template <> int64_t workspaceLimit(const ConvolutionView &) { return convolutionWorkspaceLimit; }

} // namespace trainrt::cuda
