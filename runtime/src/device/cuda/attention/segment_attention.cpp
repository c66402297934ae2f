// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernels of device/cuda/kernels/segment_attention.h: when they are used, launching them.

#include "device/cuda/attention/segment_attention.h"

namespace trainrt::cuda {

namespace {

/// Thread blocks a head for the rows behind the segments.
constexpr int32_t clearing = 8;
int64_t paddedRows(const AttentionCall &call) { return (call.longest + 15) / 16 * 16; }
int64_t paddedColumns(const AttentionCall &call) { return AttentionKernels::paddedColumns(call); }
/// The kernels of many columns leave room for one block in a multiprocessor: long segments get more
/// warps.
unsigned threads(const AttentionCall &call) {
  return paddedColumns(call) > 64 && call.longest > 64 ? 256 : 128;
}
/// Two or four matrices, and two numbers a row.
int64_t sharedNeed(const AttentionCall &call, bool backward) {
  return paddedRows(call) * (paddedColumns(call) * 2 * (backward ? 4 : 2) + (backward ? 8 : 0));
}

/// Whether the kernels are quicker than cuDNN's, whose time is that of segments of the longest
/// one's length: always where they are short, else where the rows are few enough for that (measured
/// on an H200).
bool isQuicker(const AttentionCall &call) {
  const int64_t surely = paddedColumns(call) > 64 ? 64 : 192, perhaps = 256;
  return call.longest <= surely ||
         (call.longest <= perhaps && call.queryRows * 4 <= call.segments * call.longest * 3);
}

/// Nothing in it changes with a run. The kernel writes zeros behind the segments itself.
class Plan final : public AttentionPlan {
public:
  Plan(const Driver &driver, CUfunction function, const AttentionCall &call)
      : driver(driver), function(function), call(call) {}

  uint64_t workspaceBytes() const override { return 0; }
  Status enqueue(StreamHandle stream, const AttentionOperands &operands, Workspace) const override {
    if (!AttentionKernels::isAligned(operands))
      return fail(Code::Unsupported, "attention over segments needs operands that begin at "
                                     "multiples of 16 bytes. Compile without fused attention");
    AttentionArguments args = AttentionKernels::arguments(call, operands);
    args.clearing = clearing;
    // Backward adds up the gradients of all heads that share a head of keys: one block does them.
    const int64_t heads = call.backward ? call.kvHeads : call.heads;
    void *parameters[] = {&args};
    return driver.check(driver.cuLaunchKernel(function, unsigned(heads),
                                              unsigned(call.segments + clearing), 1, threads(call),
                                              1, 1, unsigned(sharedNeed(call, call.backward)),
                                              static_cast<CUstream>(stream), parameters, nullptr),
                        "cannot start the runtime's kernel for attention over segments");
  }

private:
  const Driver &driver;
  CUfunction function;
  AttentionCall call;
};

} // namespace

Status SegmentAttention::load(std::unique_ptr<SegmentAttention> &attention) {
  const Driver *driver = nullptr;
  TRAINRT_TRY(Driver::load(driver));
  std::unique_ptr<SegmentAttention> made(new SegmentAttention(*driver));
  TRAINRT_TRY(made->kernels.load({"forward", "backward"}));
  attention = std::move(made);
  return {};
}

/// All that the kernels take for granted but alignment. The memory of backward counts for forward,
/// too, so that both directions of a step go the same way.
bool SegmentAttention::takes(const AttentionCall &call) const {
  return !kernels.empty() && call.segments > 0 && call.batch == 1 && call.longest > 0 &&
         AttentionKernels::canCompute(call) && isQuicker(call) &&
         sharedNeed(call, true) <= kernels.sharedBytes() && call.segments + clearing <= 65535;
}

/// `takes` has said yes, so the kernel exists.
Status SegmentAttention::prepare(const AttentionCall &call,
                                 std::shared_ptr<const AttentionPlan> &plan) {
  if (!AttentionKernels::isAligned(call))
    return fail(Code::Unsupported, "attention over segments needs rows and heads that begin at "
                                   "multiples of 8 columns. Compile without fused attention");
  CUfunction function = nullptr;
  TRAINRT_TRY(kernels.find(call.backward ? "backward" : "forward", call, function));
  plan = std::make_shared<Plan>(driver, function, call);
  return {};
}

} // namespace trainrt::cuda
