// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matmuls through cuBLASLt: the choice of an algorithm, and its cache.
//
// Results are the same bits in every run: an algorithm is chosen from shapes, strides, dtype and
// alignment only, or is that of a tuned package, and those that add partial sums in the result's
// own type or place are excluded.
#ifndef TRAINRT_DEVICE_CUDA_BLAS_H
#define TRAINRT_DEVICE_CUDA_BLAS_H

#include "device/cuda/libraries.h"

namespace trainrt::cuda {

struct BlasImpl;

class CublasLt final : public Blas {
public:
  static Status load(std::unique_ptr<CublasLt> &blas);
  ~CublasLt() override;

  Status prepare(const GemmCall &call, std::shared_ptr<const GemmPlan> &plan) override;
  Status alternatives(const GemmCall &call, size_t count,
                      std::vector<std::shared_ptr<const GemmPlan>> &plans) override;
  std::string machine() const override;
  Status choose(const Choices &choices) override;

private:
  explicit CublasLt(std::shared_ptr<BlasImpl> impl);
  std::shared_ptr<BlasImpl> impl;
};

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_BLAS_H
