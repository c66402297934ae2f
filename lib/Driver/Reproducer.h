// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reproducers: a file with the IR that the compiler failed on, the passes that fail on it and the
// command line, and how it is run again.
#ifndef TRAINC_LIB_DRIVER_REPRODUCER_H
#define TRAINC_LIB_DRIVER_REPRODUCER_H

#include "lib/Driver/CrashGuard.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "trainc/Support/FileRoles.h"
#include <string>
#include <vector>

namespace trainc {

/// What is found when a pipeline that has failed is run once more.
struct FailingPass {
  /// How it fails: Reported is a failure that the pass has signalled, BrokenIR one that the
  /// verifier found behind it.
  enum Kind { None, Reported, BrokenIR, Crashed } kind = None;
  /// The pass alone as a pipeline, "builtin.module(func.func(form-kernels{...}))"; "" for None.
  std::string pipeline;
  /// The module before the pass; null for None.
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

/// Runs a pipeline on a copy of `module` to find the pass that fails.
FailingPass findFailingPass(mlir::ModuleOp module,
                            llvm::function_ref<void(mlir::OpPassManager &)> build,
                            CrashGuard &guard);

struct Reproducer {
  /// legalize, graph, schedule or codegen.
  std::string phase;
  /// "failed", "made invalid IR" or "crashed (Segmentation fault)".
  std::string fault;
  /// The passes to run; "" where the phase is none.
  std::string pipeline;
  /// The command line without the program.
  std::vector<std::string> arguments;
};

/// The text of a reproducer. Both trainc --replay and trainc-opt --run-reproducer understand it.
void printReproducer(const Reproducer &reproducer, mlir::ModuleOp module, llvm::StringRef path,
                     llvm::raw_ostream &out);

/// Writes it beside the package, else where temporary files go. Returns where, "" after a message
/// if nowhere.
std::string writeReproducer(const Reproducer &reproducer, mlir::ModuleOp module,
                            llvm::StringRef package, FileRoles &files);

/// A reproducer that was read.
struct ParsedReproducer {
  std::string phase;
  std::vector<std::string> arguments;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  /// The pipeline, for a pass manager.
  mlir::PassReproducerOptions passes;
};

/// Reads the phase and the command line, which decide how to go on. False with `problem` set if
/// the file is none of trainc's.
bool readReproducerHeader(llvm::StringRef path, ParsedReproducer &reproducer, std::string &problem);
/// Reads the module and the passes; fails after diagnostics.
mlir::LogicalResult readReproducerModule(llvm::StringRef path, mlir::MLIRContext &context,
                                         ParsedReproducer &reproducer);

} // namespace trainc

#endif // TRAINC_LIB_DRIVER_REPRODUCER_H
