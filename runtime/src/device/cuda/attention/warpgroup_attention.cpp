// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernels of device/cuda/kernels/warpgroup_attention.h: when they are used, launching them.

#include "device/cuda/attention/warpgroup_attention.h"
#include "device/cuda/kernels/warpgroup_shapes.h"

#include <algorithm>
#include <cassert>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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
Launch forward(const AttentionCall &call) {
  return launchOf<WarpgroupShapes<64>::Forward>(call.heads);
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

/// Of one of the two numbers that each row and head has for its gradient.
uint64_t numberBytes(const AttentionCall &call) {
  return uint64_t(call.batch) * uint64_t(call.heads) * uint64_t(call.queryRows) * sizeof(float);
}
/// Behind the numbers.
uint64_t maskOffset(const AttentionCall &call) {
  constexpr uint64_t alignment = 16;
  return (numberBytes(call) * 2 + alignment - 1) / alignment * alignment;
}
/// A bit for each weight, in blocks.
uint64_t maskBytes(const AttentionCall &call) {
  const uint64_t blocks = uint64_t(call.queryRows + groupRows - 1) / groupRows;
  return call.dropout > 0
             ? uint64_t(call.batch) * uint64_t(call.heads) * blocks * blocks * maskBlockBytes
             : 0;
}
/// What memory is planned with for the backward of such a call.
uint64_t plannedBytes(const AttentionCall &call) {
  AttentionSizes sizes = sizesOf(call);
  sizes.backward = true;
  return uint64_t(attentionWorkspaceLimit(sizes));
}

/// With dropout there is a forward, and kernels for up to 64 columns; tiles of 16 rows are numbered
/// with 12 bits in the mask.
bool hasMask(const AttentionCall &call) {
  return call.dropout > 0 ? call.keyColumns <= 64 && call.queryRows <= 16 << 12 : call.backward;
}

/// A kernel, or two after another.
struct Part {
  CUfunction function;
  Launch launch;
};

/// The workspace has these numbers and the mask. Nothing in it changes with a run.
class Plan final : public AttentionPlan {
public:
  Plan(const Driver &driver, std::vector<Part> parts, int64_t multiprocessors,
       const AttentionCall &call)
      : driver(driver), parts(std::move(parts)), multiprocessors(multiprocessors), call(call) {}

  uint64_t workspaceBytes() const override {
    return call.backward ? WarpgroupAttention::backwardBytes(call) : 0;
  }
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
    args.mask = workspace.address + maskOffset(call);
    for (const Part &part : parts)
      TRAINRT_TRY(start(stream, part, args));
    return {};
  }

private:
  /// Each multiprocessor has room for one block, which computes one thing after another.
  Status start(StreamHandle stream, const Part &part, AttentionArguments &args) const {
    void *parameters[] = {&args};
    const auto blocks = unsigned(std::min(part.launch.works(call), multiprocessors));
    return driver.check(driver.cuLaunchKernel(part.function, blocks, 1, 1, part.launch.threads, 1,
                                              1, part.launch.sharedBytes,
                                              static_cast<CUstream>(stream), parameters, nullptr),
                        "cannot start the runtime's kernel for attention by warpgroups");
  }

  const Driver &driver;
  const std::vector<Part> parts;
  const int64_t multiprocessors;
  const AttentionCall call;
};

/// Calls of one sort, and what was measured of them on an H100.
struct Sort {
  int columns; ///< up to so many
  bool hasDropout, isCausal;
  bool isQuicker; ///< than cuDNN: its gradient; with dropout both directions together
  /// The columns of a window from which on these are quicker than the kernels for windows.
  int64_t window;
};
constexpr int64_t unmeasured = INT64_MAX;
constexpr Sort sorts[] = {
    {64, false, false, true, 128},         {64, false, true, true, unmeasured},
    {128, false, false, true, unmeasured}, {128, false, true, true, unmeasured},
    {64, true, false, false, unmeasured}, // level on GPT-2's shape, causal
    {64, true, true, false, unmeasured},  // 566 us for cuDNN's 577
};

/// Null: none of them is known.
const Sort *sortOf(const AttentionCall &call) {
  const auto *found = std::ranges::find_if(sorts, [&](const Sort &sort) {
    return call.keyColumns <= sort.columns && (call.dropout > 0) == sort.hasDropout &&
           call.causal == sort.isCausal;
  });
  return found == std::end(sorts) ? nullptr : found;
}

/// What the environment says, if it does.
std::optional<bool> wish() {
  const char *value = std::getenv("TRAINRT_WARPGROUP_ATTENTION");
  const std::string_view wanted = value ? value : "";
  return wanted == "1" || wanted == "0" ? std::optional(wanted == "1") : std::nullopt;
}

} // namespace

bool WarpgroupAttention::isWanted(const AttentionCall &call) {
  const Sort *sort = sortOf(call);
  return wish().value_or(sort && sort->isQuicker && (call.backward || call.dropout > 0));
}

bool WarpgroupAttention::isAskedFirst(const AttentionCall &call) {
  const Sort *sort = sortOf(call);
  const int64_t after = call.causal ? 0 : call.band.after,
                seen = std::min(call.band.before, call.queryRows) + std::min(after, call.queryRows);
  return wish().value_or(sort && seen >= sort->window);
}

uint64_t WarpgroupAttention::backwardBytes(const AttentionCall &call) {
  return maskOffset(call) + maskBytes(call);
}

Status WarpgroupAttention::load(std::unique_ptr<WarpgroupAttention> &attention) {
  const Driver *driver = nullptr;
  TRAINRT_TRY(Driver::load(driver));
  std::unique_ptr<WarpgroupAttention> made(new WarpgroupAttention(*driver));
  TRAINRT_TRY(
      made->kernels.loadWarpgroups({"warpgroupQueries", "warpgroupKeys", "warpgroupForwardDropout",
                                    "warpgroupQueriesDropout", "warpgroupKeysDropout"}));
  attention = std::move(made);
  return {};
}

/// With dropout the directions of a step go the same way: what only one of them knows, its
/// operands' alignment, does not decide.
bool WarpgroupAttention::canCompute(const AttentionCall &call) const {
  // Blocks count them beyond the last one.
  const int64_t most = INT_MAX - 2 * int64_t(kernels.multiprocessors());
  return !kernels.empty() && !call.segments && hasMask(call) &&
         AttentionKernels::canCompute(call) &&
         (call.dropout > 0 || AttentionKernels::isAligned(call)) &&
         int64_t(std::max({forward(call).sharedBytes, queries(call).sharedBytes,
                           keys(call).sharedBytes})) <= kernels.sharedBytes() &&
         call.batch <= INT_MAX &&
         std::max({forward(call).works(call), queries(call).works(call), keys(call).works(call)}) <=
             most &&
         backwardBytes(call) <= plannedBytes(call);
}

/// `canCompute` has said yes, so the kernels exist.
Status WarpgroupAttention::prepare(const AttentionCall &call,
                                   std::shared_ptr<const AttentionPlan> &plan) {
  assert(canCompute(call) && "else it is cuDNN's");
  if (!AttentionKernels::isAligned(call))
    return fail(Code::Unsupported,
                "attention with dropout by warpgroups needs rows and heads that begin at multiples "
                "of 8 columns. TRAINRT_WARPGROUP_ATTENTION=0 leaves it to cuDNN");
  std::vector<Part> parts;
  auto add = [&](std::string job, const Launch &launch) {
    parts.push_back({nullptr, launch});
    return kernels.find((job + (call.dropout > 0 ? "Dropout" : "")).c_str(), call,
                        parts.back().function);
  };
  if (call.backward) {
    TRAINRT_TRY(add("warpgroupQueries", queries(call)));
    TRAINRT_TRY(add("warpgroupKeys", keys(call)));
  } else {
    TRAINRT_TRY(add("warpgroupForward", forward(call)));
  }
  plan = std::make_shared<Plan>(driver, std::move(parts), kernels.multiprocessors(), call);
  return {};
}

} // namespace trainrt::cuda
