// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels for NVIDIA GPUs as cubins and PTX.
#ifndef TRAINC_LIB_TARGET_CUDA_KERNELS_GPUCODEGEN_H
#define TRAINC_LIB_TARGET_CUDA_KERNELS_GPUCODEGEN_H

#include "trainc/Codegen/KernelModule.h"

namespace trainc::codegen {

struct GpuOptions {
  /// Architectures as the CUDA toolkit names them: "sm_90".
  std::vector<std::string> architectures = {"sm_90"};
  /// Folder of the CUDA toolkit or of the wheel nvidia-cuda-nvcc; "": looked for.
  std::string cudaPath;
  /// Make each kernel in a few ways, for tuning to choose from.
  bool variants = false;
  /// Folder where compiled kernels are kept for later compilations; "": none.
  std::string cache = {};
};

/// Kernels for NVIDIA GPUs: PTX, and cubins by ptxas. See docs/design/cuda.md.
class GpuCodegen final : public ModuleCodegen {
public:
  /// Loads the dialects that kernels are made of: not to be called while a pass manager runs.
  GpuCodegen(mlir::MLIRContext &context, GpuOptions options);
  ~GpuCodegen() override;
  GpuCodegen(const GpuCodegen &) = delete;
  GpuCodegen &operator=(const GpuCodegen &) = delete;

  mlir::FailureOr<std::vector<KernelObject>> emitObjects() override;
  mlir::FailureOr<std::vector<KernelListing>> emitListings() override;

  std::string addGrouped(llvm::StringRef kernel) override;

  /// PTX of all kernels, for inspection.
  mlir::FailureOr<std::string> getPTX();

private:
  KernelModule &getKernels() const override;

  struct Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace trainc::codegen

#endif // TRAINC_LIB_TARGET_CUDA_KERNELS_GPUCODEGEN_H
