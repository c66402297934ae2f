// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The choices themselves are passes; here is what they are asked, and what is told of an answer.

#include "lib/Driver/Phases/MemoryPasses.h"

#include "lib/Schedule/Memory/ChooseOffload.h"
#include "lib/Schedule/Memory/ChooseRecompute.h"
#include "lib/Schedule/Recompute/Recompute.h"
#include "trainc/Report/MemoryReport.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace trainc;

/// What trial schedules are made with: all that a real one depends on.
TrialOptions trainc::trialOptions(const CompileOptions &options) {
  TrialOptions trial;
  trial.target = options.target;
  trial.precision = options.graph.precision;
  trial.schedule = options.schedule;
  trial.offload = options.offload;
  trial.accumulate = options.accumulate;
  trial.world = options.world;
  trial.shards = options.shards;
  trial.density = options.density;
  trial.embedWeights = options.embedWeights;
  return trial;
}

/// A list is shown, and changes nothing.
bool trainc::recomputes(const CompileOptions &options) {
  return !options.memoryBudget.empty() ||
         (!options.recompute.empty() && options.recompute != "list");
}

/// Numbers of the model, not measured ones.
static void report(const BudgetChoice &choice, double seconds, Log &log) {
  // No time at all happens with empty graphs.
  auto share = [&](double part) {
    return llvm::format("%.1f", choice.plainSeconds > 0 ? 100 * part / choice.plainSeconds : 0);
  };
  log.info() << "memory: " << formatBytes(choice.plain.bytes()) << " without recompute, "
             << formatBytes(choice.memory.bytes()) << " with " << choice.recomputed
             << " values rematerialized; by the model " << share(choice.seconds)
             << " % more time, at least " << share(choice.leastSeconds)
             << " % where a value frees its own bytes (" << choice.trials << " schedules, "
             << llvm::format("%.1f", seconds) << " s)\n";
  // Only with "fit".
  if (choice.batch)
    log.info() << "memory: batch " << choice.batch << " has the best predicted rate\n";
  if (!choice.config.empty())
    log.info() << "memory: the same as --recompute '" << choice.config << "'\n";
}

void trainc::addRecompute(OpPassManager &pm, const CompileOptions &options, Log &log,
                          bool &refused) {
  // Either given by hand, or chosen for a budget.
  if (options.memoryBudget.empty()) {
    pm.addPass(createRecomputePass({options.recompute}));
    return;
  }
  ChooseRecomputePassOptions choose;
  // A budget that was parsed before.
  choose.budget = options.memoryBudget;
  if (MemoryBudget budget;
      parseMemoryBudget(options.memoryBudget, budget).empty() && budget.fit && !budget.bytes)
    choose.deviceMemory = options.target->getMemoryHere();
  // As text: passes are printed and read again in reproducers.
  choose.target = options.target->spell(options.processors);
  choose.precision = options.graph.precision;
  choose.fuseEpilogues = options.schedule.fuseEpilogues;
  choose.scheduleUpdates = options.schedule.scheduleUpdates;
  for (const auto &[name, size] : options.schedule.largestSizes)
    choose.largestSizes.push_back(name + "=" + std::to_string(size));
  choose.accumulate = options.accumulate;
  choose.world = options.graph.distribution == Distribution::None ? 0 : options.world;
  choose.shards = options.shards;
  choose.density = options.density;
  choose.embedWeights = options.embedWeights;
  choose.offload = options.offload.enabled;
  choose.offloadLimit = options.offload.limit;
  choose.offloadRate = options.offload.rate;
  ChooseRecomputeHooks hooks;
  hooks.muteRemarks = [&log](bool on) { log.muteRemarks(on); };
  // A budget that cannot be met is the model's or the user's fault, not the compiler's.
  hooks.onRefused = [&refused] { refused = true; };
  hooks.onChosen = [&log](const BudgetChoice &choice, double seconds) {
    report(choice, seconds, log);
  };
  pm.addPass(createChooseRecomputePass(choose, hooks));
}

void trainc::addOffload(OpPassManager &pm, const CompileOptions &options) {
  if (!options.offload.enabled)
    return;
  ChooseOffloadPassOptions choose;
  assert(options.target && "options have one");
  choose.target = options.target->name().str();
  choose.density = options.density;
  choose.limit = options.offload.limit;
  choose.rate = options.offload.rate;
  pm.addPass(createChooseOffloadPass(choose));
}
