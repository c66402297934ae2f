// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Nothing is read before the first phase.

#include "lib/Driver/Compilation.h"

#include "dialects/ONNX/ONNXDialect.h"
#include "dialects/Plan/PlanDialect.h"
#include "lib/Driver/SavedIR.h"
#include "lib/Phases/Phases.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "trainc/Plugin/LoadedPlugins.h"

using namespace mlir;
using namespace trainc;

/// Everything that the phases share; the order of members is that of their use.
Compilation::Compilation(const CompileOptions &given)
    : options(given), log(options.logLevel, options.warningsAsErrors),
      printer(context, options.model, log), outputs(options, log) {
  timing.setEnabled(options.timing);
  rootTimer = timing.getRootScope();
  // One thread: remarks, diagnostics and names come in one order.
  context.disableMultithreading();
  context.printOpOnDiagnostic(false);
  context.loadDialect<arith::ArithDialect, func::FuncDialect, math::MathDialect, onnx::ONNXDialect,
                      train::TrainDialect, plan::PlanDialect>();
  DialectRegistry plugins;
  plugin::addPluginDialects(plugins);
  context.appendDialectRegistry(plugins);
  for (StringRef name : plugins.getDialectNames())
    context.getOrLoadDialect(name);
  log.debug() << "version " TRAINC_VERSION ": " << llvm::join(options.arguments, " ") << "\n";
}

/// Such phases only prepare what the saved IR does not hold; they save and report nothing.
bool Compilation::precedesSavedIR(StringRef phase) const {
  return !options.startFrom.empty() &&
         llvm::find(kPhases, phase) <= llvm::find(kPhases, options.startFrom);
}

int Compilation::takeSavedIR(StringRef phase) {
  if (options.startFrom != phase)
    return ExitSuccess;
  // What the phase has made is replaced; its other results stay.
  module = readSavedIR(options.savedIR, context);
  return module ? ExitSuccess : ExitInput;
}

/// A code generator of its own each time: it has a module and its counters.
std::unique_ptr<codegen::KernelCodegen> trainc::makeCodegen(Compilation &compilation,
                                                            bool variants) {
  const CompileOptions &options = compilation.options;
  return options.target->createKernels(
      compilation.context, {options.processors, options.toolkit, variants, options.cache});
}
