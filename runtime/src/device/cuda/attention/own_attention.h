// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attention by the runtime's own kernels, where they are quicker than cuDNN's.
#ifndef TRAINRT_DEVICE_CUDA_ATTENTION_OWN_ATTENTION_H
#define TRAINRT_DEVICE_CUDA_ATTENTION_OWN_ATTENTION_H

#include "device/cuda/attention/segment_attention.h"
#include "device/cuda/attention/warpgroup_attention.h"
#include "device/cuda/attention/windowed_attention.h"

namespace trainrt::cuda {

/// What is said of its parts holds for it.
class OwnAttention {
public:
  static Status load(std::unique_ptr<OwnAttention> &attention) {
    auto made = std::make_unique<OwnAttention>();
    TRAINRT_TRY(SegmentAttention::load(made->segments));
    TRAINRT_TRY(WindowedAttention::load(made->windows));
    TRAINRT_TRY(WarpgroupAttention::load(made->warpgroups));
    attention = std::move(made);
    return {};
  }
  /// Whether it has to be loaded to ask whether it takes a call.
  static bool mayTake(const AttentionCall &call) {
    return call.segments > 0 || call.band != AttentionBand() || WarpgroupAttention::isWanted(call);
  }
  bool takes(const AttentionCall &call) const {
    return segments->takes(call) || windows->takes(call) || warpgroups->takes(call);
  }
  Status prepare(const AttentionCall &call, std::shared_ptr<const AttentionPlan> &plan) {
    if (segments->takes(call))
      return segments->prepare(call, plan);
    const bool byWarpgroups = warpgroups->takes(call) &&
                              (WarpgroupAttention::isAskedFirst(call) || !windows->takes(call));
    return byWarpgroups ? warpgroups->prepare(call, plan) : windows->prepare(call, plan);
  }

private:
  std::unique_ptr<SegmentAttention> segments;
  std::unique_ptr<WindowedAttention> windows;
  std::unique_ptr<WarpgroupAttention> warpgroups;
};

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_ATTENTION_OWN_ATTENTION_H
