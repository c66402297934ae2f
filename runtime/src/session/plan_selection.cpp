// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A variant takes a batch whose conditions hold, where it is cheaper.

#include "session/plan_selection.h"
#include "plan/counts.h"

#include <cassert>

namespace trainrt {

std::string describe(const Program &program, const Declined &reason) {
  const Function &variant = *reason.variant;
  assert(variant.base >= 0 && "only variants are declined");
  std::string text = "'" + program.functions[size_t(variant.base)].name + "' ran instead of '" +
                     variant.name + "' for " + std::to_string(reason.batches) +
                     (reason.batches == 1 ? " batch" : " batches") + ": condition " +
                     describe(program, variant.conditions[size_t(reason.first.condition)]);
  return text + (reason.first.row < 0
                     ? " is about values that the host does not see"
                     : " did not hold, first for row " + std::to_string(reason.first.row));
}

/// Counts each reason once for a variant, by the condition that failed.
bool PlanSelection::isDeclined(const Function &variant, const Verdict &verdict) {
  // All conditions hold.
  if (verdict.condition < 0)
    return false;
  for (Declined &reason : used.declined)
    if (reason.variant == &variant && reason.first.condition == verdict.condition &&
        (reason.first.row < 0) == (verdict.row < 0)) {
      ++reason.batches;
      return true;
    }
  used.declined.push_back({&variant, verdict, 1});
  return true;
}

const Function *PlanSelection::select(BoundBatch &batch, const Function *measure) {
  const Program &program = package->program();
  const Function &base = *batch.function;
  const Function &costs =
      measure && measure->variants.size() == base.variants.size() ? *measure : base;
  const Function *best = &base;
  // Of functions that have variants at all.
  used.batches += !base.variants.empty();
  // It has to pay for the other plans that it needs.
  constexpr double worth = 0.95;
  // Costs in operations; without a formula the first variant that may run does.
  double bestCost = costs.flops.empty() ? 0 : worth * costOf(program, costs, batch.symbols);
  for (size_t i = 0; variants && i < base.variants.size(); ++i) {
    const Function &variant = program.functions[base.variants[i]],
                   &costly = program.functions[costs.variants[i]];
    const bool compares = !costs.flops.empty() && !costly.flops.empty();
    const double cost = compares ? costOf(program, costly, batch.symbols) : 0;
    if (compares && cost > bestCost)
      continue;
    assert(i < batch.facts.verdicts.size() && "each variant was judged");
    if (isDeclined(variant, batch.facts.verdicts[i]))
      continue;
    best = &variant;
    bestCost = cost;
    if (!compares)
      break; // nothing can be said to be better
  }
  used.byVariants += best != &base;
  // The cache prefers plans that it has.
  plansOf(base).choose(program, *best, batch.symbols);
  return best;
}

PlanCache &PlanSelection::plansOf(const Function &function) {
  // A variant's plans lie with its function's.
  const Function *base =
      function.base < 0 ? &function : &package->program().functions[size_t(function.base)];
  const bool trains = base != package->eval() && base != package->lossWeight();
  return trains ? steps : evaluations;
}

Status PlanSelection::get(const Function &function, const std::vector<int64_t> &symbols,
                          const ExecutionPlan *&plan) {
  TRAINRT_TRY(plansOf(function).get(package->program(), function, symbols, plan));
  used.plans = steps.made() + evaluations.made();
  return {};
}

} // namespace trainrt
