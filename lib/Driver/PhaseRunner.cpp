// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A failure that nothing was said of, or that a pass has signalled where models are not refused, is
// the compiler's fault.

#include "lib/Driver/PhaseRunner.h"

#include "format/status.h"
#include "lib/Driver/PluginFaults.h"
#include "lib/Driver/Reproducer.h"
#include "lib/Driver/SavedIR.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace trainc;

std::string PhaseRunner::guarded(StringRef phase, llvm::function_ref<void()> work) {
  // The timer is stopped even where the work crashes.
  c.timer = c.rootTimer.nest(phase);
  std::string signal = guard.run(work);
  c.timer.stop();
  // Once crashed, nothing of the compilation is destroyed.
  crashed |= !signal.empty();
  return signal;
}

std::optional<int> PhaseRunner::run(StringRef phase, llvm::function_ref<int()> work,
                                    BuildPipeline build) {
  const double begin = c.seconds();
  // The program is written from what codegen has begun with.
  // Kept for a reproducer.
  if (c.module && phase != "package")
    before = c.module->clone();
  int code = ExitSuccess;
  std::string signal = guarded(phase, [&] {
    if (c.options.onPhase && !build)
      c.options.onPhase(phase, nullptr);
    code = work();
  });
  // In this order: a crash says nothing of its code.
  if (!signal.empty())
    if (std::optional<plugin::Culprit> culprit = plugin::takeCulprit())
      return tellCulprit(*culprit, "in the phase '" + phase.str() + "'", signal);
  if (!signal.empty())
    return reportFault(phase, "crashed (" + signal + ")", build);
  if (code == ExitInternal)
    return reportFault(phase, "failed", build);
  if (code)
    return code;
  // Walking costs, so only where it is told.
  if (c.log.shows(LogLevel::debug) && c.module) {
    int64_t ops = 0;
    c.module->walk([&](Operation *) { ++ops; });
    c.log.debug() << "phase " << phase << ": " << llvm::format("%.3f", c.seconds() - begin)
                  << " s, " << ops << " ops\n";
  }
  return finish(phase);
}

std::optional<int> PhaseRunner::finish(StringRef phase) {
  const CompileOptions &options = c.options;
  // Phases before saved IR are not the user's business.
  if (!c.precedesSavedIR(phase)) {
    if (int code = c.outputs.savePhase(phase, [&](raw_ostream &out) {
          printSavedIR(*c.module, options.arguments, options.target->spell(options.processors),
                       out);
        }))
      return code;
    // Behind the files, which may show why.
    if (unsigned count = c.log.promotedWarnings()) {
      Log::error(options.model,
                 llvm::Twine(count) +
                     (count == 1 ? " warning counts as an error" : " warnings count as errors") +
                     " (--warnings-as-errors)");
      return ExitInput;
    }
  }
  if (options.stopAfter != phase)
    return std::nullopt;
  c.log.info() << "stopped after " << phase << "\n";
  return ExitSuccess;
}

/// Whether a model that cannot be compiled is found there: then a failure is the model's.
static bool mayRefuse(StringRef phase) { return phase == "graph"; }

int PhaseRunner::reportFault(StringRef phase, std::string fault, BuildPipeline build) {
  Reproducer reproducer{phase == "package" ? "codegen" : phase.str(), fault, "", {}};
  // The IR with which the phase began.
  OwningOpRef<ModuleOp> ir = std::move(before);
  std::string pass;
  // Passes run again, one at a time, to find the one.
  if (build && ir) {
    c.log.mute(true);
    FailingPass found = findFailingPass(*ir, build, guard);
    c.log.mute(false);
    const bool isCheck = StringRef(found.pipeline).contains("(verify-");
    // Errors of passes are the model's fault there, except those of checks.
    if (found.kind == FailingPass::Reported && c.printer.errors() && mayRefuse(phase) && !isCheck)
      return ExitInput;
    crashed |= found.kind == FailingPass::Crashed;
    if (found.kind == FailingPass::BrokenIR)
      reproducer.fault = fault = "made invalid IR";
    // From the failing pass on, else all of the phase.
    if (found.module) {
      ir = std::move(found.module);
      reproducer.pipeline = found.pipeline;
      pass = " in " + found.pipeline;
    } else {
      PassManager pm(&c.context, ModuleOp::getOperationName());
      build(pm);
      llvm::raw_string_ostream text(reproducer.pipeline);
      pm.printAsTextualPipeline(text);
    }
  }
  llvm::errs() << "trainc: error: phase '" << phase << "' " << fault << pass
               << "; this is a fault of the compiler\n";
  if (!ir) {
    llvm::errs() << "trainc: note: please report it with the model: there is no IR of it yet\n";
    return ExitInternal;
  }
  // Everything that decides, and no paths that this machine has alone.
  reproducer.arguments = c.options.arguments;
  // Not the device that this machine has.
  reproducer.arguments.push_back("--target=" + c.options.target->spell(c.options.processors));
  std::string file = writeReproducer(reproducer, *ir, c.outputs.package(), c.outputs.files());
  if (!file.empty())
    llvm::errs() << "trainc: note: '" << file << "' reproduces it (trainc --replay " << file
                 << ") and holds no weights: please report it\n";
  return ExitInternal;
}
