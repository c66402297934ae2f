// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attention by cuDNN, or where they take it by the runtime's own kernels.

#include "device/cuda/commands/library_command.h"

namespace trainrt::cuda {

using Which = AttentionOperand;

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
  call.biasGradient = step.op.biasGradient;
  call.scale = step.op.scale;
  call.dropout = step.op.dropout;
  call.causal = step.op.causal;
  call.band = step.op.window;
  call.segments = step.segments();
  call.longest = step.longest();
  return call;
}

AttentionOperands operandsOf(const AttentionView &step, const Addresses &addresses) {
  auto of = [&](Which which) { return addresses.of(step.place(which)); };
  return {of(Which::Q),    of(Which::K),        of(Which::V),    of(Which::O),  of(Which::Stats),
          of(Which::Bias), of(Which::Seed),     of(Which::DO),   of(Which::DQ), of(Which::DK),
          of(Which::DV),   of(Which::Segments), of(Which::DBias)};
}

template <>
Status prepareOnDevice(const AttentionView &step, DeviceContext &context,
                       std::unique_ptr<DeviceCommand> &command) {
  if (!step.isEmpty())
    AttentionCommand::prepare(step, context, command);
  return {};
}

/// From the sizes alone, for estimates: no library is loaded for it.
template <> int64_t workspaceLimit(const AttentionView &step) {
  return attentionWorkspaceLimit(sizesOf(callOf(step)));
}

} // namespace trainrt::cuda
