// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which outputs are numbers of the loss and the norm.

#include "device/cuda/told_numbers.h"
#include "io/convert.h"

namespace trainrt::cuda {

/// Nothing where the plan does not compute it, or it is no float.
ToldNumbers::Number ToldNumbers::find(const ExecutionPlan &plan, const Program &program,
                                      int32_t wanted) {
  for (const ExecutionPlan::Output &output : plan.outputs) {
    const DType dtype = program.outputs[output.index].dtype;
    // A loss is one number; what is larger is told by its first.
    if (int32_t(output.index) == wanted && isFloat(dtype) && output.bytes >= int64_t(sizeOf(dtype)))
      return {dtype, output.offset, 0};
  }
  return {};
}

void ToldNumbers::locate(const ExecutionPlan &plan, const Program &program, int32_t lossOutput,
                         int32_t gradNormOutput) {
  loss = find(plan, program, lossOutput);
  gradNorm = find(plan, program, gradNormOutput);
}

void ToldNumbers::read(const Room &room, Device::Result &result) const {
  for (auto [number, to] : {std::pair(&loss, &result.loss), {&gradNorm, &result.gradNorm}})
    if (number->offset != none)
      convertElements(room + number->place, number->dtype, to, DType::F64, 1);
}

} // namespace trainrt::cuda
