// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From the options to the configuration of the pass `recompute`; patterns and sizes are known only
// when the functions are.

#include "lib/Driver/RecomputeChoice.h"

#include "lib/Driver/CudaDevice.h"
#include "lib/Driver/MemoryBudget.h"
#include "lib/Transforms/Recompute/Config.h"
#include "lib/Transforms/Recompute/Recompute.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/Format.h"
#include <chrono>
#include <unistd.h>

using namespace mlir;
using namespace trainc;

namespace {

bool hasLowPrecision(const CompileOptions &options) {
  return options.graph.precision != Precision::Graph && options.graph.precision != Precision::TF32;
}

int64_t deviceMemory(const CompileOptions &options) {
  return options.cuda ? getCudaMemory() : int64_t(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
}

void report(const BudgetChoice &choice, double seconds, Log &log) {
  auto share = [&](double part) {
    return llvm::format("%.1f", choice.plainSeconds > 0 ? 100 * part / choice.plainSeconds : 0);
  };
  log.info() << "memory: " << describeBytes(choice.plainPeak) << " without recompute, "
             << describeBytes(choice.peak) << " with " << choice.recomputed
             << " values computed again; by the model " << share(choice.seconds)
             << " % more time, no choice takes less than " << share(choice.leastSeconds) << " % ("
             << choice.trials << " schedules, " << llvm::format("%.1f", seconds) << " s)\n";
  if (choice.batch)
    log.info() << "memory: batch " << choice.batch << " has the best predicted rate\n";
  if (!choice.config.empty())
    log.info() << "memory: the same as --recompute '" << choice.config << "'\n";
}

/// The configuration for --memory-budget; an exit code.
int chooseForOptions(ModuleOp module, CompileOptions &options, Log &log, std::string &config) {
  auto begin = std::chrono::steady_clock::now();
  auto fail = [&](const llvm::Twine &what) {
    llvm::errs() << options.model << ": error: --memory-budget " << options.memoryBudget << ": "
                 << what << "\n";
    return int(ExitInput);
  };
  MemoryBudget budget;
  parseMemoryBudget(options.memoryBudget, budget);
  if (budget.fit && !budget.bytes)
    budget.bytes = deviceMemory(options);
  if (budget.fit && !budget.bytes)
    return fail("no device here whose memory could be filled; name its size: fit:40GB");
  SymbolBounds symbols(module);
  int64_t largestBatch = 0;
  if (budget.fit) {
    auto symbol = module.lookupSymbol<train::SymbolOp>(symbols.batch);
    if (!symbol || !symbol.getMax())
      return fail("the largest batch to consider is not given; name it: --dim " +
                  (symbols.batch.empty() ? "batch" : symbols.batch) + "=1..N");
    largestBatch = *symbol.getMax();
    symbols.values[symbols.batch] = largestBatch;
  }
  if (std::vector<std::string> unbound = symbols.unbound(); !unbound.empty())
    return fail("sizes have no number: --dim " + llvm::join(unbound, "=N --dim ") + "=N");
  MemoryTrials trials(module, options);
  if (trials.functions().empty())
    return fail("the model has no training step that could compute anything again");
  BudgetChoice choice;
  std::string problem;
  log.muteRemarks(true);
  LogicalResult chosen = chooseForBudget(trials, budget, options.cuda, hasLowPrecision(options),
                                         symbols, largestBatch, choice, problem);
  log.muteRemarks(false);
  if (failed(chosen))
    return ExitInternal;
  if (!problem.empty())
    return fail(problem);
  config = choice.config;
  if (choice.batch)
    options.offload.sizes[symbols.batch] = choice.batch;
  report(choice, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(),
         log);
  return ExitSuccess;
}
} // namespace

int trainc::applyRecompute(ModuleOp module, CompileOptions &options, Log &log) {
  RecomputePassOptions pass;
  pass.config = options.recompute;
  if (options.recompute == "list") {
    MemoryTrials trials(module, options);
    log.muteRemarks(true);
    if (!trials.functions().empty())
      printOpportunities(trials, options.cuda, hasLowPrecision(options), SymbolBounds(module),
                         llvm::outs());
    log.muteRemarks(false);
    options.stopAfter = "graph";
    return ExitSuccess;
  }
  if (!options.memoryBudget.empty())
    if (int code = chooseForOptions(module, options, log, pass.config))
      return code;
  if (pass.config.empty())
    return ExitSuccess;
  if (!isRecomputeConfig(pass.config)) {
    pass.config.clear();
    if (std::string problem = readRecomputeFile(options.recompute, pass.config); !problem.empty()) {
      llvm::errs() << options.model << ": error: --recompute: " << problem << "\n";
      return ExitInput;
    }
  }
  PassManager pm(module.getContext(), ModuleOp::getOperationName());
  pm.addPass(createRecomputePass(pass));
  return succeeded(pm.run(module)) ? ExitSuccess : ExitInput;
}
