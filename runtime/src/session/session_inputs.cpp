// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A step's batches: what they are bound to, and all memory that they need.

#include "session/session.h"

#include <chrono>

namespace trainrt {

const Function *Session::firstFunction(size_t batches, const double *weights) const {
  const bool fused = batches == 1 && source->step() && (!weights || weights[0] == 1.0);
  return fused ? source->step() : source->micro();
}

Status Session::check(const std::vector<Batch> &batches) const {
  if (batches.empty())
    return fail(Code::InvalidArgument, "a step needs at least one batch");
  const Function *function = firstFunction(batches.size(), nullptr);
  return binder.check(function ? *function : source->program().functions.front(), batches);
}

Status Session::prepare(const Function &function, const std::vector<int64_t> &symbols,
                        const ExecutionPlan *&plan) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  const int64_t before = plans.use().plans + device->builds();
  TRAINRT_TRY(plans.get(function, symbols, plan));
  if (function.usesGradients)
    TRAINRT_TRY(values.prepareGradients());
  if (plan->outputBytes > device->outputs().size())
    outputs.clear();
  Status status = device->prepare(*plan);
  if (plans.use().plans + device->builds() != before)
    plans.addBuildTime(std::chrono::duration<double>(Clock::now() - start).count());
  measure();
  return status;
}

Status Session::prepareAll(const Function &function, const std::vector<Batch> &batches,
                           const BindOptions &options) {
  if (!inference)
    TRAINRT_TRY(usable());
  TRAINRT_TRY(binder.bindAll(function, batches, options, bound));
  selected.clear();
  for (BoundBatch &batch : bound)
    selected.push_back(plans.select(batch));
  // All memory is there before anything changes.
  const ExecutionPlan *plan;
  for (size_t i = 0; i < bound.size(); ++i)
    TRAINRT_TRY(prepare(*selected[i], bound[i].symbols, plan));
  return {};
}

void Session::restorePlans(std::vector<PlanCache::Key> keys) {
  settle();
  plans.restore(std::move(keys));
}

} // namespace trainrt
