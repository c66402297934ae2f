// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The runtime's kernels for ranks' numbers (device/cuda/kernels/rank_sums.h).
#ifndef TRAINRT_DEVICE_CUDA_RANKS_RANK_KERNELS_H
#define TRAINRT_DEVICE_CUDA_RANKS_RANK_KERNELS_H

#include "device/cuda/driver.h"
#include "device/cuda/kernels/rank_sums.h"
#include "device/cuda/libraries.h"
#include "format/sum_types.h"

#include <memory>
#include <span>

namespace trainrt::cuda {

class RankKernels {
public:
  /// The context is current, here and when this is destroyed. Unsupported where the build has none.
  static Status load(const Driver &driver, std::unique_ptr<RankKernels> &kernels);
  ~RankKernels();
  RankKernels(const RankKernels &) = delete;
  RankKernels &operator=(const RankKernels &) = delete;

  /// Adds up these ranges and the other ranks' pieces of them.
  Status addUp(SumTypes types, RankSumsArguments arguments,
               std::span<const RankSumsArguments::Range> ranges, CUstream stream) const;
  /// Of bf16 or f16 the same numbers in f32.
  Status widen(DType from, std::span<const RankSumsArguments::Range> ranges, CUstream stream) const;
  /// Lets the f32 at `verdict` be 1 where one of these error slots is taken.
  Status judge(DeviceAddress slots, int64_t count, DeviceAddress verdict, CUstream stream) const;

private:
  explicit RankKernels(const Driver &driver) : driver(driver) {}
  Status launch(CUfunction kernel, RankSumsArguments &arguments,
                std::span<const RankSumsArguments::Range> ranges, const char *what,
                CUstream stream) const;

  const Driver &driver;
  CUmodule module = nullptr;
  CUfunction sums[4] = {}; ///< as DType has them: of f32, f64, f16, bf16
  CUfunction wide[2] = {}; ///< of f16, of bf16
  CUfunction verdicts = nullptr;
};

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_RANKS_RANK_KERNELS_H
