// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernels of device/cuda/kernels/windowed_attention.h: when they are used, launching them.

#include "device/cuda/attention/windowed_attention.h"

#include <algorithm>
#include <cassert>

namespace trainrt::cuda {

namespace {

/// Of a sample or the longest segment.
int64_t rowsOf(const AttentionCall &call) { return call.segments ? call.longest : call.queryRows; }
int64_t blocksOf(const AttentionCall &call) { return (rowsOf(call) + windowRows - 1) / windowRows; }
int64_t sharedNeed(const AttentionCall &call, bool keys) {
  return windowSharedBytes(AttentionKernels::paddedColumns(call), keys);
}

/// Whether a block of rows sees at most half of the columns; cuDNN's time is that of all of them.
bool isNarrow(const AttentionCall &call) {
  const int64_t after = call.causal ? 0 : call.band.after;
  return 2 * (call.band.before + after + windowRows) <= rowsOf(call);
}

/// The workspace has two numbers for each row and head. Nothing in it changes with a run.
class Plan final : public AttentionPlan {
public:
  Plan(const Driver &driver, CUfunction queries, CUfunction keys, const AttentionCall &call)
      : driver(driver), queries(queries), keys(keys), call(call) {}

  uint64_t workspaceBytes() const override { return 2 * numberBytes(); }
  Status enqueue(StreamHandle stream, const AttentionOperands &operands,
                 Workspace workspace) const override {
    if (!AttentionKernels::isAligned(operands))
      return fail(Code::Unsupported, "attention with a window needs operands that begin at "
                                     "multiples of 16 bytes. Compile without fused attention");
    if (workspace.bytes < workspaceBytes())
      return fail(Code::Internal, "an attention needs ", workspaceBytes(),
                  " bytes of workspace and got ", workspace.bytes);
    AttentionArguments args = AttentionKernels::arguments(call, operands);
    args.clearing = int32_t(blocksOf(call));
    // As cuDNN's forward lays them out.
    args.statsRow = call.segments ? call.heads : 1;
    args.statsHead = call.segments ? 1 : call.queryRows;
    args.statsSample = call.segments ? 0 : call.heads * call.queryRows;
    args.logs = workspace.address;
    args.dots = workspace.address + numberBytes();
    TRAINRT_TRY(launch(stream, queries, args, call.heads, sharedNeed(call, false)));
    return launch(stream, keys, args, call.kvHeads, sharedNeed(call, true));
  }

private:
  uint64_t numberBytes() const {
    return uint64_t(call.segments ? 1 : call.batch) * uint64_t(call.heads) *
           uint64_t(call.queryRows) * sizeof(float);
  }
  /// Of segments there are blocks that clear the rows behind them.
  Status launch(StreamHandle stream, CUfunction function, AttentionArguments &args, int64_t heads,
                int64_t sharedBytes) const {
    const int64_t samples = call.segments ? call.segments + 1 : call.batch;
    void *parameters[] = {&args};
    return driver.check(driver.cuLaunchKernel(function, unsigned(blocksOf(call)), unsigned(heads),
                                              unsigned(samples), windowThreads, 1, 1,
                                              unsigned(sharedBytes), static_cast<CUstream>(stream),
                                              parameters, nullptr),
                        "cannot start the runtime's kernel for attention with a window");
  }

  const Driver &driver;
  const CUfunction queries, keys;
  const AttentionCall call;
};

} // namespace

Status WindowedAttention::load(std::unique_ptr<WindowedAttention> &attention) {
  const Driver *driver = nullptr;
  TRAINRT_TRY(Driver::load(driver));
  std::unique_ptr<WindowedAttention> made(new WindowedAttention(*driver));
  TRAINRT_TRY(made->kernels.load({"windowQueries", "windowKeys"}));
  attention = std::move(made);
  return {};
}

bool WindowedAttention::takes(const AttentionCall &call) const {
  constexpr int64_t most = 65535; // of a grid's axes
  return !kernels.empty() && call.backward && call.dropout == 0 &&
         AttentionKernels::canCompute(call) && AttentionKernels::isAligned(call) &&
         isNarrow(call) &&
         std::max(sharedNeed(call, false), sharedNeed(call, true)) <= kernels.sharedBytes() &&
         call.heads <= most && call.batch <= most && call.segments < most;
}

/// `takes` has said yes, so the kernels exist.
Status WindowedAttention::prepare(const AttentionCall &call,
                                  std::shared_ptr<const AttentionPlan> &plan) {
  assert(takes(call) && "else it is cuDNN's, or that of warpgroups");
  CUfunction queries = nullptr, keys = nullptr;
  TRAINRT_TRY(kernels.find("windowQueries", call, queries));
  TRAINRT_TRY(kernels.find("windowKeys", call, keys));
  plan = std::make_shared<Plan>(driver, queries, keys, call);
  return {};
}

} // namespace trainrt::cuda
