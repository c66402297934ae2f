// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attention by cuDNN, or over short segments by the runtime's own kernels.

#include "device/cuda/commands/device_command.h"

namespace trainrt::cuda {

namespace {
using Which = AttentionOperand;

/// What a library has to know of a step, without addresses: equal steps of several layers are equal
/// calls.
AttentionCall callOf(const AttentionView &step) {
  AttentionCall call;
  call.backward = step.op.backward;
  call.dtype = step.op.dtype;
  call.batch = step.batch();
  call.heads = step.heads();
  call.kvHeads = step.keyHeads();
  call.queryRows = step.rows();
  call.keyRows = step.keyRows();
  call.keyColumns = step.columns();
  call.valueColumns = step.valueColumns();
  auto copy = [&](Which which, int64_t *to) { std::ranges::copy(step.strides(which), to); };
  copy(Which::Q, call.q);
  copy(Which::K, call.k);
  copy(Which::V, call.v);
  copy(Which::O, call.o);
  copy(Which::Bias, call.bias);
  copy(Which::DO, call.dO);
  copy(Which::DQ, call.dQ);
  copy(Which::DK, call.dK);
  copy(Which::DV, call.dV);
  call.hasBias = step.op.hasBias;
  call.biasDtype = step.op.biasDtype;
  call.scale = step.op.scale;
  call.dropout = step.op.dropout;
  call.causal = step.op.causal;
  call.band = step.op.window;
  call.segments = step.segments();
  call.longest = step.longest();
  return call;
}

/// The plan comes when those of all commands are found; nothing else is called before.
class DeviceAttention final : public DeviceCommand {
public:
  explicit DeviceAttention(const AttentionView &step) : step(step) {}

  void resolve(const Addresses &addresses) override {
    auto of = [&](Which which) { return addresses.of(step.place(which)); };
    operands = {of(Which::Q),     of(Which::K),    of(Which::V),    of(Which::O),
                of(Which::Stats), of(Which::Bias), of(Which::Seed), of(Which::DO),
                of(Which::DQ),    of(Which::DK),   of(Which::DV),   of(Which::Segments)};
  }
  Status enqueue(CUstream stream, Workspace workspace) const override {
    return plan->enqueue(stream, operands, workspace);
  }
  uint64_t workspaceBytes() const override { return plan->workspaceBytes(); }

  std::shared_ptr<const AttentionPlan> plan;

private:
  const AttentionView step;
  AttentionOperands operands;
};
} // namespace

template <>
Status prepareOnDevice(const AttentionView &step, DeviceContext &context,
                       std::unique_ptr<DeviceCommand> &command) {
  if (step.isEmpty())
    return {};
  auto made = std::make_unique<DeviceAttention>(step);
  context.calls.add(callOf(step), made->plan, context.number);
  command = std::move(made);
  return {};
}

/// From the sizes alone, for estimates: no library is loaded for it.
template <> int64_t workspaceLimit(const AttentionView &step) {
  return attentionWorkspaceLimit(sizesOf(callOf(step)));
}

} // namespace trainrt::cuda
