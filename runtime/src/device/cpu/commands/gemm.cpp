// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matmuls by the runtime's own kernels.

#include "device/cpu/gemm.h"
#include "device/cpu/commands/host_command.h"
#include "device/cpu/commands/kept_operands.h"

namespace trainrt {

GemmArgs gemmArgs(const GemmView &step) {
  GemmArgs args = {};
  args.m = step.m();
  args.n = step.n();
  args.k = step.k();
  args.a_m = step.aM();
  args.a_k = step.aK();
  args.b_k = step.bK();
  args.b_n = step.bN();
  args.c_m = step.cM();
  args.c_n = step.cN();
  args.batchRank = int(step.batchRank());
  args.batch = step.batch().data();
  args.aBatch = step.aBatch().data();
  args.bBatch = step.bBatch().data();
  args.cBatch = step.cBatch().data();
  args.bf16 = step.op.dtype == DType::BF16;
  return args;
}

GemmConstants gemmConstants(const GemmView &step) {
  const int32_t loop = step.command.loop;
  if (loop < 0)
    return {};
  const Command *outermost = &step.function.commands[size_t(loop)];
  while (outermost->loop >= 0)
    outermost = &step.function.commands[size_t(outermost->loop)];
  return {outermost, isSameInAllSteps(step, Gemm::A), isSameInAllSteps(step, Gemm::B)};
}

template <> void runOnHost(const GemmView &step, HostContext &context) {
  GemmArgs args = gemmArgs(step);
  args.a = context.address(step.places[Gemm::A]);
  args.b = context.address(step.places[Gemm::B]);
  args.c = context.address<float>(step.places[Gemm::C]);
  args.alpha = step.op.alpha;
  args.beta = step.op.beta;
  (args.bf16 ? gemmBF16 : gemmF32)(args, context.pool, context.kept.of(step.command));
}

template <> void addWorkingMemory(const GemmView &step, WorkingMemory &memory) {
  memory.addGemm(gemmArgs(step), gemmConstants(step));
}

} // namespace trainrt
