// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The gradient of attention with a window through kernels of the runtime's own. cuDNN's writes the
// gradients of all scores whatever the window; these take the time that the window needs, and read
// what cuDNN's forward has saved.
#ifndef TRAINRT_DEVICE_CUDA_ATTENTION_WINDOWED_ATTENTION_H
#define TRAINRT_DEVICE_CUDA_ATTENTION_WINDOWED_ATTENTION_H

#include "device/cuda/kernels/attention_kernels.h"

namespace trainrt::cuda {

class WindowedAttention {
public:
  /// The context is current, here and when this is destroyed.
  static Status load(std::unique_ptr<WindowedAttention> &attention);

  /// Whether it computes such a call, a matter of sizes and the device only; else cuDNN does. Only
  /// gradients without dropout, whose mask is cuDNN's.
  bool takes(const AttentionCall &call) const;
  /// Of a call that it takes. Several threads may call it at once.
  Status prepare(const AttentionCall &call, std::shared_ptr<const AttentionPlan> &plan);

private:
  explicit WindowedAttention(const Driver &driver) : driver(driver), kernels(driver) {}

  const Driver &driver;
  AttentionKernels kernels;
};

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_ATTENTION_WINDOWED_ATTENTION_H
