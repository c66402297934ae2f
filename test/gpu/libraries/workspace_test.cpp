// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What cuDNN's attention asks for beside its operands, against what memory is planned with: a table
// of shapes, and a failure where it asks for more.

#include "device.h"
#include "device/cuda/dnn/dnn.h"
#include "tests.h"

#include <cstdio>

namespace trainrt::cuda::test {

namespace {

struct Shape {
  int64_t batch, heads, kvHeads, rows, columns;
};

std::string describe(const Shape &shape) {
  return std::to_string(shape.batch) + " x " + std::to_string(shape.heads) + "/" +
         std::to_string(shape.kvHeads) + " x " + std::to_string(shape.rows) + " x " +
         std::to_string(shape.columns);
}

/// Of rows that hold heads side by side.
AttentionCall callOf(const Shape &shape, bool backward, bool segmented) {
  AttentionCall call;
  call.backward = backward;
  call.batch = shape.batch, call.heads = shape.heads, call.kvHeads = shape.kvHeads;
  call.queryRows = call.keyRows = shape.rows;
  call.keyColumns = call.valueColumns = shape.columns;
  auto strides = [&](int64_t heads, auto &...lists) {
    for (auto *list : {&lists...}) {
      (*list)[0] = shape.rows * heads * shape.columns;
      (*list)[1] = shape.columns;
      (*list)[2] = heads * shape.columns;
    }
  };
  strides(shape.heads, call.q, call.o);
  strides(shape.kvHeads, call.k, call.v);
  if (backward) {
    strides(shape.heads, call.dO, call.dQ);
    strides(shape.kvHeads, call.dK, call.dV);
  }
  call.scale = 0.125f;
  if (segmented) {
    call.segments = shape.batch, call.longest = shape.rows;
    call.queryRows = call.keyRows = shape.batch * shape.rows;
    call.batch = 1;
  }
  return call;
}

} // namespace

void testWorkspaces(Device &device) {
  (void)device;
  PlanFolder folder;
  std::unique_ptr<Cudnn> dnn;
  if (!check(Cudnn::load(dnn), "cuDNN"))
    return;
  std::printf("%-28s %-32s %10s %10s %s\n", "batch x heads x rows x columns", "", "asks MiB",
              "bound MiB", "parts");
  auto ask = [&](const Shape &shape, AttentionCall call, const std::string &what) {
    const std::string name = describe(shape) + (call.segments ? ", segments" : "") + what;
    std::shared_ptr<const AttentionPlan> plan;
    if (!check(dnn->prepare(call, plan), name))
      return;
    const AttentionSizes sizes = sizesOf(call);
    const AttentionParts parts = attentionParts(sizes);
    const uint64_t asked = plan->workspaceBytes(), bound = uint64_t(attentionWorkspaceLimit(sizes));
    auto inMiB = [](uint64_t bytes) { return double(bytes) / (1 << 20); };
    std::printf("%-28s %-32s %10.2f %10.2f %lld x %lld\n", describe(shape).c_str(),
                ((call.segments ? "segments" : "") + what).c_str(), inMiB(asked), inMiB(bound),
                (long long)parts.batches, (long long)parts.heads);
    std::fflush(stdout);
    check(asked <= bound, name,
          "cuDNN asks for " + std::to_string(asked) + " bytes, planned are " +
              std::to_string(bound));
  };
  for (const Shape &shape :
       {Shape{8, 12, 12, 128, 64}, Shape{4, 12, 12, 1000, 64}, Shape{16, 12, 12, 1024, 64},
        Shape{1, 32, 8, 2048, 128}, Shape{4, 32, 8, 2048, 128}, Shape{11, 32, 8, 1024, 128},
        Shape{1, 32, 8, 8192, 128}, Shape{4, 8, 1, 1024, 256}, Shape{2, 6, 3, 300, 40},
        Shape{64, 16, 16, 512, 64}})
    for (bool segmented : {false, true}) {
      ask(shape, callOf(shape, false, segmented), " forward");
      for (bool causal : {false, true}) {
        AttentionCall call = callOf(shape, true, segmented);
        call.causal = causal;
        ask(shape, call, causal ? " backward causal" : " backward");
        AttentionCall window = call;
        window.band = {64, 64};
        ask(shape, window, causal ? " backward causal window" : " backward window");
        if (shape.batch * shape.heads * shape.rows * shape.rows > int64_t(1) << 30)
          continue;
        call.dropout = 0.1f;
        ask(shape, call, causal ? " backward causal dropout" : " backward dropout");
      }
    }
}

} // namespace trainrt::cuda::test
