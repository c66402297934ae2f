// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Scalars among a run's outputs that the host is told: the loss, and the norm of the gradients.
#ifndef TRAINRT_DEVICE_CUDA_TOLD_NUMBERS_H
#define TRAINRT_DEVICE_CUDA_TOLD_NUMBERS_H

#include "device/device.h"
#include "plan/execution_plan.h"

#include <algorithm>

namespace trainrt::cuda {

class ToldNumbers {
public:
  /// What they are fetched into.
  using Room = unsigned char[128];

  /// Which there are, and where in the outputs: by their indices in Program::outputs, -1 of none.
  void locate(const ExecutionPlan &plan, const Program &program, int32_t lossOutput,
              int32_t gradNormOutput);
  /// Calls `copy(to, offset, bytes)` for what is to be fetched from the outputs: once where they
  /// lie beside each other, as in a step without other outputs.
  template <typename Copy> Status fetch(Room &room, const Copy &copy) {
    const int64_t first = std::min(loss.offset, gradNorm.offset);
    for (Number *number : {&loss, &gradNorm})
      number->place = number->offset - first;
    const int64_t bytes = std::max(loss.end(), gradNorm.end()) - first;
    if (bytes <= 0)
      return {};
    if (bytes <= int64_t(sizeof room))
      return copy(room, first, size_t(bytes));
    for (Number *number : {&loss, &gradNorm}) {
      number->place = number == &loss ? 0 : 8;
      TRAINRT_TRY(copy(room + number->place, number->offset, sizeOf(number->dtype)));
    }
    return {};
  }
  /// What was fetched; NaN of what there is not.
  void read(const Room &room, Device::Result &result) const;

private:
  static constexpr int64_t none = INT64_MAX;
  struct Number {
    DType dtype = DType::F32;
    int64_t offset = none; ///< in the outputs
    int64_t place = 0;     ///< in the room
    int64_t end() const { return offset == none ? 0 : offset + int64_t(sizeOf(dtype)); }
  };
  static Number find(const ExecutionPlan &plan, const Program &program, int32_t wanted);

  Number loss, gradNorm;
};

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_TOLD_NUMBERS_H
