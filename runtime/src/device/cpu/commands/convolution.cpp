// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Convolutions by the runtime's own kernels.

#include "device/cpu/convolution.h"
#include "device/cpu/commands/host_command.h"

#include <algorithm>
#include <cassert>

namespace trainrt {

static ConvolutionSizes sizesOf(const ConvolutionView &step) {
  ConvolutionSizes sizes;
  sizes.kind = step.op.kind;
  sizes.batch = step.batch(), sizes.channels = step.channels();
  sizes.filters = step.filters(), sizes.groups = step.groups();
  for (size_t i = 0; i < step.axes(); ++i)
    sizes.axes[sizes.axes.size() - step.axes() + i] = step.axis(i);
  return sizes;
}

template <> void runOnHost(const ConvolutionView &step, HostContext &context) {
  using Op = Convolution;
  float *operands[3];
  for (size_t i : {Op::Input, Op::FilterOperand, Op::Output})
    operands[i] = context.address<float>(step.places[i]);
  const Op::OperandNumber result = step.op.result();
  if (step.isEmpty())
    return;
  if (step.isZero()) {
    std::fill_n(operands[result], step.elements(result), 0.0f);
    return;
  }
  assert(step.op.dtype == DType::F32 && "others are refused where a program is read");
  convolutionF32(sizesOf(step), operands[Op::Input], operands[Op::FilterOperand],
                 operands[Op::Output], context.pool);
}

template <> void addWorkingMemory(const ConvolutionView &step, WorkingMemory &memory) {
  if (!step.isEmpty() && !step.isZero())
    memory.addConvolution(sizesOf(step));
}

} // namespace trainrt
