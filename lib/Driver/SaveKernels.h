// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// --save-kernels: the code of every kernel in files that are named after it.
#ifndef TRAINC_LIB_DRIVER_SAVEKERNELS_H
#define TRAINC_LIB_DRIVER_SAVEKERNELS_H

#include "dialects/Plan/PlanDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "trainc/Codegen/Codegen.h"
#include "trainc/Support/FileRoles.h"
#include "llvm/ADT/MapVector.h"
#include <map>
#include <string>

namespace trainc {

/// What the kernels of a package compute, gathered while they are made.
class KernelOrigins {
public:
  /// Remembers the fusion that a kernel was made of; only the first counts, others are equal.
  void addFusion(const codegen::KernelInfo &kernel, train::FusionOp fusion);
  /// Remembers that `group` does several launches of `kernel` at once.
  void addGroup(llvm::StringRef kernel, llvm::StringRef group);
  /// Remembers where the plan's functions launch kernels.
  void addLaunches(mlir::ModuleOp plan);

  /// The lines above a kernel's code: its launches with their ONNX nodes, and with `fusions` the
  /// ops it was made of.
  std::vector<std::string> describe(llvm::StringRef kernel, bool fusions) const;

private:
  std::map<std::string, std::string, std::less<>> fusions;
  std::map<std::string, std::vector<std::string>, std::less<>> launches;
};

/// Writes DIR/KERNEL.ENDING for every text of every listing. Returns what went wrong; "" if nothing
/// did.
std::string saveKernels(llvm::ArrayRef<codegen::KernelListing> listings,
                        const KernelOrigins &origins, llvm::StringRef folder, FileRoles &files);

} // namespace trainc

#endif // TRAINC_LIB_DRIVER_SAVEKERNELS_H
