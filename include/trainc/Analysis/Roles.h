// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What arguments and results of a function are.
#ifndef TRAINC_ANALYSIS_ROLES_H
#define TRAINC_ANALYSIS_ROLES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace trainc {

/// train.role and train.name of an argument or result, empty where it has none.
llvm::StringRef getArgRole(mlir::func::FuncOp func, unsigned argument);
llvm::StringRef getArgName(mlir::func::FuncOp func, unsigned argument);
llvm::StringRef getResultRole(mlir::func::FuncOp func, unsigned result);
llvm::StringRef getResultName(mlir::func::FuncOp func, unsigned result);

/// Removes some of the results, or those of one role, and what only they needed.
mlir::LogicalResult eraseResults(mlir::func::FuncOp func,
                                 llvm::function_ref<bool(unsigned)> isErased);
mlir::LogicalResult eraseResults(mlir::func::FuncOp func, llvm::StringRef role);

} // namespace trainc

#endif // TRAINC_ANALYSIS_ROLES_H
