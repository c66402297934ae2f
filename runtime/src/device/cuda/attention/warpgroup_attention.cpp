// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernels of device/cuda/kernels/warpgroup_attention.h: when they are used, launching them.

#include "device/cuda/attention/warpgroup_attention.h"
#include "device/cuda/kernels/warpgroup_shapes.h"

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <string_view>

namespace trainrt::cuda {

namespace {

/// What the host has to know of a kernel.
struct Launch {
  int64_t heads, ownRows;
  unsigned threads, sharedBytes;

  int64_t works(const AttentionCall &call) const {
    return call.batch * heads * ((call.queryRows + ownRows - 1) / ownRows);
  }
};
template <typename Shape> Launch launchOf(int64_t heads) {
  return {heads, Shape::groups * groupRows, Shape::threads, Shape::sharedBytes};
}
Launch queries(const AttentionCall &call) {
  return AttentionKernels::paddedColumns(call) == 64
             ? launchOf<WarpgroupShapes<64>::Queries>(call.heads)
             : launchOf<WarpgroupShapes<128>::Queries>(call.heads);
}
Launch keys(const AttentionCall &call) {
  return AttentionKernels::paddedColumns(call) == 64
             ? launchOf<WarpgroupShapes<64>::Keys>(call.kvHeads)
             : launchOf<WarpgroupShapes<128>::Keys>(call.kvHeads);
}

/// Of one of the two numbers that each row and head has.
uint64_t numberBytes(const AttentionCall &call) {
  return uint64_t(call.batch) * uint64_t(call.heads) * uint64_t(call.queryRows) * sizeof(float);
}

/// The workspace has these numbers. Nothing in it changes with a run.
class Plan final : public AttentionPlan {
public:
  Plan(const Driver &driver, CUfunction queries, CUfunction keys, int64_t multiprocessors,
       const AttentionCall &call)
      : driver(driver), queriesKernel(queries), keysKernel(keys), multiprocessors(multiprocessors),
        call(call) {}

  uint64_t workspaceBytes() const override { return numberBytes(call) * 2; }
  Status enqueue(StreamHandle stream, const AttentionOperands &operands,
                 Workspace workspace) const override {
    if (!AttentionKernels::isAligned(operands))
      return fail(Code::Unsupported, "attention by warpgroups needs operands that begin at "
                                     "multiples of 16 bytes. Compile without fused attention");
    if (workspace.bytes < workspaceBytes())
      return fail(Code::Internal, "an attention needs ", workspaceBytes(),
                  " bytes of workspace and got ", workspace.bytes);
    AttentionArguments args = AttentionKernels::arguments(call, operands);
    args.logs = workspace.address;
    args.dots = workspace.address + numberBytes(call);
    TRAINRT_TRY(launch(stream, queriesKernel, queries(call), args));
    return launch(stream, keysKernel, keys(call), args);
  }

private:
  /// Each multiprocessor has room for one block, which computes one thing after another.
  Status launch(StreamHandle stream, CUfunction function, const Launch &launch,
                AttentionArguments &args) const {
    void *parameters[] = {&args};
    const auto blocks = unsigned(std::min(launch.works(call), multiprocessors));
    return driver.check(driver.cuLaunchKernel(function, blocks, 1, 1, launch.threads, 1, 1,
                                              launch.sharedBytes, static_cast<CUstream>(stream),
                                              parameters, nullptr),
                        "cannot start the runtime's kernel for attention by warpgroups");
  }

  const Driver &driver;
  const CUfunction queriesKernel, keysKernel;
  const int64_t multiprocessors;
  const AttentionCall call;
};

} // namespace

bool WarpgroupAttention::isWanted() {
  const char *value = std::getenv("TRAINRT_WARPGROUP_ATTENTION");
  return value && std::string_view(value) == "1";
}

Status WarpgroupAttention::load(std::unique_ptr<WarpgroupAttention> &attention) {
  const Driver *driver = nullptr;
  TRAINRT_TRY(Driver::load(driver));
  std::unique_ptr<WarpgroupAttention> made(new WarpgroupAttention(*driver));
  TRAINRT_TRY(made->kernels.loadWarpgroups({"warpgroupQueries", "warpgroupKeys"}));
  attention = std::move(made);
  return {};
}

bool WarpgroupAttention::canCompute(const AttentionCall &call) const {
  // Blocks count them beyond the last one.
  const int64_t most = INT_MAX - 2 * int64_t(kernels.multiprocessors());
  return !kernels.empty() && call.backward && !call.segments && call.dropout == 0 &&
         AttentionKernels::canCompute(call) && AttentionKernels::isAligned(call) &&
         int64_t(std::max(queries(call).sharedBytes, keys(call).sharedBytes)) <=
             kernels.sharedBytes() &&
         call.batch <= INT_MAX &&
         std::max(queries(call).works(call), keys(call).works(call)) <= most &&
         numberBytes(call) * 2 <= uint64_t(attentionWorkspaceLimit(sizesOf(call)));
}

/// `canCompute` has said yes, so the kernels exist.
Status WarpgroupAttention::prepare(const AttentionCall &call,
                                   std::shared_ptr<const AttentionPlan> &plan) {
  CUfunction queries = nullptr, keys = nullptr;
  TRAINRT_TRY(kernels.find("warpgroupQueries", call, queries));
  TRAINRT_TRY(kernels.find("warpgroupKeys", call, keys));
  plan = std::make_shared<Plan>(driver, queries, keys, kernels.multiprocessors(), call);
  return {};
}

} // namespace trainrt::cuda
