// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From a function whose ops are kernels, library calls and views to a `plan.function`.
#ifndef TRAINC_LIB_CONVERSION_TRAINTOPLAN_H
#define TRAINC_LIB_CONVERSION_TRAINTOPLAN_H

#include "dialects/Plan/PlanDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "trainc/Codegen/Codegen.h"

namespace trainc {

/// Gives the kernel of a fusion: a target's code generator.
using KernelSource = llvm::function_ref<mlir::FailureOr<codegen::KernelInfo>(train::FusionOp)>;

/// Replaces `function` by a plan.function of the same name, in the order of its ops. Updated
/// arguments are written in place where no later command reads the old value, through a copy
/// otherwise. Fails with a diagnostic at the op that has no place in a plan.
/// `tf32`: matmuls of f32 may round their operands to TF32.
mlir::LogicalResult convertTrainToPlan(mlir::func::FuncOp function, KernelSource kernels,
                                       bool tf32 = false);

} // namespace trainc

#endif // TRAINC_LIB_CONVERSION_TRAINTOPLAN_H
