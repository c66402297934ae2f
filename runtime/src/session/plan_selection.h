// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which function computes a batch, with which of its plans, and what came of that so far.
#ifndef TRAINRT_SESSION_PLAN_SELECTION_H
#define TRAINRT_SESSION_PLAN_SELECTION_H

#include "plan/inputs.h"
#include "plan/plan_cache.h"

#include <string>
#include <vector>

namespace trainrt {

/// How many batches a variant could not compute for one reason.
struct Declined {
  const Function *variant = nullptr;
  Verdict first; ///< of the first of them
  int64_t batches = 0;
};

std::string describe(const Program &program, const Declined &reason);

/// Which functions and plans batches got so far.
struct PlanUse {
  int64_t plans = 0;       ///< that were made
  double buildSeconds = 0; ///< making them, and what the device makes of them
  int64_t batches = 0;     ///< of functions with variants
  int64_t byVariants = 0;  ///< of these, those that a variant computed
  std::vector<Declined> declined;
};

class PlanSelection {
public:
  void create(const Package &of, bool useVariants, bool isHost) {
    package = &of;
    variants = useVariants;
    // On a GPU, every plan has a captured graph, which is large: there are fewer.
    if (!isHost)
      steps.setCapacity(32), evaluations.setCapacity(16);
  }

  /// Which function computes the batch, whose counts become those of the plan. `measure`: a
  /// function with the same variants, by whose costs they are compared; null: the batch's own.
  const Function *select(BoundBatch &batch, const Function *measure = nullptr);
  /// A plan with these symbols, made where there is none.
  Status get(const Function &function, const std::vector<int64_t> &symbols,
             const ExecutionPlan *&plan);
  const PlanUse &use() const { return used; }
  void addBuildTime(double seconds) { used.buildSeconds += seconds; }

  // Of steps.
  size_t mostPlans() const { return steps.mostPlans(); }
  std::vector<PlanCache::Key> keys() const { return steps.keys(); }
  void restore(std::vector<PlanCache::Key> keys) { steps.restore(std::move(keys)); }

private:
  PlanCache &plansOf(const Function &function);
  bool isDeclined(const Function &variant, const Verdict &verdict);

  const Package *package = nullptr;
  bool variants = true;
  PlanCache steps{64};
  /// Of evaluations, which must not change what steps get.
  PlanCache evaluations{64};
  PlanUse used;
};

} // namespace trainrt

#endif // TRAINRT_SESSION_PLAN_SELECTION_H
