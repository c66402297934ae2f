// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The gradient of attention of samples through kernels of the runtime's own for sm_90a, which read
// what cuDNN's forward has saved; with dropout the forward as well, so that both have one mask.
// Where they are taken is a table of what was measured (warpgroup_attention.cpp). The environment
// variable TRAINRT_WARPGROUP_ATTENTION says otherwise: 0 for cuDNN's everywhere, 1 for these
// wherever they can compute.
#ifndef TRAINRT_DEVICE_CUDA_ATTENTION_WARPGROUP_ATTENTION_H
#define TRAINRT_DEVICE_CUDA_ATTENTION_WARPGROUP_ATTENTION_H

#include "device/cuda/kernels/attention_kernels.h"

namespace trainrt::cuda {

class WarpgroupAttention {
public:
  /// The context is current, here and when this is destroyed.
  static Status load(std::unique_ptr<WarpgroupAttention> &attention);

  /// Whether it can compute such a call, a matter of sizes and the device only; else cuDNN does. A
  /// forward only with dropout.
  bool canCompute(const AttentionCall &call) const;
  /// Whether they are the quicker ones on a GPU that has them, or the environment says so.
  static bool isWanted(const AttentionCall &call);
  bool takes(const AttentionCall &call) const { return isWanted(call) && canCompute(call); }
  /// Whether they are asked before the kernels for windows, of which many see few columns.
  static bool isAskedFirst(const AttentionCall &call);
  /// What the kernels of a backward hand on: two numbers of each row, and dropout's mask.
  static uint64_t backwardBytes(const AttentionCall &call);
  /// Of a call that it can compute. Several threads may call it at once.
  Status prepare(const AttentionCall &call, std::shared_ptr<const AttentionPlan> &plan);

private:
  explicit WarpgroupAttention(const Driver &driver) : driver(driver), kernels(driver) {}

  const Driver &driver;
  AttentionKernels kernels;
};

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_ATTENTION_WARPGROUP_ATTENTION_H
