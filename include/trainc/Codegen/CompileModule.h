// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What compiling LLVM bitcode takes for every processor.
#ifndef TRAINC_CODEGEN_COMPILEMODULE_H
#define TRAINC_CODEGEN_COMPILEMODULE_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/PassManager.h"
#include "llvm/Target/TargetMachine.h"
#include <memory>
#include <string>

namespace trainc::codegen {

/// The module in `bitcode`, for the machine. Null with `error` set if it is none.
std::unique_ptr<llvm::Module> readModule(llvm::StringRef bitcode, llvm::LLVMContext &context,
                                         llvm::TargetMachine &machine, std::string &error);
/// LLVM's O2 pipeline without its vectorizers, behind the passes of `early`.
void optimizeModule(llvm::Module &module, llvm::TargetMachine &machine,
                    llvm::FunctionPassManager early = llvm::FunctionPassManager());
/// Object code or assembly. False if the machine has no such thing.
bool emitModule(llvm::Module &module, llvm::TargetMachine &machine, llvm::CodeGenFileType type,
                llvm::SmallVectorImpl<char> &result);

/// Calls `work` for 0 .. count - 1, spread over the machine's threads. Where crash signals are
/// recovered from (llvm::CrashRecoveryContext), one in a thread is raised in the caller when all
/// threads are done.
void inParallel(size_t count, llvm::function_ref<void(size_t)> work);

} // namespace trainc::codegen

#endif // TRAINC_CODEGEN_COMPILEMODULE_H
