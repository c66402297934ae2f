// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Nothing of a model is there: no weights, and what the package says of it is in the interface.

#include "lib/Driver/Replay.h"

#include "format/status.h"
#include "lib/Driver/OptimizerChoice.h"
#include "lib/Driver/Phases/Phases.h"
#include "lib/Driver/PluginFaults.h"
#include "trainc/Registry/Registry.h"

using namespace mlir;
using namespace trainc;

/// The pipeline of a reproducer.
static int replayPasses(Compilation &c, const ParsedReproducer &reproducer) {
  // Pipelines are read as text: passes have to be known by name.
  registerAllPasses();
  // Not destroyed after a crash.
  auto *pm = new PassManager(&c.context, ModuleOp::getOperationName());
  // The pipeline decides; then what the phase does besides.
  pm->enableTiming(c.timer);
  const int code = failed(reproducer.passes.apply(*pm))                           ? ExitInput
                   : (reproducer.phase == "schedule" && failed(readInterface(c))) ? ExitInternal
                   : failed(pm->run(*c.module))                                   ? ExitInternal
                                                                                  : ExitSuccess;
  delete pm;
  return code;
}

/// Code generation, and with -o the package.
static int replayCodegen(Compilation &c) {
  // The interface is in the functions' attributes.
  if (failed(readInterface(c)))
    return ExitInternal;
  if (int code = generateCode(c))
    return code;
  // Without -o the program is still written, as that may be the fault.
  if (c.options.output.empty())
    return makeProgram(c);
  // Defaults, where the command line of the reproducer says nothing.
  chooseOptimizer(c.options, ArtifactOptimizer());
  for (const InterfaceTensor &output : c.interface.outputs)
    if (output.isLoss)
      c.legalized.loss = output.name;
  return makePackage(c);
}

static int replay(Compilation &c, const ParsedReproducer &reproducer) {
  StringRef phase = reproducer.phase;
  // Pipelines are in the file; other phases are the code's own.
  if (phase == "graph" || phase == "schedule")
    return replayPasses(c, reproducer);
  if (c.options.onPhase)
    c.options.onPhase(phase, nullptr);
  if (phase == "legalize")
    return legalizeModel(c);
  if (phase == "codegen")
    return replayCodegen(c);
  Log::error(c.options.replay, "there is no phase '" + phase + "'");
  return ExitInput;
}

int trainc::replayPhase(Compilation &c, PhaseRunner &runner, ParsedReproducer &reproducer) {
  const std::string &phase = reproducer.phase;
  // Now with all of the module.
  if (failed(readReproducerModule(c.options.replay, c.context, reproducer)))
    return ExitInput;
  c.module = std::move(reproducer.module);
  // Packages need what only code generation makes.
  if (!c.options.output.empty() && phase != "codegen") {
    Log::error(c.options.replay, "-o goes with a reproducer of the phase 'codegen': one of '" +
                                     phase + "' makes no package");
    return ExitInput;
  }
  int code = ExitSuccess;
  const std::string signal = runner.guarded(phase, [&] { code = replay(c, reproducer); });
  if (!signal.empty())
    if (std::optional<plugin::Culprit> culprit = plugin::takeCulprit())
      return tellCulprit(*culprit, "in the phase '" + phase + "'", signal);
  // Both kinds of fault end the same way, by another text.
  if (!signal.empty() || code == ExitInternal) {
    llvm::errs() << "trainc: error: phase '" << trainrt::shown(phase) << "' "
                 << (signal.empty() ? "failed" : "crashed (" + signal + ")") << "\n";
    return ExitInternal;
  }
  if (!code)
    c.log.info() << "phase '" << trainrt::shown(phase) << "' finds no fault in "
                 << trainrt::shown(c.options.replay) << "\n";
  return code;
}
