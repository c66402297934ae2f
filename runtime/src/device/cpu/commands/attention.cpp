// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attention over segments by the runtime's own kernels.

#include "device/cpu/attention.h"
#include "device/cpu/commands/host_command.h"

namespace trainrt {

template <> void runOnHost(const AttentionView &step, HostContext &context) {
  using Which = AttentionOperand;
  if (step.isEmpty())
    return; // nothing to write, and no place was checked
  auto input = [&](Which which) -> AttentionMatrix<const float> {
    return {context.address<const float>(step.place(which)), step.strides(which)[1],
            step.strides(which)[2]};
  };
  auto output = [&](Which which) -> AttentionMatrix<float> {
    return {context.address<float>(step.place(which)), step.strides(which)[1],
            step.strides(which)[2]};
  };
  AttentionArgs common;
  common.heads = step.heads();
  common.keyHeads = step.keyHeads();
  common.rows = step.rows();
  common.depth = step.columns();
  common.width = step.valueColumns();
  common.q = input(Which::Q);
  common.k = input(Which::K);
  common.v = input(Which::V);
  common.segments = step.segments();
  common.longest = step.longest();
  common.offsets = context.address<const int32_t>(step.place(Which::Segments));
  common.positions = context.address<const int32_t>(step.place(Which::Positions));
  common.scale = step.op.scale;
  common.dropout = step.op.ratio;
  common.seed = context.address<const int64_t>(step.place(Which::Seed));
  common.band = step.band();
  float *stats = context.address<float>(step.place(Which::Stats));
  const int64_t wrong =
      step.op.backward ? attentionBackwardF32({common, stats, input(Which::DO), output(Which::DQ),
                                               output(Which::DK), output(Which::DV)},
                                              context.pool)
                       : attentionForwardF32({common, output(Which::O), stats}, context.pool);
  // The kernels leave no result where an offset is wrong; the executor stops at the report, and the
  // step's values are then not used.
  if (wrong < 0)
    return;
  context.reports.badIndex = context.command;
  context.reports.position = wrong;
  context.reports.value = common.offsets[wrong];
}

template <> void addWorkingMemory(const AttentionView &step, WorkingMemory &memory) {
  if (!step.isEmpty())
    memory.addAttention({step.longest(), step.columns(), step.valueColumns(), step.op.backward,
                         step.op.ratio > 0, step.band()});
}

} // namespace trainrt
