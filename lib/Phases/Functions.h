// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the checks of several phases have in common: top-level ops, and functions with roles.
#ifndef TRAINC_LIB_PHASES_FUNCTIONS_H
#define TRAINC_LIB_PHASES_FUNCTIONS_H

#include "dialects/Train/TrainDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace trainc::phases {

/// An error at `op`, "after the phase 'PHASE' ...".
mlir::InFlightDiagnostic refuse(mlir::Operation *op, llvm::StringRef phase);
/// An error at an op that has no place there; `leaves`: what has one.
mlir::LogicalResult refuseOp(mlir::Operation *op, llvm::StringRef phase, llvm::StringRef leaves);

/// Which functions there are: @eval, and @step with @micro and @update or alone; others are their
/// variants.
mlir::LogicalResult checkFunctionNames(mlir::ModuleOp module, llvm::StringRef phase,
                                       llvm::ArrayRef<mlir::Operation *> functions);

/// What arguments and results may be.
struct Roles {
  llvm::ArrayRef<llvm::StringRef> arguments, results;
};
/// One block, which func.return ends; arguments and results with these roles, and a name each; what
/// is updated is an argument; every size that a type in it names is declared in the module.
mlir::LogicalResult checkFunction(mlir::func::FuncOp function, llvm::StringRef phase,
                                  const Roles &roles);
/// Nothing but ops of the train dialect in the function, and no kernel.
mlir::LogicalResult checkGraphOps(mlir::func::FuncOp function, llvm::StringRef phase,
                                  llvm::StringRef leaves);
/// The module has declared sizes and the functions that are called while training, with their
/// roles; nothing is said of the ops in them.
mlir::LogicalResult checkFunctions(mlir::ModuleOp module, llvm::StringRef phase,
                                   llvm::StringRef leaves);

} // namespace trainc::phases

#endif // TRAINC_LIB_PHASES_FUNCTIONS_H
