// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matmuls by cuBLASLt.

#include "device/cuda/commands/library_command.h"
#include "format/memory/workspace_bounds.h"

namespace trainrt::cuda {

GemmCall callOf(const GemmView &step) {
  GemmCall call;
  call.dtype = step.op.dtype;
  call.resultType = step.op.resultType;
  call.tf32 = step.op.tf32;
  call.m = step.m(), call.n = step.n(), call.k = step.k();
  call.aM = step.aM(), call.aK = step.aK();
  call.bK = step.bK(), call.bN = step.bN();
  call.cM = step.cM(), call.cN = step.cN();
  call.batch.assign(step.batch().begin(), step.batch().end());
  call.aBatch.assign(step.aBatch().begin(), step.aBatch().end());
  call.bBatch.assign(step.bBatch().begin(), step.bBatch().end());
  call.cBatch.assign(step.cBatch().begin(), step.cBatch().end());
  call.alpha = step.op.alpha;
  call.beta = step.op.beta;
  // Buffers begin at multiples of 256: this is all that is known of addresses for good, and equal
  // matmuls of several layers become equal calls.
  auto known = [&](size_t operand) { return DeviceAddress(step.places[operand].offset) % 256; };
  call.a = known(Gemm::A);
  call.b = known(Gemm::B);
  call.c = known(Gemm::C);
  call.bias = known(Gemm::Bias);
  call.aux = known(Gemm::Aux);
  call.epilogue = step.op.epilogue;
  return call;
}

GemmOperands operandsOf(const GemmView &step, const Addresses &addresses) {
  auto of = [&](size_t operand) { return addresses.of(step.places[operand]); };
  return {of(Gemm::A), of(Gemm::B), of(Gemm::C), of(Gemm::Bias), of(Gemm::Aux)};
}

template <>
Status prepareOnDevice(const GemmView &step, DeviceContext &context,
                       std::unique_ptr<DeviceCommand> &command) {
  if (!step.isEmpty())
    GemmCommand::prepare(step, context, command);
  return {};
}

/// The limit: what is really needed is known with the algorithm.
template <> int64_t workspaceLimit(const GemmView &) { return int64_t(gemmWorkspaceLimit); }

} // namespace trainrt::cuda
