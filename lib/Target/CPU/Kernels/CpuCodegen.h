// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels for x86-64 and AArch64 as shared objects.
#ifndef TRAINC_LIB_TARGET_CPU_KERNELS_CPUCODEGEN_H
#define TRAINC_LIB_TARGET_CPU_KERNELS_CPUCODEGEN_H

#include "trainc/Codegen/KernelModule.h"

namespace trainc::codegen {

/// Kernels for x86-64 and AArch64.
class CpuCodegen final : public ModuleCodegen {
public:
  /// Loads the dialects that kernels are made of: not to be called while a pass manager runs.
  /// `levels`: what emitObjects compiles for ("x86-64-v3", "x86-64-v4", "armv8.2-a"). `cache`:
  /// folder where compiled kernels are kept for later compilations; "": none.
  explicit CpuCodegen(mlir::MLIRContext &context, llvm::ArrayRef<std::string> levels = {},
                      llvm::StringRef cache = "");
  ~CpuCodegen() override;
  CpuCodegen(const CpuCodegen &) = delete;
  CpuCodegen &operator=(const CpuCodegen &) = delete;

  mlir::FailureOr<std::vector<KernelObject>> emitObjects() override;
  mlir::FailureOr<std::vector<KernelListing>> emitListings() override;

  /// Lowers all kernels for a CPU level ("x86-64-v3", "x86-64-v4") and links them; the
  /// bytes of a shared object. Kernels may not be added afterwards. Several threads may call it at
  /// once.
  mlir::FailureOr<std::vector<char>> emitSharedObject(llvm::StringRef cpu);
  /// The same for several levels, spread over the threads of the machine.
  mlir::FailureOr<std::vector<std::vector<char>>>
  emitSharedObjects(llvm::ArrayRef<llvm::StringRef> cpus);

  /// LLVM assembly of all kernels (before optimisation), for inspection.
  mlir::FailureOr<std::string> getLLVMText();

private:
  KernelModule &getKernels() const override;

  struct Impl;
  std::unique_ptr<Impl> impl;
};

/// The best CPU level that this machine runs ("x86-64-v4"), under the name that the runtime
/// matches; "" if it runs none.
llvm::StringRef getHostLevel();

} // namespace trainc::codegen

#endif // TRAINC_LIB_TARGET_CPU_KERNELS_CPUCODEGEN_H
