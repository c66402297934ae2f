// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Bitcode to optimised code; threads.

#include "trainc/Codegen/CompileModule.h"

#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/CrashRecoveryContext.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"
#include <atomic>
#include <csignal>
#include <thread>

namespace trainc::codegen {

/// Bitcode crosses from one LLVM context to another: contexts are not shared between threads.
std::unique_ptr<llvm::Module> readModule(llvm::StringRef bitcode, llvm::LLVMContext &context,
                                         llvm::TargetMachine &machine, std::string &error) {
  auto parsed = llvm::parseBitcodeFile(llvm::MemoryBufferRef(bitcode, "kernels"), context);
  if (!parsed) {
    error = llvm::toString(parsed.takeError());
    return nullptr;
  }
  (*parsed)->setTargetTriple(machine.getTargetTriple());
  (*parsed)->setDataLayout(machine.createDataLayout());
  return std::move(*parsed);
}

/// Kernels are written with the vectors and the order of operations that they are to have: LLVM
/// must not choose others, which would change bits.
void optimizeModule(llvm::Module &module, llvm::TargetMachine &machine,
                    llvm::FunctionPassManager early) {
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = false;
  tuning.SLPVectorization = false;
  tuning.LoopInterleaving = false;
  llvm::PassBuilder builder(&machine, tuning);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager cgscc;
  llvm::ModuleAnalysisManager modules;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(cgscc);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, cgscc, modules);
  llvm::ModulePassManager passes;
  if (!early.isEmpty())
    passes.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(early)));
  passes.addPass(builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2));
  passes.run(module, modules);
}

bool emitModule(llvm::Module &module, llvm::TargetMachine &machine, llvm::CodeGenFileType type,
                /// False if the target cannot emit this type of file.
                llvm::SmallVectorImpl<char> &result) {
  llvm::raw_svector_ostream os(result);
  llvm::legacy::PassManager emission;
  if (machine.addPassesToEmitFile(emission, os, nullptr, type))
    return false;
  emission.run(module);
  return true;
}

/// Calls work(0) to work(count - 1), each once, in any order and thread. `work` must not depend on
/// either: results go to places of their own.
void inParallel(size_t count, llvm::function_ref<void(size_t)> work) {
  std::atomic<size_t> next{0};
  std::atomic<int> crash{0};
  // Also in this thread: the others must have ended before anybody leaves.
  auto run = [&] {
    llvm::CrashRecoveryContext recovery;
    // A crash in a thread would end the process before others have finished what they write.
    bool finished = recovery.RunSafely([&] {
      for (size_t number; (number = next++) < count;)
        work(number);
    });
    if (!finished)
      crash = recovery.RetCode;
  };
  std::vector<std::thread> threads;
  for (size_t i = 1; i < std::min<size_t>(count, std::thread::hardware_concurrency()); ++i)
    threads.emplace_back(run);
  run();
  for (std::thread &thread : threads)
    thread.join();
  // LLVM's code of a signal is that of a shell.
  if (crash)
    std::raise(crash - 128);
}

} // namespace trainc::codegen
