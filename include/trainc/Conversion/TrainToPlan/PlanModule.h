// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// All functions of a schedule as plan functions, with the kernels of a target.
#ifndef TRAINC_CONVERSION_TRAINTOPLAN_PLANMODULE_H
#define TRAINC_CONVERSION_TRAINTOPLAN_PLANMODULE_H

#include "mlir/IR/BuiltinOps.h"
#include "trainc/Codegen/Codegen.h"
#include <functional>

namespace trainc {

struct PlanModuleOptions {
  /// Matmuls of f32 may round their operands to TF32.
  bool tf32 = false;
  /// Called for each kernel of a fusion, and for each that launches are grouped in.
  std::function<void(const codegen::KernelInfo &, train::FusionOp)> onKernel;
  std::function<void(llvm::StringRef kernel, llvm::StringRef group)> onGroup;
};

/// Replaces the functions by plan functions and adds their kernels to `codegen`. Fails with a
/// diagnostic at the op that has no place in a plan, or no kernel.
mlir::LogicalResult planModule(mlir::ModuleOp module, codegen::KernelCodegen &codegen,
                               const PlanModuleOptions &options = {});

} // namespace trainc

#endif // TRAINC_CONVERSION_TRAINTOPLAN_PLANMODULE_H
