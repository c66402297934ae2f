// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matrix products through cuBLASLt: the choice of an algorithm, its cache, and tuning by
// measurement.
//
// Results are the same bits in every run: an algorithm is chosen from shapes, strides, dtype and
// alignment only, and those that add partial sums in the result's own type or place are excluded.
#ifndef TRAINRT_CUDA_BLAS_H
#define TRAINRT_CUDA_BLAS_H

#include "cuda/libraries.h"

#include <string>
#include <string_view>

namespace trainrt::cuda {

struct BlasImpl;

class CublasLt final : public Blas {
public:
  static Status load(std::unique_ptr<CublasLt> &blas);
  ~CublasLt() override;

  Status prepare(const GemmCall &call, std::shared_ptr<const GemmPlan> &plan) override;

  /// Times up to `candidates` algorithms for `call` on `stream` and remembers the quickest, which
  /// later calls of `prepare` with this shape use. Overwrites C and what the epilogue writes. The
  /// workspace has `gemmWorkspaceLimit` bytes.
  Status tune(const GemmCall &call, StreamHandle stream, Workspace workspace, int candidates);

  /// What `tune` has found, as lines of text under one that names the library's version and the
  /// device.
  std::string tunedChoices() const;
  /// The inverse. Unsupported if the text is of another version or device, BadData if it is
  /// damaged.
  Status addTunedChoices(std::string_view text);

private:
  explicit CublasLt(std::shared_ptr<BlasImpl> impl);
  std::shared_ptr<BlasImpl> impl;
};

} // namespace trainrt::cuda

#endif // TRAINRT_CUDA_BLAS_H
