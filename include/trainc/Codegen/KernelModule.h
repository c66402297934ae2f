// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the processors' code generators have in common: kernels are functions of one module, each of
// which is emitted once.
#ifndef TRAINC_CODEGEN_KERNELMODULE_H
#define TRAINC_CODEGEN_KERNELMODULE_H

#include "trainc/Codegen/Codegen.h"
#include "trainc/Codegen/KernelCache.h"
#include "trainc/Codegen/KnownFusions.h"
#include "trainc/Codegen/Structure.h"
#include <atomic>
#include <map>

namespace trainc::codegen {

struct EmittedKernel {
  std::string name;
  /// Sizes of the fusion that the kernel was emitted for, and the kernel's, which begin with them.
  llvm::SmallVector<train::DimAttr> keyDims, dims;
  llvm::SmallVector<std::pair<unsigned, unsigned>> inPlace;
  /// Names of kernels that may be launched instead; "": one that needs another launch.
  std::vector<std::string> variants = {};
};

class KernelModule {
public:
  /// `processor`: as messages call it ("CPU"). `cache`: folder where compiled kernels are kept.
  KernelModule(mlir::MLIRContext &context, llvm::StringRef processor, llvm::StringRef cache);
  virtual ~KernelModule() = default;

  /// The kernel of a fusion, checked and not asked for before.
  virtual mlir::FailureOr<KernelInfo> make(train::FusionOp fusion) = 0;

  /// Element types that kernels read and write.
  mlir::LogicalResult checkBuffers(train::FusionOp fusion) const;

  /// The kernel that fusions of this key share: `emit` makes it, whose name and sizes are set, for
  /// the first of them. `kind` is a part of the name; `dims` gets what launches pass. Valid until
  /// the next one is emitted.
  mlir::FailureOr<const EmittedKernel *>
  share(const StructuralKey &key, llvm::StringRef kind,
        llvm::function_ref<mlir::LogicalResult(EmittedKernel &)> emit,
        llvm::SmallVectorImpl<train::DimAttr> &dims);

  mlir::OwningOpRef<mlir::ModuleOp> module;
  KernelCache cache;
  KnownFusions known;
  std::string processor;
  size_t count = 0;
  std::atomic<bool> lacksTools{false};

private:
  std::map<std::string, llvm::SmallVector<EmittedKernel>> kernels;
};

/// Code generation into such a module.
class ModuleCodegen : public KernelCodegen {
public:
  mlir::FailureOr<KernelInfo> add(train::FusionOp fusion) final;
  size_t size() const final { return getKernels().count; }
  bool lacksTools() const final { return getKernels().lacksTools; }
  double getCacheHitRate() const final { return getKernels().cache.getHitRate(); }
  mlir::ModuleOp getModule() final { return *getKernels().module; }

private:
  virtual KernelModule &getKernels() const = 0;
};

} // namespace trainc::codegen

#endif // TRAINC_CODEGEN_KERNELMODULE_H
