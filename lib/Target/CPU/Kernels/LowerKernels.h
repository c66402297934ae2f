// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From kernels in MLIR to a shared object.
#ifndef TRAINC_LIB_TARGET_CPU_KERNELS_LOWERKERNELS_H
#define TRAINC_LIB_TARGET_CPU_KERNELS_LOWERKERNELS_H

#include "mlir/IR/BuiltinOps.h"
#include <string>
#include <vector>

namespace trainc::codegen {

/// Optimises bitcode for a CPU and emits an object file; on failure returns nothing and sets
/// `error`. Works without MLIR and shares nothing: safe on any thread.
std::vector<char> compileBitcode(llvm::StringRef bitcode, llvm::StringRef cpu, std::string &error);
/// The same as assembly; "" on failure.
std::string compileToAssembly(llvm::StringRef bitcode, llvm::StringRef cpu, std::string &error);
/// An object file with another name for one of its symbols; on failure returns nothing and sets
/// `error`.
std::vector<char> renameSymbol(llvm::ArrayRef<char> object, llvm::StringRef from,
                               llvm::StringRef to, std::string &error);
/// Links object files into a shared object with lld; on failure returns nothing and sets `error`.
std::vector<char> linkShared(llvm::ArrayRef<std::vector<char>> objects, std::string &error);

} // namespace trainc::codegen

#endif // TRAINC_LIB_TARGET_CPU_KERNELS_LOWERKERNELS_H
