// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From the options to the configuration of the pass `recompute`; patterns and sizes are known only
// when the functions are.

#include "lib/Driver/RecomputeChoice.h"
#include "format/status.h"
#include "lib/Report/MemoryReport.h"
#include "lib/Schedule/Memory/MemoryBudget.h"
#include "lib/Schedule/Recompute/Config.h"
#include "lib/Schedule/Recompute/Recompute.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/Format.h"
#include <chrono>

using namespace mlir;
using namespace trainc;

namespace {

/// Only proportions decide.
ProcessorSpeed speedOf(const CompileOptions &options) {
  return options.target->traits.speeds.of(options.graph.precision);
}

void report(const BudgetChoice &choice, double seconds, Log &log) {
  auto share = [&](double part) {
    return llvm::format("%.1f", choice.plainSeconds > 0 ? 100 * part / choice.plainSeconds : 0);
  };
  log.info() << "memory: " << formatBytes(choice.plain.bytes()) << " without recompute, "
             << formatBytes(choice.memory.bytes()) << " with " << choice.recomputed
             << " values computed again; by the model " << share(choice.seconds)
             << " % more time, at least " << share(choice.leastSeconds)
             << " % where a value frees its own bytes (" << choice.trials << " schedules, "
             << llvm::format("%.1f", seconds) << " s)\n";
  if (choice.batch)
    log.info() << "memory: batch " << choice.batch << " has the best predicted rate\n";
  if (!choice.config.empty())
    log.info() << "memory: the same as --recompute '" << choice.config << "'\n";
}

/// The configuration for --memory-budget; an exit code.
int chooseForOptions(MemoryTrials &trials, CompileOptions &options, Log &log, StringRef batch,
                     std::string &config) {
  auto begin = std::chrono::steady_clock::now();
  auto fail = [&](const llvm::Twine &what) {
    Log::error(options.model, "--memory-budget " + options.memoryBudget + ": " + what);
    return int(ExitInput);
  };
  MemoryBudget budget;
  parseMemoryBudget(options.memoryBudget, budget);
  if (budget.fit && !budget.bytes)
    budget.bytes = options.target->getMemoryHere();
  if (budget.fit && !budget.bytes)
    return fail("no device here whose memory could be filled; name its size: fit:40GB");
  const Sizes sizes = trials.sizes();
  if (budget.fit && (batch.empty() || !sizes(batch)))
    return fail("the largest batch to consider is not given; name it: --dim " +
                (batch.empty() ? "batch" : batch) + "=1..N");
  if (!sizes.isComplete())
    return fail("sizes have no number:" + dimOptions(sizes));
  if (!StepGraph::isStep(trials.step()))
    return fail("the model has no training step that could compute anything again");
  BudgetChoice choice;
  std::string problem;
  if (failed(chooseForBudget(trials, budget, speedOf(options), sizes, batch, choice, problem)))
    return ExitInternal;
  if (!problem.empty())
    return fail(problem);
  config = choice.config;
  if (choice.batch)
    options.offload.sizes[batch.str()] = choice.batch;
  report(choice, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(),
         log);
  return ExitSuccess;
}
} // namespace

int trainc::applyRecompute(ModuleOp module, MemoryTrials &trials, StringRef batch,
                           CompileOptions &options, Log &log, OwningOpRef<ModuleOp> &plain) {
  // Those of the program itself come with its own passes.
  log.muteRemarks(true);
  auto unmute = llvm::make_scope_exit([&] { log.muteRemarks(false); });
  RecomputePassOptions pass;
  pass.config = options.recompute;
  if (options.recompute == "list") {
    if (StepGraph::isStep(trials.step())) {
      std::string text;
      llvm::raw_string_ostream stream(text);
      printOpportunities(trials, speedOf(options), trials.sizes(), stream);
      llvm::outs() << trainrt::shownLines(text);
    }
    options.stopAfter = "graph";
    return ExitSuccess;
  }
  if (!options.memoryBudget.empty())
    if (int code = chooseForOptions(trials, options, log, batch, pass.config))
      return code;
  if (!options.report.empty()) {
    FailureOr<OwningOpRef<ModuleOp>> planned = trials.takePlain();
    if (failed(planned))
      return ExitInternal;
    plain = std::move(*planned);
  }
  if (pass.config.empty())
    return ExitSuccess;
  if (!isRecomputeConfig(pass.config)) {
    pass.config.clear();
    if (std::string problem = readRecomputeFile(options.recompute, pass.config); !problem.empty()) {
      Log::error(options.model, "--recompute: " + problem);
      return ExitInput;
    }
  }
  log.muteRemarks(false);
  PassManager pm(module.getContext(), ModuleOp::getOperationName());
  pm.addPass(createRecomputePass(pass));
  return succeeded(pm.run(module)) ? ExitSuccess : ExitInput;
}
