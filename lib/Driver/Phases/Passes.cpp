// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The phases that are pipelines, and the passes of those that are more.

#include "format/status.h"
#include "lib/Driver/Phases/MemoryPasses.h"
#include "lib/Driver/Phases/Phases.h"
#include "lib/Phases/Phases.h"
#include "mlir/IR/Verifier.h"
#include "trainc/Plugin/LoadedPlugins.h"
#include "trainc/Schedule/Memory/OpportunityTable.h"

using namespace mlir;
using namespace trainc;

void trainc::buildPhase(Compilation &c, StringRef phase, OpPassManager &pm) {
  if (phase == "graph") {
    buildGraphPipeline(pm, c.options.graph);
    // What is computed again changes nothing that the package offers.
    // Behind the pipeline, on all of its functions.
    if (recomputes(c.options) && !c.precedesSavedIR(phase))
      addRecompute(pm, c.options, c.log, c.budgetRefused);
  } else if (phase == "schedule") {
    buildSchedulePipeline(pm, c.options.schedule);
  } else if (phase == "codegen") {
    addOffload(pm, c.options);
  } else if (phase == "legalize") {
    plugin::addPluginPasses(pm, phase);
  }
  // What the phase leaves is checked in any case.
  pm.addPass(createVerifyPass(phase));
}

int trainc::runPlainPasses(Compilation &c, StringRef phase) {
  PassManager pm(&c.context, ModuleOp::getOperationName());
  pm.enableTiming(c.timer);
  // Passes are trusted: the check at the end is theirs.
  pm.enableVerifier(false);
  buildPhase(c, phase, pm);
  return succeeded(pm.run(*c.module)) ? ExitSuccess : ExitInternal;
}

void trainc::printPipelines(Compilation &c) {
  for (StringRef phase : {"graph", "schedule", "codegen"}) {
    PassManager pm(&c.context, ModuleOp::getOperationName());
    buildPhase(c, phase, pm);
    pm.printAsTextualPipeline(llvm::outs());
    llvm::outs() << "\n";
  }
}

LogicalResult trainc::readInterface(Compilation &c) {
  // Before the schedule: functions still have the names of the model.
  FailureOr<PackageInterface> collected = collectInterface(*c.module);
  if (failed(collected))
    return failure();
  c.interface = std::move(*collected);
  // State that the model's files hold, for the tensors of this optimizer; then its count of steps
  // goes on, too.
  // States of the checkpoint are f32.
  const std::string &format = c.options.graph.optimizerState;
  const bool narrow = !format.empty() && format != "fp32";
  const size_t taken = narrow ? 0 : takeState(c.interface, c.model.optimizerState, &c.context);
  if (taken)
    c.log.info() << "goes on after " << c.model.steps << " steps, with the optimizer's state of "
                 << "the checkpoint (" << taken << " tensors)\n";
  else if (!c.model.optimizerState.empty() && !c.options.legalize.inference)
    c.log.warning(c.options.model, "the optimizer's state in the checkpoint is not that of '" +
                                       c.options.graph.optimizer + "'" +
                                       (narrow ? " with --optimizer-state " + format : "") +
                                       " and is not taken over; it begins at zero");
  // Without its state the optimizer begins anew.
  if (!taken)
    c.model.steps = 0;
  return success();
}

/// --recompute list, which ends the compilation.
static LogicalResult listRecompute(Compilation &c) {
  c.options.stopAfter = "graph";
  std::string text;
  llvm::raw_string_ostream stream(text);
  // Trials would tell the same many times.
  c.log.muteRemarks(true);
  LogicalResult listed = listOpportunities(*c.module, trialOptions(c.options),
                                           *makeCodegen(c, /*variants=*/false), stream);
  c.log.muteRemarks(false);
  llvm::outs() << trainrt::shownLines(text);
  return listed;
}

/// The plan without recompute, of the module that the phase `graph` begins with. Nothing is told of
/// it.
static LogicalResult planPlain(Compilation &c, ModuleOp legalized) {
  c.log.mute(true);
  assert(legalized && "cloned before the phase");
  FailureOr<OwningOpRef<ModuleOp>> planned = planWithoutRecompute(
      legalized, c.options.graph, trialOptions(c.options), *makeCodegen(c, /*variants=*/false));
  c.log.mute(false);
  if (succeeded(planned))
    c.plain = std::move(*planned);
  return planned;
}

int trainc::runPhasePasses(Compilation &c, StringRef phase,
                           llvm::function_ref<void(OpPassManager &)> build) {
  // Interfaces are those behind the graph phase.
  if (phase == "schedule" && failed(readInterface(c)))
    return ExitInternal;
  OwningOpRef<ModuleOp> given;
  // Kept only where it is asked for: models are large.
  if (phase == "graph" && !c.options.report.empty() && recomputes(c.options))
    given = c.module->clone();
  if (c.options.startFrom == phase) {
    if (int code = c.takeSavedIR(phase))
      return code;
  } else {
    // Not destroyed after a crash.
    auto *pm = new PassManager(&c.context, ModuleOp::getOperationName());
    pm->enableTiming(c.timer);
    build(*pm);
    // One look at the end; which pass it was that broke something is found out where it is so.
    pm->enableVerifier(false);
    const bool succeeded =
        mlir::succeeded(pm->run(*c.module)) && mlir::succeeded(verify(*c.module));
    delete pm;
    // A budget that was refused has been told.
    if (!succeeded)
      return c.budgetRefused ? ExitInput : ExitInternal;
  }
  if (phase == "graph")
    tellWideOps(c);
  if (phase == "graph" && c.options.recompute == "list")
    return failed(listRecompute(c)) ? ExitInternal : ExitSuccess;
  return given && failed(planPlain(c, *given)) ? ExitInternal : ExitSuccess;
}
