// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loads and launches the kernels for ranks' numbers: of many ranges as many at a time as a launch's
// parameters have room for.

#include "device/cuda/ranks/rank_kernels.h"
#include "device/cuda/kernels/embedded_kernels.h"

#include <algorithm>

namespace trainrt::cuda {

namespace {
constexpr const char *moduleName = "rank_sums";
constexpr unsigned verdictThreads = 256, sumThreads = 256, mostSumBlocks = 2048;
} // namespace

Status RankKernels::load(const Driver &driver, std::unique_ptr<RankKernels> &kernels) {
  if (!hasEmbedded(moduleName))
    return Status(Code::Unsupported, "this build of libtrainrt has no kernels of its own, by which "
                                     "ranks on GPUs add up; build it where clang has the target "
                                     "NVPTX");
  std::unique_ptr<RankKernels> made(new RankKernels(driver));
  const char *what = "cannot load the runtime's kernels for the sums over ranks";
  TRAINRT_TRY(loadEmbedded(driver, moduleName, what, made->module));
  auto find = [&](const char *name, CUfunction &function) {
    return driver.check(driver.cuModuleGetFunction(&function, made->module, name), what);
  };
  constexpr const char *sums[] = {"trainrt_rank_sums_f32", "trainrt_rank_sums_f64",
                                  "trainrt_rank_sums_f16", "trainrt_rank_sums_bf16"};
  for (size_t i = 0; i < std::size(sums); ++i)
    TRAINRT_TRY(find(sums[i], made->sums[i]));
  TRAINRT_TRY(find("trainrt_widen_f16", made->wide[0]));
  TRAINRT_TRY(find("trainrt_widen_bf16", made->wide[1]));
  TRAINRT_TRY(find("trainrt_verdict", made->verdicts));
  kernels = std::move(made);
  return {};
}

RankKernels::~RankKernels() {
  if (module)
    driver.cuModuleUnload(module);
}

Status RankKernels::addUp(SumTypes types, RankSumsArguments arguments,
                          std::span<const RankSumsArguments::Range> ranges, CUstream stream) const {
  return launch(sums[size_t(types.sent)], arguments, ranges,
                "cannot start the runtime's kernel for the sums over ranks", stream);
}

Status RankKernels::widen(DType from, std::span<const RankSumsArguments::Range> ranges,
                          CUstream stream) const {
  RankSumsArguments arguments{};
  return launch(wide[from == DType::BF16], arguments, ranges,
                "cannot start the runtime's kernel that makes f32 of gradients", stream);
}

Status RankKernels::judge(DeviceAddress slots, int64_t count, DeviceAddress verdict,
                          CUstream stream) const {
  VerdictArguments arguments{slots, count, verdict};
  void *parameters[] = {&arguments};
  return driver.check(driver.cuLaunchKernel(verdicts, 1, 1, 1, verdictThreads, 1, 1, 0, stream,
                                            parameters, nullptr),
                      "cannot start the runtime's kernel for the verdict of a step");
}

Status RankKernels::launch(CUfunction kernel, RankSumsArguments &arguments,
                           std::span<const RankSumsArguments::Range> ranges, const char *what,
                           CUstream stream) const {
  while (!ranges.empty()) {
    const auto some =
        ranges.first(std::min<size_t>(ranges.size(), size_t(RankSumsArguments::mostRanges)));
    ranges = ranges.subspan(some.size());
    std::copy(some.begin(), some.end(), arguments.ranges);
    int64_t most = 0;
    for (const RankSumsArguments::Range &range : some)
      most = std::max(most, range.elements);
    const auto blocks =
        unsigned(std::min<int64_t>(mostSumBlocks, (most + sumThreads - 1) / sumThreads));
    void *parameters[] = {&arguments};
    TRAINRT_TRY(
        driver.check(driver.cuLaunchKernel(kernel, blocks, unsigned(some.size()), 1, sumThreads, 1,
                                           1, 0, stream, parameters, nullptr),
                     what));
  }
  return {};
}

} // namespace trainrt::cuda
