// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attention over short segments through kernels of the runtime's own. cuDNN's computes a whole tile
// of 128 rows for each segment; these take the time that the segments' lengths need, and clear the
// rows behind the segments on the way.
#ifndef TRAINRT_DEVICE_CUDA_ATTENTION_SEGMENT_ATTENTION_H
#define TRAINRT_DEVICE_CUDA_ATTENTION_SEGMENT_ATTENTION_H

#include "device/cuda/kernels/attention_kernels.h"

namespace trainrt::cuda {

class SegmentAttention {
public:
  /// The context is current, here and when this is destroyed.
  static Status load(std::unique_ptr<SegmentAttention> &attention);

  /// Whether it computes such a call; else cuDNN does. The same for a forward and its backward,
  /// which have to have one mask of dropout: a matter of sizes and the device only.
  bool takes(const AttentionCall &call) const;
  /// Of a call that it takes. Several threads may call it at once.
  Status prepare(const AttentionCall &call, std::shared_ptr<const AttentionPlan> &plan);

private:
  explicit SegmentAttention(const Driver &driver) : driver(driver), kernels(driver) {}

  const Driver &driver;
  AttentionKernels kernels;
};

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_ATTENTION_SEGMENT_ATTENTION_H
