// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From kernels in MLIR to LLVM IR, the same for all processors.
#ifndef TRAINC_CODEGEN_LOWERTOLLVM_H
#define TRAINC_CODEGEN_LOWERTOLLVM_H

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include <string>

namespace trainc::codegen {

class HardwareMath;
struct KernelListing;

/// Lowers the functions of a module to the LLVM dialect, in place. `mathPrefix` begins the names of
/// the library that has the functions without an expansion.
llvm::LogicalResult lowerToLLVMDialect(mlir::ModuleOp module, llvm::StringRef mathPrefix,
                                       const HardwareMath *hardware = nullptr);
/// Splits the module's kernels into modules of `count`, each with the declarations and globals that
/// its kernels use.
llvm::SmallVector<mlir::OwningOpRef<mlir::ModuleOp>> splitModule(mlir::ModuleOp module,
                                                                 unsigned count);
/// The kernel of a module that `splitModule` has made with a count of one.
mlir::LLVM::LLVMFuncOp getKernel(mlir::ModuleOp module);
/// LLVM bitcode of a module in the LLVM dialect.
mlir::FailureOr<std::string> translateToBitcode(mlir::ModuleOp module);
/// LLVM assembly of a module in the LLVM dialect.
mlir::FailureOr<std::string> translateToText(mlir::ModuleOp module);
/// The listing of such a kernel down to LLVM IR, and its bitcode.
llvm::LogicalResult lowerListed(mlir::ModuleOp kernel, llvm::StringRef mathPrefix,
                                const HardwareMath *hardware, KernelListing &listing,
                                std::string &bitcode);

} // namespace trainc::codegen

#endif // TRAINC_CODEGEN_LOWERTOLLVM_H
