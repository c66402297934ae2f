// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What to compute again so that a step fits: --memory-budget.
#ifndef TRAINC_SCHEDULE_MEMORY_MEMORYBUDGET_H
#define TRAINC_SCHEDULE_MEMORY_MEMORYBUDGET_H

#include "trainc/Analysis/CommandTime.h"
#include "trainc/Schedule/Memory/MemoryTrials.h"
#include "trainc/Support/Obstacle.h"

namespace trainc {

/// Of --memory-budget.
struct MemoryBudget {
  /// Of all that the runtime holds, in bytes; 0: not given (with `fit`: the device's).
  int64_t bytes = 0;
  /// Of the activations and temporaries without recompute; 0: not given.
  double fraction = 0;
  /// The batch is to be chosen, too.
  bool fit = false;
};
/// 40GB, 512MiB, 1e9; nothing where it is no size.
std::optional<int64_t> parseByteSize(llvm::StringRef text);
/// SIZE (as above), FRACTION (0 < F <= 1), fit or fit:SIZE. Returns what is wrong, or "".
std::string parseMemoryBudget(llvm::StringRef text, MemoryBudget &budget);

/// Opportunities of one pattern, inside layers where there are any.
struct BudgetClass {
  /// The pattern as the configuration has it.
  std::string pattern;
  size_t count = 0;
  /// Of all of them: what computing them again takes by the model, and the bytes that are not kept.
  double seconds = 0, saved = 0;
};
/// In the order of what a byte costs.
std::vector<BudgetClass> budgetClasses(MemoryTrials &trials, ProcessorSpeed speed,
                                       const Sizes &sizes);
/// The configuration that takes the first `counts[i]` of each class.
std::string budgetConfig(llvm::ArrayRef<BudgetClass> classes, llvm::ArrayRef<size_t> counts);

/// What the search has decided against.
struct BudgetDecline {
  std::string what;
  Obstacle obstacle;
};

struct BudgetChoice {
  /// Whether it is within the budget; else it is the least that was found.
  bool fits = false;
  /// For the pass `recompute`; "": nothing is computed again.
  std::string config;
  /// All that the step holds with it, and without recompute.
  StepMemory::Total memory, plain;
  /// What it costs a step, and the least that any choice costs where a value frees no more than its
  /// own bytes, in seconds of the model.
  double seconds = 0, leastSeconds = 0, plainSeconds = 0;
  size_t recomputed = 0, trials = 0;
  int64_t batch = 0;
  std::vector<BudgetDecline> declined;
};

/// The cheapest set of opportunities with which the step is within the budget. `problem` says why
/// there is none; then `choice` is the least. `sizes` has numbers for all; with `fit` that of
/// `batchSymbol` is the most to consider.
mlir::LogicalResult chooseForBudget(MemoryTrials &trials, const MemoryBudget &budget,
                                    ProcessorSpeed speed, const Sizes &sizes,
                                    llvm::StringRef batchSymbol, BudgetChoice &choice,
                                    std::string &problem);

} // namespace trainc

#endif // TRAINC_SCHEDULE_MEMORY_MEMORYBUDGET_H
